"""Tables and figures of an experiment as declarations: what a person reads of summary.parquet.

A `View` puts the values of several metrics beside each other, with the paper's where the model is one of the paper's; a
`Chart` draws a metric. `View.table(run)` and `Chart.figure(run)` are printed in every format, shown in reports and
written to files; the frame of a table has each value in full in a column of its own: `accuracy`, `accuracy_low`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from ..basics import numerals
from ..requests.items import ALL, ORIGINAL
from ..requests.summary import COMPARES, correction_note, detectable_note, disagreements
from ..views import Column, Figure, Table
from ..views.charts import Points
from ..views.labels import minus, numbered, told_apart
from .finished_run import CELL, GROUP, OTHER, Paper, SummaryRun

EVERY = pl.lit(value=True)
PERCENT: Mapping[str, Any] = {"decimals": 1, "scale": 100, "unit": numerals.PERCENT, "wrap": False}
POINTS: Mapping[str, Any] = {**PERCENT, "signed": True, "unit": numerals.POINTS}
P: Mapping[str, Any] = {"significant": 2, "wrap": False}
BESIDE = "in brackets"
"""Where the paper's figures stand if they have no column of their own."""
PAPER = "paper"
"""The series of the paper's figures in a chart."""
_ENDS = {"value": "{}", "low": "{}_low", "high": "{}_high", "p": "{}_p", "p_holm": "{}_p_holm", "n": "{}_n"}
_PRINTED = {"published": "published {}", "printed": "printed {}"}


@dataclass(frozen=True)
class Values:
    """One column of a view: the values of a metric, and of other metrics in the same cells."""

    heading: str
    metric: str
    interval: bool = False
    beside: str | None = None  # a metric that stands in brackets
    spread: str | None = None  # a metric that stands behind ±
    tested: bool = False  # whether the corrected p of a difference stands behind it
    paper: str = ""  # `BESIDE`, or the heading of a column for the paper's figures; nothing is shown where it has none
    style: Mapping[str, Any] = field(default_factory=lambda: PERCENT)

    def columns(self, *, has_paper: bool) -> list[Column]:
        printed = f"published {self.metric}"
        ends: dict[str, Any] = {end: f"{self.metric}_{end}" for end in ("low", "high") if self.interval}
        beside = printed if has_paper and self.paper == BESIDE else self.beside
        p = f"{self.metric}_p_holm" if self.tested else None
        own = Column(self.heading, self.metric, beside=beside, spread=self.spread, p=p, **ends, **self.style)
        return [own, Column(self.paper, printed, **self.style)] if has_paper and self.paper != BESIDE else [own]


@dataclass(frozen=True)
class View:
    """A table of values of the summary."""

    title: str  # `{model}` in it is the model's name
    keys: Sequence[str]  # the columns of the summary that name a row of the table
    # From left to right; a `Column` shows keys, `n` or `clusters` of the first values, or what `rows` has. Both stand
    # there, or in a note, also where no column names them, and each other n stands behind its values.
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
    compares: bool = False  # whether it shows the differences of the summary, and not its other figures
    test: str = ""  # what p is from; a note tells it, and what the tests can find

    def table(self, run: SummaryRun) -> Table:
        counted = run.labelled.filter(COMPARES if self.compares else ~COMPARES, self.where)
        summary = counted.with_columns(**self.also)
        # Where the splits are known beforehand, each stands once, if no column of groups stands beside it.
        grouped = "split" in self.keys and (self.rows is None or "column" in self.rows.columns)
        sides = ("other_condition", "other_column", "other_split") if self.compares and grouped else ()
        keys = [*self.keys, *(["column"] if grouped else []), *sides]
        values = [column for column in self.columns if isinstance(column, Values)]
        metrics = list(dict.fromkeys(m for v in values for m in (v.metric, v.beside, v.spread) if m))
        printed = [column.metric for column in values if column.paper]
        labels = [name for name in (GROUP, OTHER) if name in summary.columns and grouped]
        frame = summary.filter(pl.col("metric") == values[0].metric).select(*keys, "n", "clusters", *labels)
        if self.rows is not None:
            frame = self.rows.join(frame, on=keys, nulls_equal=True, maintain_order="left")  # those with a first value
        frame = _beside(frame, _wide(summary, keys, metrics, _ENDS), keys)
        if printed:
            paper = run.paper.figures.with_columns(column=pl.lit(None, pl.String)).filter(self.where)
            theirs = _wide(paper.with_columns(**self.also), self.keys, printed, _PRINTED)
            frame = _beside(frame, theirs, self.keys)
        read: dict[str, pl.Expr] = {**({"split": pl.col(GROUP)} if labels else {}), **self.texts}
        frame = frame.with_columns(**{f"{name} as read": text for name, text in read.items()})
        has = {metric: frame[f"published {metric}"].null_count() < len(frame) for metric in printed}
        columns: list[Column] = []
        for column in self.columns:
            if isinstance(column, Values):
                columns += column.columns(has_paper=has.get(column.metric, False))
                own_n = f"{column.metric}_n"
                if frame.select((pl.col(own_n) != pl.col("n")).any()).item():
                    columns.append(Column(f"n ({column.heading})", own_n))
            else:
                columns.append(column)
        columns, told = _counted(columns, frame, values[0].metric, run.clusters)
        texts = {name: f"{name} as read" for name in read}
        texts |= {f"published {metric}": f"printed {metric}" for metric, own in has.items() if own}
        shown = [name for column in columns for name in column.names]
        kept = [*(self.rows.columns if self.rows is not None else keys), "n", *shown, *texts, *texts.values()]
        kept += [*([self.section] if self.section else []), *(f"{own.metric}_n" for own in values[1:])]
        kept += ["clusters"] * bool(frame["clusters"].count())
        notes = [*self.notes, *told, *_doubts(values, frame, run.paper, has)]
        tested = summary.drop_nulls("p")
        if self.test and not tested.is_empty():
            fractions = [own.metric for own in values if own.style.get("scale") == PERCENT["scale"]]
            found = detectable_note(tested.filter(pl.col("metric").is_in(fractions)))
            notes += [correction_note(tested, self.test), *found, *disagreements(tested)]
        title = self.title.replace("{model}", run.model_name)
        return Table(title, frame.select(list(dict.fromkeys(kept))), columns, self.section, notes, texts)


