"""Tables and sections of `probe`: targets by group, differences, skipped rows."""

from typing import TYPE_CHECKING

import polars as pl

from ...basics.printable import counted
from ...library.sentences import CORRECT
from ...requests.summary import COMPARES
from ...statistics.intervals import CONFIDENCE
from ...views import Column, Section, Table
from ...views.labels import minus
from ..finished_run import GROUP, OTHER
from ..own_table import MOST_GROUPS, ROW
from ..view import PERCENT, POINTS, Chart, P, Values, View
from .probe_columns import IS_TOP1, LOGPROB, PREFERRED

if TYPE_CHECKING:
    from .probe import ProbeRun

_MOST_REASONS = 10
_KEYS = ("condition", "split")
_GROUPS, _TARGETS, _SKIPPED = "Groups compared", "Targets compared", "Rows that were skipped"
_QUESTIONS = {
    _GROUPS: "Do the groups differ?",
    _TARGETS: "Which target does the model prefer?",
    _SKIPPED: "Which rows were skipped?",
}
_LOGARITHM = {"decimals": 2, "unit": "natural logarithm", "wrap": False}
_N = Column("n", "n", wrap=False)
_TEST = "sign flips of clusters, or of rows without a cluster"
_OF_TARGETS = pl.col("condition") != pl.col("other_condition")  # of differences; the others are of groups


def tables(run: "ProbeRun") -> list[Table]:
    """The targets by group; then, where there are any, differences of groups and of targets, and skipped rows."""
    found = [_targets(run)]
    if not (groups := _groups(run)).frame.is_empty():
        found.append(groups)
    if len(run.columns.targets) > 1:
        found.append(_target_pairs(run))
    if len(skipped := run.skipped):  # the most frequent reasons first
        counts = skipped.group_by("reason", maintain_order=True).agg(n=pl.len(), row=pl.col("row").first())
        more = len(counts) - _MOST_REASONS
        notes = [f"and {more:,} more reasons"] if more > 0 else []
        columns = [Column("reason", "reason"), Column("rows", "n"), Column("first row", "row")]
        shown = counts.sort("n", "row", descending=[True, False]).head(_MOST_REASONS)
        found.append(Table(_SKIPPED, shown, columns, notes=notes))
    return found


def sections(run: "ProbeRun") -> list[Section]:
    """The verdict and targets by group, then what differs, then what was skipped."""
    table, *others = run.tables()
    figures = [
        Chart(
            name,
            metric,
            title,
            f"{what.capitalize()} in each group.",
            label=pl.col(GROUP),
            panel="condition" if len(run.columns.targets) > 1 else None,
            zero=metric != LOGPROB,
            scale=scale,
            unit="%" if scale == 100 else str(_LOGARITHM["unit"]),
        ).figure(run, table)
        for name, metric, title, scale, what in (
            ("correct", CORRECT, "correct", 100, "the share of right answers"),
            ("first-choice", IS_TOP1, "first choice", 100, "the share of rows whose target is the first choice"),
            ("log-probability", LOGPROB, "log-probability", 1, "the mean log-probability"),
        )
        if metric in run.metrics
    ]
    said = {_SKIPPED: run.remarks()}
    return [
        Section("How probable are the targets?", _verdict(run), figures=figures),
        *(Section(_QUESTIONS[own.title], said.get(own.title, []), tables=[own]) for own in others),
    ]


