"""Tables as a terminal shows them: frames of box characters, drawn by rich."""

import io
from collections.abc import Iterable, Sequence
from typing import Literal

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


def _drawn(table: Table, width: int) -> Group:
    """The table for rich's console; texts are shown as they are, never read as markup or emoji codes.

    If it is too wide, it is drawn in pieces below each other, which all begin with the columns that name the rows.
    Words of headings, and figures, are never cut.
    """
    rows = cells(table)
    constant = _constant(table, rows)
    same = ([printable(table.columns[i].heading), rows[0][i]] for i in constant if rows[0][i])
    said = ", ".join(": ".join(filter(None, own)) for own in same)
    notes = [*filter(None, [said]), *map(printable, table.told)]
    kept = [i for i in range(len(table.columns)) if i not in constant]
    columns = [table.columns[i] for i in kept]
    words = [is_text(column, table) for column in columns]
    lines = [[row[i] for i in kept] for row in rows]
    least, whole = _widths(columns, words, lines)
    drawn: list[RichTable] = []
    for piece in _pieces(least, words, width):
        one = RichTable()
        fitted = _fitted([least[i] for i in piece], [whole[i] for i in piece], width)
        for i, own in zip(piece, fitted, strict=True):
            heading, fixed = Text(with_unit(columns[i]), no_wrap=False), not columns[i].wrap
            side: Literal["left", "right"] = "left" if words[i] else "right"
            one.add_column(heading, justify=side, no_wrap=fixed, overflow="fold", width=own)
        for row, ends in zip(lines, section_ends(table), strict=True):
            one.add_row(*(Text(row[i]) for i in piece), end_section=ends)
        drawn.append(one)
    title = [Text(printable(table.title), style="table.title")] if table.title else []
    return Group(*title, *drawn, *(Text(note, style="table.caption") for note in notes))


def _widths(
    columns: Sequence[Column], words: Sequence[bool], rows: Sequence[Sequence[str]]
) -> tuple[list[int], list[int]]:
    """How wide each column is at least, by its longest word (figures have one line each), and with its whole text."""
    least, whole = [], []
    for i, column in enumerate(columns):
        heading = with_unit(column)
        lines = [row[i] for row in rows]
        is_broken = column.wrap and words[i]
        longest = (min(cell_len(word), _FOLDED) for line in lines for word in line.split())
        least.append(
            max([*map(cell_len, heading.split()), *(longest if is_broken else map(cell_len, lines))], default=0)
        )
        whole.append(max(least[i], cell_len(column.heading), *map(cell_len, lines)))  # a unit may stand below it
    return least, whole


def _total(widths: Iterable[int]) -> int:
    """The width of a table of columns with these widths: each has a line and two spaces, and a last line follows."""
    return sum(own + 3 for own in widths) + 1


def _pieces(least: Sequence[int], words: Sequence[bool], width: int) -> list[list[int]]:
    """The columns of each piece; one piece if all fit beside each other."""
    if _total(least) <= width:
        return [list(range(len(least)))]
    named = max(1, list(words).index(False) if False in words else 1)
    while named > 1 and _total(least[:named]) > width // 2:
        named -= 1
    found = [list(range(named))]
    for i in range(named, len(least)):
        if len(found[-1]) > named and _total(least[own] for own in (*found[-1], i)) > width:
            found.append(list(range(named)))
        found[-1].append(i)
    return found


def _fitted(least: Sequence[int], whole: Sequence[int], width: int) -> list[int]:
    """The width of each column: whole, or the widest ones narrower until the table fits, none below its least."""
    widths = [min(most, max(own, width)) for own, most in zip(least, whole, strict=True)]
    while _total(widths) > width and (reducible := [i for i, own in enumerate(least) if widths[i] > own]):
        widths[max(reducible, key=lambda i: widths[i])] -= 1
    return widths


def _constant(table: Table, rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of words or counts with the same text in all of at least two rows; none if one would be left."""
    same = []
    for i, column in enumerate(table.columns):
        if column.value is not None and len(rows) > 1 and len({row[i] for row in rows}) == 1:
            kind = table.frame.schema[column.value]  # results are shown even if all are the same
            if kind == pl.String or (kind.is_integer() and column.names == (column.value,)):
                same.append(i)
    return same if len(table.columns) - len(same) > 1 else []


FORMAT = Format(to_terminal)