def _counted(
    columns: Sequence[Column], frame: pl.DataFrame, first: str, clusters: str
) -> tuple[list[Column], list[str]]:
    """The columns with n, in brackets the number of clusters; and notes, where a number is the same everywhere.

    `first` is the metric that n is of, and `clusters` what these are, such as `relations`.
    """
    found, notes = list(columns), list[str]()
    n, of = frame["n"].unique(), frame["clusters"].unique()
    if all(column.value != "n" for column in columns):
        if len(n) == len(of) == 1:
            notes.append(f"n = {n[0]:,} in every row")
        else:
            place = next(place for place, column in enumerate(columns) if column.value == first)
            found.insert(place, Column("n", "n", wrap=False))
    if len(of) > 1:
        found = [replace(own, beside="clusters") if own.value == "n" else own for own in found]
        draws = "; without one, items are independent" * bool(of.null_count())
        notes.append(f"in brackets behind n: the number of clusters ({clusters}){draws}")
    elif of.count():
        notes.append(f"clusters ({clusters}): {of[0]:,} in every row")
    return found, notes


def differences(test: str, title: str = "Against each other, on the same items") -> View:
    """A row for each two sides that the summary compares: their difference, p, and p with Holm's correction."""
    other = pl.when(pl.col("condition") == pl.col("other_condition")).then(OTHER).otherwise("other_condition")
    one = pl.when(pl.col("condition") == pl.col("other_condition")).then(GROUP).otherwise("condition")
    return View(
        title,
        ("dataset", "condition", "split", "compared"),
        [
            Column("data", "dataset"),
            Column("sides", "split"),
            Column("metric", "compared"),
            Column("n", "n"),
            Values("difference", "difference", interval=True, style=POINTS),
            Column("p", "difference_p", **P),
            Column("p (Holm)", "difference_p_holm", **P),
        ],
        also={"metric": pl.lit("difference"), "compared": pl.col("metric")},
        texts={"split": minus(one, other)},
        compares=True,
        test=test,
    )


