"""A table as a value: a frame, which formats for machines give as it is, and how people read its columns and cells."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import polars as pl

from ..basics.frames import no_negative_zero
from ..basics.named import plugged
from ..basics.numerals import HUNDREDTHS, NAMED, fixed, significant
from ..basics.printable import printable
from ..statistics.clusters import FEWEST

INTERVAL = "in square brackets: 95 % interval"
NO_INTERVAL = (
    f"no interval: items of fewer than {FEWEST} clusters, or items that are all alike, do not show how the value varies"
)


@dataclass(frozen=True)
class Column:
    """One column as a person reads it. All fields that hold a name are names of columns of the frame.

    A cell is composed from left to right: value, spread, interval, the figure beside it, p. Nulls are not shown. Texts,
    truth values (✓ or -) and lists stand at the left of their column, figures at the right.
    """

    heading: str
    value: str | None = None  # the main figure or text; None where the column shows an interval only
    beside: str | None = None  # a figure in brackets behind the value: the published one, or a second rate
    low: str | None = None
    high: str | None = None  # with a value the interval is shown as `[low, high]`, without as `low to high`
    p: str | None = None
    decimals: int | str | None = None  # None: as it is, with thousands separators; a column's name: digits row by row
    significant: int | None = None
    scale: float | str = 1.0  # multiplies the figure before it is shown: 100 for a fraction; or as with `decimals`
    signed: bool = False
    unit: str = ""  # such as `%` or `percentage points`; for formats that show units apart from the heading
    spread: str | None = None  # a standard deviation behind the value, as `± 1.2`; same digits and scale
    truths: tuple[str, str] = ("✓", "-")  # what is written for true and false
    wrap: bool = True

    @property
    def figures(self) -> tuple[str, ...]:
        """The columns of the frame whose figures have this column's scale and unit."""
        shown = (self.value, self.spread, self.low, self.high, self.beside)
        return tuple(name for name in shown if name is not None)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.figures, *([] if self.p is None else [self.p]), *self.by_row)

    @property
    def by_row(self) -> tuple[str, ...]:
        """The columns of the frame that say how each row is shown. They are not figures."""
        return tuple(name for name in (self.decimals, self.scale) if isinstance(name, str))


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A frame with a title, and the columns that a person reads.

    Attributes:
        columns: What a person reads, from left to right; texts and numbers of the frame.
        section: A column of the frame: where its value changes, a line is drawn. It need not be shown.
        notes: Sentences below the table: what brackets mean, where published figures are uncertain.
        texts: Column of the frame → column with what a person reads instead of its figure, where that is not null:
            `1.9 M` where a paper prints no more digits.
        remarks: What the results mean, in sentences. A terminal has them below all tables, CSV in a column.
        leads: A column whose texts name chapters of a report: there, they lead to them.

    Raises:
        ValueError: A column is shown that the frame does not have.
    """

    title: str
    frame: pl.DataFrame
    columns: Sequence[Column]
    section: str | None = None
    notes: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    leads: str | None = None

    def __post_init__(self) -> None:
        named = [name for column in self.columns for name in column.names]
        named += [*filter(None, [self.section]), *self.texts, *self.texts.values()]
        if missing := [name for name in named if name not in self.frame.columns]:
            raise ValueError(f"{self.title}: the frame has no column {missing[0]!r}")

    @property
    def figures(self) -> pl.DataFrame:
        """The frame without the columns that only say how others are shown, and texts in place of figures."""
        how = {name for column in self.columns for name in column.by_row}
        return no_negative_zero(self.frame.drop(how | set(self.texts.values())))

    @property
    def told(self) -> list[str]:
        """The notes; before them, what square brackets are, and behind them, why a value has none."""
        shown = [own for own in self.columns if own.value is not None and own.low is not None]
        has = [self.frame[own.low].is_not_null() for own in shown if own.low]
        known = [self.frame[own.value].is_not_null() for own in shown if own.value]
        bare = any((one > other).any() for one, other in zip(known, has, strict=True))
        return [*[INTERVAL] * any(own.any() for own in has), *self.notes, *[NO_INTERVAL] * bare]

    @property
    def sentences(self) -> list[str]:
        """What is told, then the remarks."""
        return [*self.told, *self.remarks]

    def __repr__(self) -> str:
        text: str = plugged("tables in a terminal")([self], shutil.get_terminal_size().columns)
        return text.rstrip("\n")

    def _repr_html_(self) -> str:
        page: str = plugged("tables in a notebook")([self])
        return page


def cells(table: Table) -> list[list[str]]:
    """The text of every cell, row by row, without line breaks or characters that control a terminal."""
    rows = table.frame.iter_rows(named=True)
    return [[printable(_cell(column, row, table.texts)) for column in table.columns] for row in rows]


def is_text(column: Column, table: Table) -> bool:
    """Whether the column holds words, which stand at its left; figures stand at its right."""
    if column.value is None:
        return False
    kind = table.frame.schema[column.value]
    return not (kind.is_numeric() or kind == pl.Null)


def section_ends(table: Table) -> list[bool]:
    """For every row, whether a line is drawn below it; never below the last row."""
    if table.section is None or table.frame.is_empty():
        return [False] * len(table.frame)
    values = table.frame[table.section].to_list()
    return [*(one != other for one, other in pairwise(values)), False]


def with_unit(column: Column) -> str:
    """The heading, with the unit in brackets where the heading does not have it."""
    heading, unit = printable(column.heading), column.unit if column.value else ""
    return heading if unit in heading else f"{heading} ({unit})".strip()


def _cell(column: Column, row: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    def figure(name: str | None) -> str:
        return "" if name is None else _figure(column, row, name, texts)

    parts = [figure(column.value)]
    if spread := figure(column.spread):
        parts.append(f"± {spread}")
    if (low := figure(column.low)) and (high := figure(column.high)):
        parts.append(f"{low} to {high}" if column.value is None else f"[{low}, {high}]")
    if beside := figure(column.beside):
        parts.append(f"({beside})")
    if column.p is not None and (p := row[column.p]) is not None:
        parts.append("p < 0.001" if p < 0.001 else f"p = {fixed(p, 3, [NAMED])}")
    return " ".join(filter(None, parts))


def _figure(column: Column, row: Mapping[str, Any], name: str, texts: Mapping[str, str]) -> str:
    if name in texts and (instead := row[texts[name]]) is not None:
        return str(instead)
    value = row[name]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return column.truths[0 if value else 1]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    if not isinstance(value, int | float):
        return str(value)
    scale = row[column.scale] if isinstance(column.scale, str) else column.scale
    value = value if scale == 1 else scale * value
    sign = "+" if column.signed else ""
    if column.significant is not None:
        return significant(value, column.significant, sign=sign)
    decimals = row[column.decimals] if isinstance(column.decimals, str) else column.decimals
    if decimals is None:
        return f"{value + 0:{sign},}"  # no negative zero
    limits = (-100, 0, 100) if column.unit in HUNDREDTHS or scale == 100 else (0,) if column.signed else ()
    return fixed(value, decimals, limits, sign)
