"""Tables and sections of `probe`: targets by group, differences, skipped rows."""

from typing import TYPE_CHECKING, Any

import polars as pl

from ...basics.printable import counted
from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..own_table import ROW
from ..summary import DIFFERENCE, HOLM, P_VALUE, VERSUS, correction_note
from .probe_items import IS_TOP1, LOGPROB, MOST_COMPARED, PREFERRED, TESTED
from .probe_sentences import Columns

if TYPE_CHECKING:
    from .probe import ProbeRun

_MOST_REASONS = 10
_KEYS = ("condition", "split")


def tables(summary: pl.DataFrame, model: str, columns: Columns, skipped: pl.DataFrame) -> list[Table]:
    """The targets by group; then, where there are any, differences of groups and of targets, and skipped rows."""
    found = [_targets(summary, model, columns)]
    if not (groups := _groups(summary, columns)).frame.is_empty():
        found.append(groups)
    if len(columns.targets) > 1:
        found.append(_target_pairs(summary))
    return [*found, _skipped(skipped)] if len(skipped) else found


_GROUPS, _TARGETS, _SKIPPED = "Groups compared", "Targets compared", "Rows that were skipped"
_QUESTIONS = {
    _GROUPS: "Do the groups differ?",
    _TARGETS: "Which target does the model prefer?",
    _SKIPPED: "Which rows were skipped?",
}


def sections(run: "ProbeRun") -> list[Section]:
    """Targets by group, then what differs, then what was skipped."""
    table, *others = run.tables()
    asked = f"{counted(len(run.items), 'target')} in {counted(run.items[ROW].n_unique(), 'sentence')}"
    first = Section(
        "How probable are the targets?",
        [f"{run.model_name} was asked about {asked}."],
        figures=[_figure(run, table, IS_TOP1), _figure(run, table, LOGPROB)],
    )
    said = {_SKIPPED: run.remarks()}
    return [first, *(Section(_QUESTIONS[own.title], said.get(own.title, []), tables=[own]) for own in others)]


def _targets(summary: pl.DataFrame, model: str, columns: Columns) -> Table:
    """A row for each target and group: how often the target is the first choice, and its mean log-probability."""
    parts = [
        summary.filter(pl.col("metric") == metric).select(
            *_KEYS, *(["n", "clusters"] if metric == IS_TOP1 else []), *_named(metric)
        )
        for metric in TESTED
    ]
    frame = parts[0].join(parts[1], on=_KEYS, how="left", maintain_order="left")
    frame = frame.filter(~pl.col("split").str.contains(VERSUS, literal=True))
    shown = [
        *([Column("target", "condition")] if len(columns.targets) > 1 else []),
        Column("group", "split"),
        Column("n", "n", wrap=False),
        *([Column("clusters", "clusters", wrap=False)] if frame["clusters"].null_count() < len(frame) else []),
        Column("first choice", IS_TOP1, **_ends(IS_TOP1), **_percent()),
        Column("log-probability", LOGPROB, **_ends(LOGPROB), decimals=2, wrap=False),
    ]
    notes = ["first choice: rows in which the target is the model's first choice; means with 95 % intervals"]
    for column in columns.groups:
        n = frame.filter(pl.col("split").str.starts_with(f"{column}="))["split"].n_unique()
        if n > MOST_COMPARED:
            notes.append(f"{column} has {n:,} values; more than {MOST_COMPARED} are not compared with each other")
    return Table(f"Targets by group: {model}", frame, shown, section="condition", notes=notes)


def _groups(summary: pl.DataFrame, columns: Columns) -> Table:
    """A row for each two groups of a column: their difference."""
    frame = _differences(summary, pl.col("split").str.contains(VERSUS, literal=True))
    sides = pl.col("split").str.split(VERSUS)
    group = pl.format("{} − {}", sides.list.first(), sides.list.last().str.replace("^[^=]*=", ""))
    shown = [
        *([Column("target", "condition")] if len(columns.targets) > 1 else []),
        Column("groups", "split"),
        Column("n", "n", wrap=False),
        Column("log-probability", LOGPROB, signed=True, decimals=2, **_ends(LOGPROB)),
        *_p(frame, LOGPROB),
        Column("first choice", IS_TOP1, signed=True, **_percent("points"), **_ends(IS_TOP1)),
        *_p(frame, IS_TOP1),
    ]
    notes = ["first group minus second, with 95 % intervals", *_tests(summary, frame)]
    if columns.groups and columns.item is None:
        notes.append("groups have no test: name the column that the rows of a minimal pair share with --item")
    frame = frame.with_columns(label=group)
    return Table(_GROUPS, frame, shown, section="condition", notes=notes, texts={"split": "label"})


