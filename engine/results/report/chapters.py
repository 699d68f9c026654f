"""The chapters of a report: each run, and before them, side by side, several runs of one kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import polars as pl

from ...basics.apart import stems
from ...basics.choices import Precision
from ...basics.errors import InputError
from ...basics.numerals import FRACTION, POINTS
from ...basics.printable import counted, isolated
from ...experiments.registry import experiment
from ...experiments.view import PERCENT
from ...inference.audit import audit_sentences, audit_summary
from ...library.run import Run
from ...runs.record import read_run
from ...views import Column, Figure, Section, Table
from ...views.charts import Lines, Points
from ...views.labels import told_apart
from ..comparison.compare import between, compare, differences_table
from ..comparison.estimates import (
    MODEL,
    SHOWN,
    TEXTS,
    category,
    differing,
    labelled,
)
from ..comparison.runs import labels, other_vocabularies
from .chosen_sentences import YES_NO
from .page import Chapter
from .single_sentences import asked, examples, terms

_COLUMNS = {
    **dict.fromkeys(("stage", "pattern", "precision", "reason"), pl.String),
    **dict.fromkeys(("bound", "close", "speedup"), pl.Float64),
    "sentences": pl.Int64,
}
COMPARED = "How do the models compare?"
_LONGEST = 300  # characters; longer values, such as pattern sets, are in run.json
_MOST_ROWS = 40  # of a chart; more differences are in the table alone


def chapter(run: Run, title: str) -> Chapter:
    """Everything about a run, from the answer to what made it."""
    own = experiment(run.stage)
    sections = list(own.sections(run)) if own else [Section("Results", run.remarks(), tables=run.tables())]
    sections[0] = replace(sections[0], is_answer=True)
    parts = [*asked(run), *sections, *_contrasts(run), *examples(run), *precision(run), provenance(run)]
    return Chapter(title, parts, terms=terms(run))


def _contrasts(run: Run) -> list[Section]:
    """What a run compares within itself."""
    try:
        own = run.contrast([run])
    except InputError:  # such as a selection, which has no outcomes
        return []
    return [] if own is None else [Section(own.question, tables=compare(run).tables())]


def precision(run: Run) -> list[Section]:
    """The section; none for a run whose precision is not a choice."""
    stages = {name: stage for name, stage in read_run(run.folder).stages.items() if stage.calibration}
    if not stages:
        return []
    rows = [
        {"stage": name, "pattern": pattern, **{key: choice.get(key) for key in list(_COLUMNS)[2:]}}
        for name, stage in stages.items()
        for pattern, choice in (stage.calibration or {}).items()
    ]
    frame = pl.DataFrame(rows, schema=_COLUMNS, strict=False)
    columns = [
        Column("stage", "stage"),
        Column("pattern", "pattern"),
        Column("precision", "precision"),
        Column("reason", "reason"),
        Column("bound", "bound", decimals=3, unit="logits"),
        Column("close calls", "close", **PERCENT),
        Column("speed of fp32 ×", "speedup", decimals=2),
        Column("measured on", "sentences", unit="sentences"),
    ]
    known = [column for column in columns if column.value and frame[column.value].null_count() < len(frame)]
    table = Table("Precision of each pattern", frame, known)
    said = []
    for name, stage in stages.items():
        found = audit_summary(stage.counts)
        is_exact = found["kind"] == Precision.FP32
        sentences = ["the reference model (fp32) made every decision."] if is_exact else audit_sentences(found)
        said += [f"{name}: {sentence}" for sentence in sentences]
    return [Section("How exact are the decisions?", said, tables=[table])]


def provenance(run: Run) -> Section:
    """Model, data, settings, versions, machines and digests."""
    record = read_run(run.folder)
    sessions = {
        f"{name}, session {i}": msgspec.to_builtins(own)
        for name, stage in record.stages.items()
        for i, own in enumerate(stage.sessions, 1)
    }
    shown = dict(list(sessions.items())[-8:])
    exports = [stage.metadata["export"] for stage in record.stages.values() if "export" in stage.metadata]
    models = {own["name"]: {key: value for key, value in own.items() if key != "files"} for own in exports}
    tables = [
        *([_table("The exported model", models)] if models else []),
        _table("What the results depend on", {name: stage.identity for name, stage in record.stages.items()}),
        _table("Sessions: one for each process that worked on the run", shown),
        _table("Result files and their SHA-256", {name: stage.files for name, stage in record.stages.items()}),
    ]
    seconds = sum(own.get("seconds") or 0 for own in sessions.values())
    made = f"The run was made with negengine {record.negengine}, in {counted(len(sessions), 'session')}"
    said = [
        f"{made} of {seconds:,.0f} seconds together.",
        "run.json in the run folder has these fields and all others.",
    ]
    left = len(sessions) - len(shown)
    notes = [f"{left} earlier sessions are not shown"] if left else []
    return Section("What made this run?", said, tables=tables, notes=notes)


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, list) and value and all(isinstance(own, Mapping) for own in value):  # such as workers
        value = {str(number): own for number, own in enumerate(value, 1)}
    if isinstance(value, Mapping):
        for key, own in value.items():
            yield from _flat(own, f"{place}, {key}" if place else str(key))
    elif value is not None:
        words = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        words = YES_NO[not value] if isinstance(value, bool) else words
        yield place, words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _table(title: str, stages: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = [(stage, key, text) for stage, values in stages.items() for key, text in _flat(values) if text]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(("stage", "key", "value"), pl.String), orient="row")
    named = [Column("", "stage")] if len(stages) > 1 else []
    return Table(title, frame, [*named, Column("what", "key"), Column("value", "value")], section="stage")


def title(runs: Sequence[Run]) -> str:
    """The heading of a report."""
    own = experiment(runs[0].stage)
    what = (own.title or own.name) if own else runs[0].stage
    return f"{what}: {', '.join(labels(runs))}"


def chapters(runs: Sequence[Run]) -> list[Chapter]:
    """A chapter for each run; before them one with all runs, if there are several."""
    names = labels(runs)
    single = [chapter(run, name) for run, name in zip(runs, names, strict=True)]
    if len(runs) == 1:
        return single
    sections = []
    parts = [(name, part) for name, own in zip(names, single, strict=True) for part in own.sections]
    figures = [(name, figure) for name, part in parts for figure in part.figures if figure.joint]
    for section in single[0].sections:
        wanted = [figure.name for figure in section.figures if figure.joint]
        if drawn := [joined([own for own in figures if own[1].name == name]) for name in wanted]:
            sections.append(Section(section.title, figures=drawn))
    differences, alike = _differences(runs, names)
    said = [f"{len(runs)} runs: {', '.join(names)}.", *(f"{note[:1].upper()}{note[1:]}." for note in alike)]
    together = Chapter("Side by side", [*sections, *differences], said, single[0].terms)
    return [together, *single]


def joined(figures: Sequence[tuple[str, Figure]]) -> Figure:
    """One figure with a series for each run. A run's own series, such as published values, keep their names."""
    first, plot = figures[0][1], figures[0][1].plot
    assert isinstance(plot, Points | Lines)  # noqa: S101 - the kinds of charts that have series
    data = pl.concat([own.plot.data.with_columns(run=pl.lit(name)) for name, own in figures], how="diagonal_relaxed")
    if "is_own" in data.columns:  # beside others, such as the paper's points
        source = pl.when("is_own").then(None).otherwise("source").alias("source")
        said = pl.concat_str("run", "source", separator=", ", ignore_nulls=True)
        data = data.with_columns(source).with_columns(
            told_apart(data.with_columns(source), ["run", "source"], said).alias(MODEL)
        )
    else:
        data = data.with_columns(pl.col("run").alias(MODEL))
    panel = plot.panel if isinstance(plot, Points) else plot.series
    drawn = replace(plot, data=data, series=MODEL, panel=panel)
    tables = [figure.table.frame.select(pl.lit(name).alias(MODEL), pl.all()) for name, figure in figures]
    widest = max((figure.table for _, figure in figures), key=lambda own: sum(len(one.names) for one in own.columns))
    frame = pl.concat(tables, how="diagonal_relaxed")
    # A note that all tables have stands there once, any other with the name of its run.
    common = set.intersection(*(set(figure.table.notes) for _, figure in figures))
    notes = [note for note in figures[0][1].table.notes if note in common]
    notes += [f"{name}: {note}" for name, figure in figures for note in figure.table.notes if note not in common]
    columns = [Column(MODEL, MODEL), *widest.columns]
    title = f"{plot.axis[:1].upper()}{plot.axis[1:]}, by model"
    table = replace(widest, title=title, frame=frame, section=MODEL, columns=columns, notes=notes, leads=MODEL)
    alt = " ".join(f"{name}: {figure.alt}" for name, figure in figures)
    return Figure(f"all-{first.name}", drawn, table, alt, first.caption, wide=first.wide or isinstance(drawn, Lines))


