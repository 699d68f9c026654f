"""Tables as a terminal shows them: frames of box characters, drawn by rich."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..printable import printable
from .cells import cells, is_text, section_ends

if TYPE_CHECKING:
    from .table import Table

WIDTH = 80
"""Width in columns if the output is not a terminal."""


def to_terminal(tables: Sequence["Table"], width: int = WIDTH) -> str:
    """The tables one after the other, without colours."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    for table in tables:
        console.print(to_rich(table))
    return stream.getvalue()


def to_rich(table: "Table") -> RichTable:
    """The table for rich's console; texts are shown as they are, never read as markup or emoji codes."""
    drawn = RichTable(
        title=Text(printable(table.title), style="table.title"),
        caption=Text("\n".join(map(printable, table.notes)), style="table.caption") if table.notes else None,
        title_justify="left",
        caption_justify="left",
    )
    for column in table.columns:
        heading, words = Text(printable(column.heading)), is_text(column, table)
        drawn.add_column(heading, justify="left" if words else "right", no_wrap=not column.wrap, overflow="fold")
    for row, ends in zip(cells(table), section_ends(table), strict=True):
        drawn.add_row(*map(Text, row), end_section=ends)
    return drawn