def _target_pairs(summary: pl.DataFrame) -> Table:
    """A row for each two targets and group: how often the first target is the more probable one, and by how much."""
    preferred = summary.filter(pl.col("metric") == PREFERRED).select(*_KEYS, *_named(PREFERRED))
    frame = preferred.join(_differences(summary, pl.lit(value=True)), on=_KEYS, how="left", maintain_order="left")
    sides = pl.col("condition").str.split(VERSUS)
    shown = [
        Column("targets", "condition"),
        Column("group", "split"),
        Column("n", "n", wrap=False),
        Column("preferred", PREFERRED, **_percent(), **_ends(PREFERRED)),
        Column("log-probability", LOGPROB, signed=True, decimals=2, **_ends(LOGPROB)),
        *_p(frame, LOGPROB),
    ]
    notes = [
        "preferred: rows in which the first target is more probable than the second",
        "log-probability: first target minus second, with 95 % intervals",
        *_tests(summary, frame),
    ]
    frame = frame.with_columns(label=pl.format("{} − {}", sides.list.first(), sides.list.last()))
    return Table(_TARGETS, frame, shown, section="condition", notes=notes, texts={"condition": "label"})


def _skipped(skipped: pl.DataFrame) -> Table:
    """The reasons why rows were skipped, the most frequent ones first."""
    counts = skipped.group_by("reason", maintain_order=True).agg(n=pl.len(), row=pl.col("row").first())
    counts = counts.sort("n", "row", descending=[True, False])
    more = len(counts) - _MOST_REASONS
    notes = [f"and {more:,} more reasons"] if more > 0 else []
    columns = [Column("reason", "reason"), Column("rows", "n"), Column("first row", "row")]
    return Table(_SKIPPED, counts.head(_MOST_REASONS), columns, notes=notes)


def _differences(summary: pl.DataFrame, wanted: pl.Expr) -> pl.DataFrame:
    """The differences of every metric beside each other, with their p."""
    rows = summary.filter(wanted)
    frame = rows.filter(pl.col("metric") == f"{DIFFERENCE}:{LOGPROB}").select(*_KEYS, "n", "clusters")
    for metric in TESTED:
        shown = {f"{DIFFERENCE}:{metric}": _named(metric)}
        shown |= {f"{kind}:{metric}": [pl.col("value").alias(f"{kind}_{metric}")] for kind in (P_VALUE, HOLM)}
        for name, columns in shown.items():
            own = rows.filter(pl.col("metric") == name).select(*_KEYS, *columns)
            frame = frame.join(own, on=_KEYS, how="left", maintain_order="left")
    return frame


def _p(frame: pl.DataFrame, metric: str) -> list[Column]:
    """The column of the corrected p, where there are tests."""
    name = f"{HOLM}_{metric}"
    tested = frame[name].null_count() < len(frame)
    return [Column("p (Holm)", name, significant=2, wrap=False)] if tested else []


def _tests(summary: pl.DataFrame, frame: pl.DataFrame) -> list[str]:
    """What the tests of a table are, where it has any."""
    adjusted = summary.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))
    if adjusted.is_empty() or frame[f"{HOLM}_{LOGPROB}"].null_count() == len(frame):
        return []
    return [correction_note(adjusted.row(0, named=True), "sign flips of clusters, or of rows without a cluster")]


def _ends(metric: str) -> dict[str, Any]:
    return {"low": f"{metric}_low", "high": f"{metric}_high"}


def _named(metric: str) -> list[pl.Expr]:
    ends = (pl.col(end).alias(f"{metric}_{end}") for end in ("low", "high"))
    return [pl.col("value").alias(metric), *ends]


def _percent(unit: str = "%") -> dict[str, Any]:
    return {"decimals": 1, "scale": 100, "unit": unit, "wrap": False}


def _figure(run: "ProbeRun", table: Table, metric: str) -> Figure:
    scale, title = (100, "first choice (%)") if metric == IS_TOP1 else (1, "log-probability")
    data = table.frame.select(
        "condition", "split", *(pl.col(f"{metric}{end}") * scale for end in ("", "_low", "_high"))
    )
    what = "the share of rows whose target is the first choice" if metric == IS_TOP1 else "the mean log-probability"
    return Figure(
        "first-choice" if metric == IS_TOP1 else "log-probability",
        Points(
            data,
            x=metric,
            y="split",
            low=f"{metric}_low",
            high=f"{metric}_high",
            series="condition" if len(run.columns.targets) > 1 else None,
            title=title,
            zero=metric == IS_TOP1,
        ),
        table,
        f"A point for {what} in each group of rows.",
        f"{what.capitalize()} in each group, with 95 % intervals.",
        joint=True,
    )
