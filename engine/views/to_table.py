"""Tables as a terminal shows them: frames of box characters, drawn by rich."""

import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from ..basics.printable import isolated_lines, printable
from .formats import WIDTH, Format
from .table import Column, Table, cells, is_text, section_ends, with_unit

_FOLDED = 24  # longer words of a text are broken where the table is too wide


def to_terminal(tables: Sequence[Table], width: int = WIDTH) -> str:
    """The tables one after the other, without colours."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    for drawn in to_rich(tables, width):
        console.print(drawn)
    return isolated_lines(stream.getvalue())


def to_rich(tables: Sequence[Table], width: int = WIDTH) -> list[Group]:
    """Each table for rich's console, as wide as the widest of them, but `WIDTH` at most."""
    drawn = [_drawn(table, width) for table in tables]
    frames = [frame for group in drawn for frame in group.renderables if isinstance(frame, RichTable)]
    console = Console(width=width)
    widest = max((console.measure(frame).maximum for frame in frames), default=0)
    for frame in frames:
        frame.min_width = min(widest, WIDTH)
    return drawn


class _Shown(NamedTuple):
    """A column as a terminal shows it."""

    column: Column
    is_word: bool
    texts: Sequence[str]
    least: int  # its width by its longest word; figures have one line each
    whole: int  # its width with its whole text

    @classmethod
    def of(cls, column: Column, table: Table, texts: Sequence[str]) -> "_Shown":
        is_word = is_text(column, table)
        words = (min(cell_len(word), _FOLDED) for text in texts for word in text.split())
        longest = words if is_word and column.wrap else map(cell_len, texts)
        least = max([*map(cell_len, with_unit(column).split()), *longest], default=0)
        # A unit may stand below the heading.
        return cls(column, is_word, texts, least, max(least, cell_len(column.heading), *map(cell_len, texts)))

    def is_constant(self, table: Table) -> bool:
        """Whether it holds words or counts with the same text in all of at least two rows."""
        if self.column.value is None or len(self.texts) < 2 or len({*self.texts}) > 1:
            return False
        kind = table.frame.schema[self.column.value]  # results are shown even if all are the same
        return kind == pl.String or (kind.is_integer() and self.column.names == (self.column.value,))


def _drawn(table: Table, width: int) -> Group:
    """The table for rich's console; texts are shown as they are, never read as markup or emoji codes.

    If it is too wide, it is drawn in pieces below each other, which all begin with the columns that name the rows.
    Words of headings, and figures, are never cut.
    """
    rows = cells(table)
    every = [_Shown.of(column, table, [row[i] for row in rows]) for i, column in enumerate(table.columns)]
    constant = [own for own in every if own.is_constant(table)]
    constant = constant if len(every) - len(constant) > 1 else []
    same = ([printable(own.column.heading), own.texts[0]] for own in constant if own.texts[0])
    said = ", ".join(": ".join(filter(None, own)) for own in same)
    notes = [*filter(None, [said]), *map(printable, table.told)]
    drawn: list[RichTable] = []
    for piece in _pieces([own for own in every if own not in constant], width):
        one = RichTable()
        for own, fitted in zip(piece, _fitted(piece, width), strict=True):
            how: dict[str, Any] = {"justify": "left" if own.is_word else "right", "no_wrap": not own.column.wrap}
            one.add_column(Text(with_unit(own.column), no_wrap=False), overflow="fold", width=fitted, **how)
        for *texts, ends in zip(*(own.texts for own in piece), section_ends(table), strict=True):
            one.add_row(*map(Text, texts), end_section=ends)
        drawn.append(one)
    title = [Text(printable(table.title), style="table.title")] if table.title else []
    return Group(*title, *drawn, *(Text(note, style="table.caption") for note in notes))


def _total(widths: Iterable[int]) -> int:
    """The width of a table of columns with these widths: each has a line and two spaces, and a last line follows."""
    return sum(own + 3 for own in widths) + 1


def _pieces(columns: Sequence[_Shown], width: int) -> list[list[_Shown]]:
    """The columns of each piece; one piece if all fit beside each other."""
    if _total(own.least for own in columns) <= width:
        return [[*columns]]
    first_figure = next((i for i, own in enumerate(columns) if not own.is_word), 1)
    named = list(columns[: max(1, first_figure)])
    while len(named) > 1 and _total(own.least for own in named) > width // 2:
        named.pop()
    found = [[*named]]
    for column in columns[len(named) :]:
        if len(found[-1]) > len(named) and _total(own.least for own in (*found[-1], column)) > width:
            found.append([*named])
        found[-1].append(column)
    return found


def _fitted(columns: Sequence[_Shown], width: int) -> list[int]:
    """The width of each column: whole, or the widest ones narrower until the table fits, none below its least."""
    widths = [min(own.whole, max(own.least, width)) for own in columns]
    while _total(widths) > width and (reducible := [i for i, own in enumerate(columns) if widths[i] > own.least]):
        widths[max(reducible, key=lambda i: widths[i])] -= 1
    return widths


FORMAT = Format(to_terminal)