def _verdict(run: "ProbeRun") -> list[str]:
    """How often the model is right, or else how often the target is its first choice; and whether groups differ."""
    asked = f"{counted(len(run.asked), 'target')} in {counted(run.asked[ROW].n_unique(), 'sentence')}"
    metric, what = (CORRECT, "is right") if CORRECT in run.metrics else (IS_TOP1, "has the target as its first choice")
    shares = [
        run.estimate(target, metric, 100, " %", 1) + (f" ({target})" if len(run.columns.targets) > 1 else "")
        for target in run.columns.targets
    ]
    said = [f"{run.model_name} was asked about {asked}. It {what} in {', '.join(shares)}."]
    tests = run.labelled.filter(COMPARES & ~_OF_TARGETS).drop_nulls("p")
    if tests.is_empty():
        return said
    found, n = tests.filter(pl.col("p_holm") < 1 - CONFIDENCE), counted(len(tests), "test")
    if found.is_empty():
        return [*said, f"No difference between groups is shown: p (Holm) is 0.05 or more ({n})."]
    named = ", ".join(dict.fromkeys(" and ".join(sides) for sides in found.select(GROUP, OTHER).iter_rows()))
    return [*said, f"Groups differ: p (Holm) is below 0.05 in {len(found):,} of {n} ({named})."]


def _targets(run: "ProbeRun") -> Table:
    notes = ["first choice: rows in which the target is the model's first choice"]
    judged = CORRECT in run.metrics
    if judged:
        notes.append("correct: a wanted target is the first choice, or an unwanted one is not")
    for column in run.columns.groups:
        n = run.asked[run.grouped[column]].drop_nulls().n_unique()
        if n > MOST_GROUPS:
            notes.append(f"{column} has {n:,} values; more than {MOST_GROUPS} are not compared with each other")
    return View(
        "Targets by group: {model}",
        _KEYS,
        [
            *_target(run),
            Column("group", "split"),
            _N,
            Values("first choice", IS_TOP1, interval=True, style=PERCENT),
            *([Values("correct", CORRECT, interval=True, style=PERCENT)] if judged else []),
            Values("log-probability", LOGPROB, interval=True, style=_LOGARITHM),
        ],
        section="condition",
        notes=notes,
    ).table(run)


def _groups(run: "ProbeRun") -> Table:
    notes = ["first group minus second"]
    if run.columns.groups and run.columns.item is None:
        notes.append("groups have no test: name the column that the rows of a minimal pair share with --item")
    keys = [["condition", "pair", run.grouped[column]] for column in run.columns.groups]
    if run.columns.item and any(run.asked.select(own).drop_nulls().is_duplicated().any() for own in keys):
        notes.append("several rows of an item in a group count by their mean here, and one by one in the rates above")
    where = ~_OF_TARGETS
    # What both groups have in common stands there once.
    second = pl.when(pl.col("column").n_unique().over("condition") > 1).then("other_split").otherwise(OTHER)
    return View(
        _GROUPS,
        _KEYS,
        [
            *_target(run),
            Column("groups", "split"),
            _N,
            *_difference(run, LOGPROB, where),
            *_difference(run, IS_TOP1, where),
        ],
        where=where,
        texts={"split": minus(GROUP, second)},
        section="condition",
        notes=notes,
        compares=True,
        test=_TEST,
    ).table(run)


def _target_pairs(run: "ProbeRun") -> Table:
    return View(
        _TARGETS,
        _KEYS,
        [
            Column("targets", "condition"),
            Column("group", "split"),
            _N,
            Values("preferred", PREFERRED, interval=True, style=PERCENT),
            *_difference(run, LOGPROB, _OF_TARGETS),
        ],
        where=_OF_TARGETS,
        texts={"condition": minus("condition", "other_condition")},
        section="condition",
        notes=[
            "preferred: rows in which the first target is more probable than the second",
            "log-probability: first target minus second",
        ],
        compares=True,
        test=_TEST,
    ).table(run)


def _target(run: "ProbeRun") -> list[Column]:
    return [Column("target", "condition")] if len(run.columns.targets) > 1 else []


def _difference(run: "ProbeRun", metric: str, where: pl.Expr) -> list[Column | Values]:
    heading, style = ("first choice", POINTS)
    if metric == LOGPROB:
        heading, style = "log-probability", {**_LOGARITHM, "signed": True}
    found: list[Column | Values] = [Values(heading, metric, interval=True, style=style)]
    tested = run.summary.filter(COMPARES, where, metric=metric).drop_nulls("p")
    return found if tested.is_empty() else [*found, Column("p (Holm)", f"{metric}_p_holm", **P)]
