"""Tables and figures of an experiment as declarations: what a person reads of summary.parquet.

A `View` puts the values of several metrics beside each other, with the paper's where the model is one of the paper's; a
`Chart` draws a metric. `View.table(run)` and `Chart.figure(run)` are printed in every format, shown in reports and
written to files; the frame of a table has each value in full in a column of its own: `accuracy`, `accuracy_low`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ..requests.items import ALL, ORIGINAL
from ..requests.summary import (
    DIFFERENCE,
    HOLM,
    P_VALUE,
    VERSUS,
    correction_note,
    detectable_note,
    differences_in,
    disagreements,
)
from ..views import Column, Figure, Table
from ..views.charts import Points
from .finished_run import SummaryRun
from .published import CELL, Paper

EVERY = pl.lit(value=True)
PERCENT: Mapping[str, Any] = {"decimals": 1, "scale": 100, "unit": "%", "wrap": False}
POINTS: Mapping[str, Any] = {**PERCENT, "signed": True, "unit": "percentage points"}
P: Mapping[str, Any] = {"significant": 2, "wrap": False}
BESIDE = "in brackets"
"""Where the paper's figures stand if they have no column of their own."""
PAPER = "paper"
"""The series of the paper's figures in a chart."""
_ENDS = {"value": "{}", "low": "{}_low", "high": "{}_high"}
_PRINTED = {"published": "published {}", "printed": "printed {}"}


@dataclass(frozen=True)
class Values:
    """One column of a view: the values of a metric, and of other metrics in the same cells."""

    heading: str
    metric: str
    interval: bool = False
    beside: str | None = None  # a metric that stands in brackets
    spread: str | None = None  # a metric that stands behind ±
    p: str | None = None  # a metric with the p of this one
    paper: str = ""  # `BESIDE`, or the heading of a column for the paper's figures; nothing is shown where it has none
    style: Mapping[str, Any] = field(default_factory=lambda: PERCENT)

    def columns(self, *, has_paper: bool) -> list[Column]:
        printed = f"published {self.metric}"
        ends: dict[str, Any] = {end: f"{self.metric}_{end}" for end in ("low", "high") if self.interval}
        beside = printed if has_paper and self.paper == BESIDE else self.beside
        own = Column(self.heading, self.metric, beside=beside, spread=self.spread, p=self.p, **ends, **self.style)
        return [own, Column(self.paper, printed, **self.style)] if has_paper and self.paper != BESIDE else [own]


@dataclass(frozen=True)
class View:
    """A table of values of the summary."""

    title: str  # `{model}` in it is the model's name
    keys: Sequence[str]  # the columns of the summary that name a row of the table
    # From left to right; a `Column` shows keys, `n` or `clusters` of the first values, or what `rows` has.
    columns: Sequence[Column | Values]
    where: pl.Expr = EVERY  # which rows of the summary count
    # Columns that follow from others, such as the rank in `3N@50`, or another name of a metric with several values.
    also: Mapping[str, pl.Expr] = field(default_factory=dict)
    # The keys of the rows in their order, with further columns, such as labels; by default, those of the summary. A row
    # whose first value is missing is not shown.
    rows: pl.DataFrame | None = None
    texts: Mapping[str, pl.Expr] = field(default_factory=dict)  # a column → what a person reads in its place
    section: str | None = None  # the column at whose changes a line is drawn
    notes: Sequence[str] = ()
    test: str = ""  # what p is from; a note tells it, and what the tests can find

    def table(self, run: SummaryRun) -> Table:
        counted = run.summary.filter(self.where)
        summary = counted.with_columns(**self.also)
        values = [column for column in self.columns if isinstance(column, Values)]
        metrics = list(dict.fromkeys(m for v in values for m in (v.metric, v.beside, v.spread, v.p) if m))
        printed = [column.metric for column in values if column.paper]
        paper = run.paper.figures.filter(self.where).with_columns(**self.also)
        frame = summary.filter(pl.col("metric") == values[0].metric).select(*self.keys, "n", "clusters")
        if self.rows is not None:
            frame = self.rows.join(frame, on=self.keys, maintain_order="left")  # those with a first value
        for part in (_wide(summary, self.keys, metrics, _ENDS), _wide(paper, self.keys, printed, _PRINTED)):
            frame = frame.join(part, on=self.keys, how="left", maintain_order="left")
        frame = frame.with_columns(**{f"{name} as read": text for name, text in self.texts.items()})
        has = {metric: frame[f"published {metric}"].null_count() < len(frame) for metric in printed}
        columns: list[Column] = []
        for column in self.columns:
            own = has.get(column.metric, False) if isinstance(column, Values) else False
            columns += column.columns(has_paper=own) if isinstance(column, Values) else [column]
        texts = {name: f"{name} as read" for name in self.texts}
        texts |= {f"published {metric}": f"printed {metric}" for metric, own in has.items() if own}
        shown = [name for column in columns for name in column.names]
        kept = [*(self.rows.columns if self.rows is not None else self.keys), "n", *shown, *texts, *texts.values()]
        kept += [self.section] if self.section else []
        notes = [*self.notes, *_doubts(values, frame, run.paper, has)]
        adjusted = counted.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))
        if self.test and not adjusted.is_empty():
            notes += [correction_note(adjusted.row(0, named=True), self.test)]
            notes += [*detectable_note(counted.iter_rows(named=True)), *disagreements(differences_in(counted))]
        title = self.title.replace("{model}", run.model_name)
        return Table(title, frame.select(list(dict.fromkeys(kept))), columns, self.section, notes, texts)


