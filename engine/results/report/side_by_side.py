"""Several runs of one kind: one chart a question with all models, paired differences, the table that a paper prints."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import polars as pl

from ...basics.errors import InputError
from ...library.registry import experiment
from ...library.run import Run
from ...views import Column, Figure, Section, Table
from ...views.charts import Lines, Points
from ..comparison.compare import compare, differences_table
from ..comparison.estimates import GROUP, MODEL, PRINTED, models_in_rows
from ..comparison.runs import labels
from .chapters import chapter
from .page import Chapter

_MOST_ROWS = 40  # of a chart; more differences are in the table alone


def title(runs: Sequence[Run]) -> str:
    """The heading of a report."""
    own = experiment(runs[0].stage)
    what = (own.title or own.name) if own else runs[0].stage
    return f"{what}: {', '.join(labels(runs))}"


def chapters(runs: Sequence[Run]) -> list[Chapter]:
    """A chapter for each run; before them one with all runs, if there are several."""
    names = labels(runs)
    single = [chapter(run, name) for run, name in zip(runs, names, strict=True)]
    return single if len(runs) == 1 else [_together(runs, names, single), *single]


def _together(runs: Sequence[Run], names: Sequence[str], single: Sequence[Chapter]) -> Chapter:
    sections = []
    by_title = [{section.title: section for section in other.sections} for other in single]
    for section in single[0].sections:
        others = [other.get(section.title) for other in by_title]
        figures, tables = [], []
        for figure in (own for own in section.figures if own.joint):
            same = [[own for own in other.figures if own.name == figure.name] if other else [] for other in others]
            present = [(name, own[0]) for name, own in zip(names, same, strict=True) if own]
            figures.append(_joined(present))
            tables += _printed(present)
        if figures:
            sections.append(Section(section.title, figures=figures, tables=tables))
    sections += _differences(runs, names)
    return Chapter("Side by side", sections, [f"{len(runs)} runs: {', '.join(names)}."])


def _joined(figures: Sequence[tuple[str, Figure]]) -> Figure:
    """One figure with a series for each run. A run's own series, such as published values, keep their names."""
    first, plot = figures[0][1], figures[0][1].plot
    assert isinstance(plot, Points | Lines)  # noqa: S101 - the kinds of charts that have series
    inner = plot.series if isinstance(plot, Points) else None
    frames = []
    for name, figure in figures:
        said = pl.lit(name)
        if inner:  # such as `source`: the model itself, or the paper
            for other in ("paper", "majority baseline"):
                said = pl.when(pl.col(inner) == other).then(pl.lit(f"{name}, {other}")).otherwise(said)
        frames.append(figure.plot.data.with_columns(said.alias(MODEL)))
    data = pl.concat(frames, how="diagonal_relaxed")
    if isinstance(plot, Points):
        drawn: Points | Lines = replace(plot, data=data, series=MODEL)
    else:
        drawn = replace(plot, data=data, series=MODEL, panel=plot.series)
    tables = [figure.table.frame.select(pl.lit(name).alias(MODEL), pl.all()) for name, figure in figures]
    widest = max((figure.table for _, figure in figures), key=lambda table: len(table.columns))
    frame = pl.concat(tables, how="diagonal_relaxed")
    table = replace(
        widest,
        title=widest.title.partition(":")[0],
        frame=frame,
        section=MODEL,
        columns=[Column(MODEL, MODEL), *widest.columns],
        notes=_notes([(name, figure.table) for name, figure in figures]),
    )
    said_alt = " ".join(f"{name}: {figure.alt}" for name, figure in figures)
    wide = first.wide or isinstance(drawn, Lines)
    return Figure(f"all-{first.name}", drawn, table, said_alt, first.caption, wide=wide)


def _notes(tables: Sequence[tuple[str, Table]]) -> list[str]:
    """The notes of all tables: one that all of them have once, any other with the name of its run."""
    common = set.intersection(*(set(table.notes) for _, table in tables))
    shared = [note for note in tables[0][1].notes if note in common]
    return shared + [f"{name}: {note}" for name, table in tables for note in table.notes if note not in common]


def _printed(figures: Sequence[tuple[str, Figure]]) -> list[Table]:
    """The table that a paper prints: runs in rows, categories in columns, intervals beside."""
    plot = figures[0][1].plot
    if not isinstance(plot, Points) or plot.panel:
        return []
    categories = plot.data[plot.y].unique(maintain_order=True).to_list()
    if len(categories) > PRINTED:
        return []
    ends = {"low": plot.low, "high": plot.high} if plot.low and plot.high else {}
    points = []
    for name, figure in figures:
        own = figure.plot.data
        if plot.series:
            own = own.filter(~pl.col(plot.series).is_in(["paper", "majority baseline"]))
        points.append(own.select(pl.lit(name).alias(MODEL), category=plot.y, value=plot.x, **ends))
    return [models_in_rows(f"Models in rows: {plot.title}", pl.concat(points))]


def _differences(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    try:
        contrast = runs[0].contrast(runs)
        comparison = compare(*runs)
    except InputError as error:  # such as runs without a common item: side by side, but without a test
        return [Section("Paired differences", [f"There are no paired tests: {error}."])]
    if contrast is not None:
        return [Section(contrast.question, tables=comparison.tables())]
    found = comparison.frame
    said = ["Every difference is that of the first model minus the second, on the items that both runs have."]
    figures: list[Figure] = []
    tables: list[Table] = []
    for first, second in combinations(names, 2):
        own = found.filter((pl.col("first") == first) & (pl.col("second") == second))
        if own.is_empty():
            said.append(f"{first} and {second} have no test: they have no item in common.")
            continue
        table = differences_table(f"{first} − {second}, on the items of both runs", own, GROUP, runs[0].clusters)
        drawn = _difference_figure(own, table, first, second, len(figures) + 1)
        figures += drawn
        tables += [] if drawn else [table]
    return [Section("Paired differences", said, figures=figures, tables=tables)]


def _difference_figure(frame: pl.DataFrame, table: Table, first: str, second: str, number: int) -> list[Figure]:
    """A chart of the differences in percentage points; none if there are too many."""
    points = frame.filter(pl.col("unit") != "")
    if len(points) > _MOST_ROWS:
        points = points.filter(pl.col("split") == "all")
    if not 0 < len(points) <= _MOST_ROWS:
        return []
    keys = [name for name in GROUP if points[name].n_unique() > 1] or ["split"]
    end = "_two_way" if points["low_two_way"].null_count() == 0 else ""
    named = points.with_columns(what=pl.concat_str(keys, separator=" "), low=f"low{end}", high=f"high{end}")
    axis = f"{first} − {second} (percentage points)"
    plot = Points(named, x="difference", y="what", low="low", high="high", title=axis)
    alt = f"A point for each difference of {first} and {second}, with its interval."
    caption = "Paired differences with 95 % intervals. Where an interval does not hold zero, the models differ."
    return [Figure(f"differences-{number}", plot, table, alt, caption)]
