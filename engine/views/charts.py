"""Charts of a report, drawn by Altair; missing values are not drawn, orders are those of the frame's rows."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.cells import cell_len

from ..basics.apart import labels, wrapped
from ..basics.numerals import fixed, with_minus
from ..basics.printable import printable
from .palette import INK, SERIES, SHAPES

if TYPE_CHECKING:  # Altair takes half a second to import, and is needed only where a chart is drawn
    import altair as alt
    from altair.typing import ChartType


@dataclass(frozen=True)
class Layout:
    """How much room a chart has; lengths are pixels of plotting areas."""

    plot: int
    small: int  # of each of several small charts
    columns: int = 2  # how many of these stand beside each other
    height: int = 130  # of a chart whose values go from bottom to top


PAPER, PAGE, PHONE = Layout(215, 180), Layout(540, 265, height=200), Layout(215, 215, columns=1)
TOLD = "value as read"  # the column of a drawn frame that says what a mark shows, on hover
_WIDTH = 6  # pixels of a letter of a label, about; one of East Asia has two
_TITLE = 5  # pixels of a letter of a sentence, about: the title of an axis is as wide as the plotting area at most
_LABELS = 25  # letters of a label, or of each of its lines at the left; what is longer is cut, and is in the table
_STEPS = 14  # letters of the name of a step
_IN_LINES = "split(datum.label, '\\n')"  # a Vega expression
_SYMBOL = 46


@dataclass(frozen=True, eq=False)
class Plot(ABC):
    """Something that can be drawn; `data` has one row for each mark."""

    data: pl.DataFrame

    @abstractmethod
    def chart(self, layout: Layout) -> "ChartType": ...

    @property
    def promise(self) -> str:
        """What the chart's lines or bands are, where it draws any: a caption ends with it."""
        return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Values(Plot):
    """Values with intervals; the fields before `domain` are names of columns."""

    _spans = "Lines"  # how intervals are drawn

    x: str
    y: str
    low: str | None = None  # the lower ends of intervals; null where a value has none
    high: str | None = None
    series: str | None = None  # tells several values of one category or step apart, by colour and shape
    panel: str | None = None
    n: str | None = None  # the number of items of each value
    domain: tuple[float, float] | None = None  # ends of the axis of values; as far as the values reach by default
    title: str  # of this axis
    unit: str = ""  # of the values; it stands behind the title

    @property
    def axis(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def promise(self) -> str:
        """What the drawn intervals are, and how many values lack one; and of how many items the values are."""
        drawn = len(self.data.drop_nulls([self.low, self.high])) if self.low and self.high else 0
        few = f"; {drawn} of {len(self.data)} values have one" if drawn < len(self.data) else ""
        known = self.data[self.n].drop_nulls().unique().sort().to_list() if self.n else []
        of = " to ".join(f"{own:,}" for own in dict.fromkeys((*known[:1], *known[-1:])))
        said = [f"{self._spans} are 95 % intervals{few}." if drawn else "", f"n: {of}." if of else ""]
        return " ".join(filter(None, said))

    def _named(self, value: str, *others: str) -> pl.DataFrame:
        """The frame with what each mark shows, and with the names of a legend and of panels."""
        data = _short(_told(self.data, others, value, self.low, self.high, self.n), (self.series,))
        return _in_lines(data, self.panel) if self.panel and self.panel != self.series else data

    def _same_n(self) -> str:
        """What the title of an axis says of n: where all values of a chart without panels are of as many items."""
        known = self.data[self.n].drop_nulls().unique().to_list() if self.n and self.panel is None else []
        return f"; n = {known[0]:,}" if len(known) == 1 else ""

    def _with_n(self, data: pl.DataFrame, *columns: str | None, within: str | None = None) -> pl.DataFrame:
        """The frame with n behind the names of the first of these columns in which each name has one n.

        `within` has the panels that have categories of their own: there, a name has its n in each of them.
        """
        if self.n is None or self._same_n():
            return data
        for column in filter(None, columns):
            keys = list(dict.fromkeys([column, *([within] if within else [])]))
            of = data.drop_nulls(self.n).group_by(keys).agg(pl.col(self.n).unique())
            if len(of) and (of[self.n].list.len() == 1).all():
                n = pl.col(self.n).list.first()
                numbers = of.select(*keys, n.map_elements(" (n = {:,})".format, pl.String).alias(TOLD))
                said = data.select(keys).join(numbers, on=keys, how="left", maintain_order="left")[TOLD].fill_null("")
                return data.with_columns(pl.concat_str(column, said))
        return data

    def _panels(
        self, chart: "alt.LayerChart", data: pl.DataFrame, layout: Layout, *, apart: bool = False
    ) -> "ChartType":
        """A small chart for each panel; with axes of their own where categories differ, or values differ much."""
        import altair as alt

        if self.panel is None:
            return chart.properties(width=layout.plot)
        header = alt.Header(title=None, labelLimit=0, labelExpr=_IN_LINES)
        facet = alt.Facet(f"{_name(self.panel)}:N", sort=_distinct(data, self.panel), header=header)
        small: Any = chart.properties(width=layout.small).facet(facet=facet, columns=layout.columns, spacing=18)
        if apart:
            small = small.resolve_scale(y="independent")
        drawn: ChartType = small.resolve_axis(x="independent")  # with an odd number, one chart has none below it
        return drawn


@dataclass(frozen=True, eq=False, kw_only=True)
class Points(_Values):
    """Points with intervals: categories from top to bottom, values from left to right; series by position, too."""

    zero: bool = True
    guide: float | None = None  # a value that a dashed line marks; the caption says what it is

    def chart(self, layout: Layout = PAPER) -> "ChartType":
        import altair as alt

        scale = _scale(self.domain, zero=self.zero)
        width = layout.plot if self.panel is None else layout.small
        title = wrapped(self.axis + self._same_n(), width // _TITLE).split("\n")
        value = alt.X(f"{_name(self.x)}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
        axis = alt.Axis(grid=True, labelLimit=0, labelExpr=_IN_LINES)
        panels_differ = False
        if self.panel is not None:
            by_panel = self.data.select(panel=self.panel, y=self.y).group_by("panel").agg(pl.col("y").unique().sort())
            panels_differ = by_panel["y"].n_unique() > 1
        data = _in_lines(self._named(self.x, self.y, *filter(None, [self.series])), self.y)
        data = self._with_n(data, self.panel, self.y, self.series, within=self.panel if panels_differ else None)
        lines = 1 + int(data[self.y].str.count_matches("\n").max() or 0)  # type: ignore[arg-type]
        names = _distinct(data, self.series) if self.series else [""]
        position = alt.Y(f"{_name(self.y)}:N", sort=_distinct(data, self.y), title=None, axis=axis)
        encoding: dict[str, Any] = {"y": position, "x": value, "color": alt.value(SERIES[0])}
        if self.series:
            encoding |= _told_apart(self.series, names, layout, points=False)
            encoding["yOffset"] = alt.YOffset(f"{_name(self.series)}:N", sort=names)
        base = alt.Chart().encode(**encoding, description=f"{TOLD}:N")
        marks = base.mark_point(filled=True, size=_SYMBOL, opacity=1, aria=True)
        layers = [marks.encode(**_told_apart(self.series, names, layout, points=True)) if self.series else marks]
        if self.low and self.high:
            ends = (alt.X(f"{_name(self.low)}:Q", title=title, scale=scale), alt.X2(f"{_name(self.high)}:Q"))
            spans = base.transform_filter(_both_known(self.low, self.high)).mark_rule(strokeWidth=1.5, aria=True)
            layers.insert(0, spans.encode(*ends))
        if self.guide is not None:
            once = alt.Chart().transform_aggregate(marks="count()")  # and not for each mark, one upon the other
            dashed = once.mark_rule(strokeDash=[4, 3], opacity=0.5, color=INK, aria=False)
            layers.insert(0, dashed.encode(alt.X(datum=self.guide, type="quantitative", title=title, scale=scale)))
        drawn: Any = alt.layer(*layers, data=data).properties(
            height=alt.Step(max(17 if len(names) == 1 else 9, (5 + 12 * lines) // len(names)))
        )
        return self._panels(drawn, data, layout, apart=panels_differ)


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines(_Values):
    """Lines with a point for each value, over steps that have names and equal distances."""

    series: str
    x_title: str

    def chart(self, layout: Layout = PAPER) -> "ChartType":
        import altair as alt

        data = _short(self._of_steps(), (self.x,), _STEPS)
        names = _distinct(data, self.x)
        fit = _WIDTH * sum(1 + cell_len(str(own)) for own in names) <= (layout.small if self.panel else layout.plot)
        axis = alt.Axis(labelAngle=0 if fit else -45, labelOverlap=False, labelLimit=0)
        steps = alt.X(f"{_name(self.x)}:O", sort=names, title=self.x_title, axis=axis)
        scale = _scale(self.domain, zero=True)
        drawn = self._layers(data, steps, {"scale": scale}, {"axis": alt.Axis(tickCount=5)}, _SYMBOL, layout)
        return self._panels(drawn, data, layout)

    def _of_steps(self) -> pl.DataFrame:
        return self._with_n(self._named(self.y, self.series, self.x), self.panel, self.series)

    def _layers(self, data: pl.DataFrame, steps: "alt.X", scale: Any, axis: Any, size: int, layout: Layout) -> Any:
        import altair as alt

        title = self.axis + self._same_n()
        value = alt.Y(f"{_name(self.y)}:Q", title=title, **scale, **axis)
        names = _distinct(data, self.series)
        base = alt.Chart().encode(steps, **_told_apart(self.series, names, layout, points=False))
        marks = base.mark_point(filled=True, size=size, opacity=1, aria=True)
        shaped = marks.encode(value, **_told_apart(self.series, names, layout, points=True), description=f"{TOLD}:N")
        layers = [base.mark_line(strokeWidth=1.5).encode(value), shaped]
        if self.low and self.high:
            ends = (alt.Y(f"{_name(self.low)}:Q", title=title, **scale), alt.Y2(f"{_name(self.high)}:Q"))
            known = base.transform_filter(_both_known(self.low, self.high))
            if self._spans == "Bands":  # it ends where a value has no interval; one between two such is a line
                layers.insert(0, base.mark_area(opacity=0.2).encode(*ends))
                known = known.encode(opacity=alt.value(0.2))
            layers.insert(0, known.mark_rule().encode(*ends))
        return alt.layer(*layers, data=data).properties(height=layout.height)


class Curves(Lines):
    """Lines over a number, such as the step of a training run, with a band for the intervals."""

    _spans = "Bands"

    def chart(self, layout: Layout = PAPER) -> "ChartType":
        import altair as alt

        found: Any = self.data.select(low=pl.col(self.x).min(), high=pl.col(self.x).max()).row(0)
        low, high = float(found[0] or 0), float(found[1] or 0)
        scale, ticks = alt.Scale(zero=False, nice=False), _round_numbers(low, high)
        if high >= 50 * max(low, 1):  # a logarithmic axis, with marks at powers of ten
            scale = alt.Scale(type="log" if low > 0 else "symlog", nice=False)
            ticks = [float(10**power) for power in range(16) if max(low, 1) <= 10**power <= high / 2]
            ticks = [*([] if low > 0 else [0.0]), *ticks, high]
        axis = alt.Axis(labelExpr="format(datum.value, '~s')", labelOverlap=True, values=ticks)
        steps = alt.X(f"{_name(self.x)}:Q", title=self.x_title, scale=scale, axis=axis)
        data = self._of_steps()
        drawn = self._layers(data, steps, {"scale": alt.Scale(zero=False, nice=True)}, {}, _SYMBOL // 2, layout)
        return self._panels(drawn, data, layout, apart=True)


@dataclass(frozen=True, eq=False)
class Bars(Plot):
    """Bars in small charts, two in a row; each has categories of its own, and all have one axis of values."""

    x: str
    y: str
    panel: str
    title: str
    text: str

    def chart(self, layout: Layout = PAPER) -> "ChartType":
        import altair as alt

        scale = alt.Scale(domain=[0, 1.3 * _largest(self.data[self.x])], nice=False)
        charts = []
        named = _short(_told(self.data, (self.y,), self.x), (self.y, self.panel))
        for (name,), own in named.group_by(self.panel, maintain_order=True):
            words = alt.Axis(labelLimit=0, grid=False)
            base = alt.Chart(own, title=str(name)).encode(
                alt.X(f"{_name(self.x)}:Q", title=self.title, scale=scale, axis=alt.Axis(tickCount=3)),
                alt.Y(f"{_name(self.y)}:N", sort=own[self.y].to_list(), title=None, axis=words),
            )
            bars = base.mark_bar(color=SERIES[0], opacity=0.75, aria=True).encode(description=f"{TOLD}:N")
            texts = base.mark_text(align="left", dx=3, color=INK).encode(text=f"{_name(self.text)}:N")
            charts.append(alt.layer(bars, texts).properties(width=layout.small - 30, height=alt.Step(14)))
        return alt.concat(*charts, columns=layout.columns, spacing=24)


def _told_apart(series: str, names: Sequence[str], layout: Layout, *, points: bool) -> dict[str, Any]:
    """Colours for the values of a column; for points alone also shapes: a line with a shape would get marks."""
    import altair as alt

    def scale(looks: Sequence[str]) -> Any:
        return alt.Scale(domain=list(names), range=[looks[i % len(looks)] for i in range(len(names))])

    field = f"{_name(series)}:N"
    legend = None
    if len(names) > 1:
        widest = 25 + _WIDTH * max(map(cell_len, names))  # pixels, with the symbol
        columns = max(1, min(3, 3 * layout.plot // 2 // widest))
        legend = alt.Legend(title=None, orient="top", columns=columns, labelLimit=0)
    if points:
        return {"shape": alt.Shape(field, scale=scale(SHAPES), legend=legend)}
    return {"color": alt.Color(field, scale=scale(SERIES), legend=legend)}


def _told(
    data: pl.DataFrame,
    names: Sequence[str],
    value: str,
    low: str | None = None,
    high: str | None = None,
    n: str | None = None,
) -> pl.DataFrame:
    """The frame with what each mark shows: its names, its value, the ends of its interval, and n."""

    def number(column: str) -> pl.Expr:
        return pl.col(column).cast(pl.Float64).map_elements(_read, pl.String)

    named = pl.concat_str([pl.col(name).cast(pl.String) for name in names], separator=", ", ignore_nulls=True)
    interval = pl.format(" [{} to {}]", number(low), number(high)).fill_null("") if low and high else pl.lit("")
    of = pl.format(" (n = {})", n).fill_null("") if n else pl.lit("")
    return data.with_columns(pl.concat_str(named, pl.lit(": "), number(value), interval, of).alias(TOLD))


def _read(value: float) -> str:
    return with_minus(fixed(value, 2, (-100, 0, 100)))


def _scale(domain: Sequence[float] | None, *, zero: bool) -> "alt.Scale":
    import altair as alt

    if domain:
        return alt.Scale(domain=list(domain), nice=False)
    return alt.Scale(zero=zero, nice=True, padding=0 if zero else 6)


def _short(data: pl.DataFrame, columns: Sequence[str | None], most: int = _LABELS) -> pl.DataFrame:
    """The frame with the names that stand in the picture: different ones stay different, however long they are."""
    for column in dict.fromkeys(filter(None, columns)):
        names = _distinct(data.with_columns(pl.col(column).cast(pl.String)).drop_nulls(column), column)
        short = labels([printable(name) for name in names], most)
        data = data.with_columns(pl.col(column).cast(pl.String).replace(names, short))
    return data


def _in_lines(data: pl.DataFrame, column: str) -> pl.DataFrame:
    lines = pl.col(column).map_elements(lambda own: wrapped(own, _LABELS), pl.String)
    return _short(data, (column,), 3 * _LABELS).with_columns(lines)


def _distinct(data: pl.DataFrame, column: str) -> list[str]:
    return data[column].unique(maintain_order=True).to_list()


def _largest(values: pl.Series) -> float:
    found: Any = values.max()
    return max(float(found or 0), 1e-9)


def _round_numbers(low: float, high: float) -> list[float]:
    """At most four round numbers with equal distances, and the last step, which people ask for."""
    span = high - low
    if span <= 0:
        return [high]
    size = next(size for power in range(-3, 16) for by in (1, 2, 5) if span <= 4 * (size := by * 10.0**power))
    below = (size * number for number in range(math.ceil(low / size), math.ceil(high / size)))
    return [*(own for own in below if high - own >= size / 2), high]


def _both_known(low: str, high: str) -> str:
    """A Vega expression: both ends of an interval have a value."""
    return f"isValid(datum[{low!r}]) && isValid(datum[{high!r}])"


def _name(column: str) -> str:
    """A column's name in Altair's shorthand, where a colon, a dot and brackets have a meaning."""
    return re.sub(r"([\\:.\[\]])", r"\\\1", column)