def differences(test: str, title: str = "Against each other, on the same items") -> View:
    """A row for each two sides that the summary compares: their difference, p, and p with Holm's correction."""
    kind = pl.col("metric").str.splitn(":", 2).struct
    return View(
        title,
        ("dataset", "condition", "split", "compared"),
        [
            Column("data", "dataset"),
            Column("sides", "split"),
            Column("metric", "compared"),
            Column("n", "n"),
            Values("difference", DIFFERENCE, interval=True, style=POINTS),
            Values("p", P_VALUE, style=P),
            Values("p (Holm)", HOLM, style=P),
        ],
        also={"metric": kind[0], "compared": kind[1]},
        texts={"split": pl.when(pl.col("condition").str.contains(VERSUS)).then("condition").otherwise("split")},
        test=test,
    )


def place() -> pl.Expr:
    """Condition and split in one text, without what is the ordinary case."""
    whole, plain = pl.col("split") == ALL, pl.col("condition") == ORIGINAL
    return (
        pl.when(whole & plain).then(pl.lit(ALL))
        .when(plain).then("split")
        .when(whole).then("condition")
        .otherwise(pl.format("{}, {}", "condition", "split"))
    )  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """Points with intervals for a metric, beside the paper's, and a table with the same values.

    `where`, `also` and `rows` are as in `View`.
    """

    name: str  # of the files, unique among the figures of a run
    metric: str  # what is drawn
    title: str  # of the axis of values
    caption: str = ""  # by default the title, by condition
    where: pl.Expr = EVERY
    also: Mapping[str, pl.Expr] = field(default_factory=dict)
    rows: pl.DataFrame | None = None
    label: pl.Expr = field(default_factory=place)  # what a point is called
    panel: str | None = "dataset"  # the column with a small chart for each of its values; None for one chart
    others: Mapping[str, str] = field(default_factory=dict)  # metrics that are drawn beside it → their names
    series: str = "{model}"  # its own name
    joint: bool = True
    keys: Sequence[str] = ("dataset", "condition", "split")  # the columns of the table that name a row
    domain: tuple[float, float] | None = None
    zero: bool = True
    scale: float = 100
    notes: Sequence[str] = ()

    def figure(self, run: SummaryRun, table: Table | None = None) -> Figure:
        counted = run.summary.filter(self.where)
        if self.rows is not None:
            keys = [name for name in self.rows.columns if name in counted.columns]
            counted = self.rows.join(counted, on=keys, maintain_order="left")
        counted = counted.join(run.paper.figures, on=CELL, how="left", maintain_order="left").with_columns(**self.also)
        own = counted.filter(pl.col("metric") == self.metric)
        series = [own.with_columns(source=pl.lit(self.series.replace("{model}", run.model_name)))]
        for metric, name in self.others.items():
            other = counted.filter(pl.col("metric") == metric)
            series.append(other.with_columns(source=pl.lit(name), low=None, high=None))
        series.append(own.with_columns(source=pl.lit(PAPER), value="published", low=None, high=None))
        points = pl.concat(series, how="diagonal_relaxed").drop_nulls("value").with_columns(
            pl.col("value", "low", "high") * self.scale, place=self.label
        )  # fmt: skip
        several = points["source"].n_unique() > 1
        plot = Points(
            points, x="value", y="place", low="low", high="high", series="source" if several else None,
            panel=self.panel, title=self.title, domain=self.domain, zero=self.zero,
        )  # fmt: skip
        wide = self.panel is not None and points[self.panel].n_unique() > 1
        small = f"A small chart for each {self.panel} with a point" if self.panel else "A point"
        alt = f"{small} for each of {points['place'].n_unique()} categories: {self.title}."
        caption = self.caption or f"{self.title[:1].upper()}{self.title[1:]} by condition."
        return Figure(self.name, plot, table or self._table(run), alt, caption, wide=wide, joint=self.joint)

    def _table(self, run: SummaryRun) -> Table:
        heading, _, unit = self.title.partition(" (")
        style = PERCENT if self.scale == 100 else {"decimals": 2, "unit": unit.rstrip(")")}
        value = Values(heading, self.metric, interval=True, paper=PAPER, style=style)
        columns: list[Column | Values] = [*(Column(key, key) for key in self.keys), value, Column("n", "n")]
        section = self.panel if self.panel in self.keys else None
        title = f"{heading[:1].upper()}{heading[1:]}: {{model}}"
        keys = ("dataset", "condition", "split")
        return View(title, keys, columns, self.where, rows=self.rows, section=section, notes=self.notes).table(run)


def _wide(rows: pl.DataFrame, keys: Sequence[str], metrics: Sequence[str], names: Mapping[str, str]) -> pl.DataFrame:
    """The values of metrics beside each other, one row for the same keys; null where there is none."""
    found = rows.select(*keys).unique(maintain_order=True)
    for metric in metrics:
        own = rows.filter(pl.col("metric") == metric)
        named = {name.format(metric): pl.col(column) for column, name in names.items()}
        found = found.join(own.select(*keys, **named), on=keys, how="left", maintain_order="left", validate="1:1")
    return found


def _doubts(values: Sequence[Values], frame: pl.DataFrame, paper: Paper, has: Mapping[str, bool]) -> list[str]:
    shown = [column for column in values if has.get(column.metric)]
    if not shown:
        return []
    marks = (mark for column in shown for mark in frame[f"printed {column.metric}"].drop_nulls())
    doubts = [*paper.doubts, *dict.fromkeys(paper.marks[mark] for mark in marks if mark in paper.marks)]
    said = [f"{BESIDE}: the paper"] if any(column.paper == BESIDE for column in shown) else []
    return ["; ".join([*said, *doubts])] if said else [f"paper: {'; '.join(doubts)}"] if doubts else []
