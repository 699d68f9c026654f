"""Tables as a terminal shows them: frames of box characters, drawn by rich."""

import io
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..printable import printable
from .cells import cell_parts, is_text, section_ends

if TYPE_CHECKING:
    from .table import Column, Table

WIDTH = 80
"""Width in columns if the output is not a terminal."""


def to_terminal(tables: Sequence["Table"], width: int = WIDTH) -> str:
    """The tables one after the other, without colours."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    for table in tables:
        console.print(to_rich(table, width))
    return stream.getvalue()


def to_rich(table: "Table", width: int = WIDTH) -> RichTable:
    """The table for rich's console; texts are shown as they are, never read as markup or emoji codes.

    A column of words or counts that is the same in all rows becomes a note. Words of headings are never cut. If the
    table is too wide, the figures of one cell stand below each other: a value, its interval, its p.

    Args:
        table: The table.
        width: Columns of the terminal.
    """
    parts = cell_parts(table)
    rows = [[" ".join(cell) for cell in row] for row in parts]
    constant = _constant(table, rows)
    said = ", ".join(_said(table.columns[i].heading, rows[0][i]) for i in constant if rows[0][i])
    notes = [*filter(None, [said]), *map(printable, table.notes)]
    drawn = RichTable(
        title=Text(printable(table.title), style="table.title"),
        caption=Text("\n".join(notes), style="table.caption") if notes else None,
        title_justify="left",
        caption_justify="left",
    )
    kept = [i for i in range(len(table.columns)) if i not in constant]
    lines = [[row[i] for i in kept] for row in rows]
    if _needed([table.columns[i] for i in kept], lines, table) > width:
        stacked = [["\n".join(row[i]) for i in kept] for row in parts]
        drawn.show_lines = stacked != lines
        lines = stacked
    for column in (table.columns[i] for i in kept):
        heading, words = printable(column.heading), is_text(column, table)
        drawn.add_column(
            Text(heading),
            justify="left" if words else "right",
            no_wrap=not column.wrap,
            overflow="fold",
            min_width=max(map(len, heading.split()), default=None),
        )
    for row, ends in zip(lines, section_ends(table), strict=True):
        drawn.add_row(*map(Text, row), end_section=ends)
    return drawn


def _needed(columns: Sequence["Column"], rows: Sequence[Sequence[str]], table: "Table") -> int:
    """The least width of a table whose figures have one line each; headings and texts may be broken between words."""
    widths = []
    for i, column in enumerate(columns):
        words = [row[i].split() if column.wrap and is_text(column, table) else [row[i]] for row in rows]
        longest = [cell_len(word) for word in chain(printable(column.heading).split(), *words)]
        widths.append(max(longest, default=0) + 3)
    return sum(widths) + 1


def _constant(table: "Table", rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of words or counts with the same text in all of at least two rows; never all columns."""
    same = [
        i
        for i, column in enumerate(table.columns)
        if len(rows) > 1 and _names_or_counts(table, column) and len({row[i] for row in rows}) == 1
    ]
    return same if len(same) < len(table.columns) else same[1:]


def _names_or_counts(table: "Table", column: "Column") -> bool:
    """Whether a column says what a row is, or of how many items; results are shown even if all are the same."""
    if column.value is None:
        return False
    return table.frame.schema[column.value] == pl.String or (
        table.frame.schema[column.value].is_integer() and column.names == (column.value,)
    )


def _said(heading: str, value: str) -> str:
    return f"{printable(heading)}: {value}" if heading else value