def _differences(runs: Sequence[Run], names: Sequence[str]) -> tuple[list[Section], list[str]]:
    """The figures of runs with their tests, and whether they have the same items."""
    try:
        contrast = runs[0].contrast(runs)
        comparison = compare(*runs)
    except InputError as error:  # such as runs without a common item: side by side, but without a test
        return [Section("Paired differences", [f"There are no paired tests: {error}."])], []
    if contrast is not None:
        return [Section(contrast.question, tables=comparison.tables())], []
    said = ["Every difference is that of the first model minus the second, on the items that both runs have."]
    said += [f"{line[:1].upper()}{line[1:]}." for line in other_vocabularies(runs, comparison.frame)]
    figures: list[Figure] = []
    tables: list[Table] = []
    pairs = list(combinations(names, 2))
    files = stems([f"differences {first} minus {second}" for first, second in pairs])
    for (first, second), file in zip(pairs, files, strict=True):
        own = comparison.frame.filter(first=first, second=second)
        if own.is_empty():
            said.append(f"{first} and {second} have no test: they have no item in common.")
            continue
        table = differences_table(between(first, second), own, SHOWN, runs[0].clusters)
        drawn = _difference_figure(own, table, first, second, file)
        figures += drawn
        tables += [] if drawn else [table]
    both = Section("Paired differences", said, figures=figures, tables=tables)
    return [Section(COMPARED, tables=comparison.before), both], list(comparison.other)


def _difference_figure(frame: pl.DataFrame, table: Table, first: str, second: str, name: str) -> list[Figure]:
    points = frame.filter(pl.col("unit") == FRACTION)
    if len(points) > _MOST_ROWS:
        points = points.filter(pl.col("column").is_null())
    if not 0 < len(points) <= _MOST_ROWS:
        return []
    points = labelled(points).with_columns(pl.col("difference", "low", "high") * 100)
    named = points.with_columns(category(points, differing(points) or ["split"], TEXTS).alias("what"))
    sides = f"{isolated(first)} − {isolated(second)}"
    plot = Points(named, x="difference", y="what", low="low", high="high", n="n", title=sides, unit=POINTS)
    alt = f"A point for each difference of {first} and {second}, with its interval."
    caption = f"Paired differences of {isolated(first)} and {isolated(second)}. The table has the tests."
    return [Figure(name, plot, table, alt, caption)]