def place() -> pl.Expr:
    """Condition and group in one text, without what is the ordinary case."""
    whole, plain = pl.col("column").is_null(), pl.col("condition") == ORIGINAL
    return (
        pl.when(whole & plain).then(pl.lit(ALL))
        .when(plain).then(GROUP)
        .when(whole).then("condition")
        .otherwise(pl.format("{}, {}", "condition", GROUP))
    )  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """Points with intervals for a metric, beside the paper's, and a table with the same values.

    `where`, `also` and `rows` are as in `View`.
    """

    name: str  # of the files, unique among the figures of a run
    metric: str  # what is drawn
    title: str  # of the axis of values, without their unit
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
    unit: str = "%"  # of the scaled values
    compares: bool = False  # as in `View`
    notes: Sequence[str] = ()
    guide: float | None = None  # a value, scaled, that a dashed line marks; the caption says what it is

    def figure(self, run: SummaryRun, table: Table | None = None) -> Figure:
        counted = run.labelled.filter(COMPARES if self.compares else ~COMPARES, self.where)
        if self.rows is not None:
            keys = [name for name in self.rows.columns if name in counted.columns]
            counted = self.rows.join(counted, on=keys, maintain_order="left")
        paper = run.paper.figures.clear() if self.compares else run.paper.figures
        counted = counted.join(paper, on=CELL, how="left", maintain_order="left").with_columns(**self.also)
        own = counted.filter(pl.col("metric") == self.metric)
        *_, named = numbered([*self.others.values(), PAPER, self.series.replace("{model}", run.model_name)])
        series = [own.with_columns(source=pl.lit(named), is_own=pl.lit(value=True))]
        for metric, name in self.others.items():
            other = counted.filter(pl.col("metric") == metric)
            series.append(other.with_columns(source=pl.lit(name), low=None, high=None))
        series.append(own.with_columns(source=pl.lit(PAPER), value="published", low=None, high=None, n=None))
        points = pl.concat(series, how="diagonal_relaxed").drop_nulls("value").with_columns(
            pl.col("value", "low", "high") * self.scale, pl.col("is_own").fill_null(value=False), place=self.label
        )  # fmt: skip
        shown = ["place", *([self.panel] if self.panel else [])]
        cells = list(dict.fromkeys([*shown[1:], "condition", "column", "split"]))
        if points.select(*dict.fromkeys([*shown, *cells])).unique().select(shown).is_duplicated().any():
            points = points.with_columns(told_apart(points, cells, pl.col("place")).alias("place"))
        several = points["source"].n_unique() > 1
        plot = Points(
            points, x="value", y="place", low="low", high="high", series="source" if several else None,
            panel=self.panel, title=self.title, unit=self.unit, domain=self.domain, zero=self.zero, n="n",
            guide=self.guide,
        )  # fmt: skip
        wide = self.panel is not None and points[self.panel].n_unique() > 1
        small = f"A small chart for each {self.panel} with a point" if self.panel else "A point"
        alt = f"{small} for each of {points['place'].n_unique()} categories: {plot.axis}."
        caption = self.caption or f"{plot.axis[:1].upper()}{plot.axis[1:]} by condition."
        return Figure(self.name, plot, table or self._table(run), alt, caption, wide=wide, joint=self.joint)

    def _table(self, run: SummaryRun) -> Table:
        style = {**PERCENT, "unit": self.unit} if self.scale == 100 else {"decimals": 2, "unit": self.unit}
        value = Values(self.title, self.metric, interval=True, paper=PAPER, style=style)
        columns: list[Column | Values] = [*(Column(key, key) for key in self.keys), value, Column("n", "n")]
        section = self.panel if self.panel in self.keys else None
        title = f"{self.title[:1].upper()}{self.title[1:]}: {{model}}"
        keys = ("dataset", "condition", "split")
        return View(title, keys, columns, self.where, rows=self.rows, section=section, notes=self.notes).table(run)


def _beside(frame: pl.DataFrame, other: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return frame.join(other, on=keys, how="left", maintain_order="left", nulls_equal=True, validate="m:1")


def _wide(rows: pl.DataFrame, keys: Sequence[str], metrics: Sequence[str], names: Mapping[str, str]) -> pl.DataFrame:
    """The values of metrics beside each other, one row for the same keys; null where there is none."""
    found = rows.select(*keys).unique(maintain_order=True)
    for metric in metrics:
        own = rows.filter(pl.col("metric") == metric)
        named = {name.format(metric): pl.col(column) for column, name in names.items()}
        found = _beside(found, own.select(*keys, **named), keys)
    return found


def _doubts(values: Sequence[Values], frame: pl.DataFrame, paper: Paper, has: Mapping[str, bool]) -> list[str]:
    shown = [column for column in values if has.get(column.metric)]
    if not shown:
        return []
    marks = (mark for column in shown for mark in frame[f"printed {column.metric}"].drop_nulls())
    doubts = [*paper.doubts, *dict.fromkeys(paper.marks[mark] for mark in marks if mark in paper.marks)]
    said = [f"{BESIDE}: the paper"] if any(column.paper == BESIDE for column in shown) else []
    return ["; ".join([*said, *doubts])] if said else [f"paper: {'; '.join(doubts)}"] if doubts else []
