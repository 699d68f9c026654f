"""Tables as plain HTML, for notebooks; every text is escaped."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ..printable import printable
from .cells import cells, is_text, section_ends, with_unit

if TYPE_CHECKING:
    from .table import Table


def to_html(tables: Sequence["Table"]) -> str:
    """The tables one after the other, each a `<table>` with its title as caption and its notes below.

    Sections are bodies (`<tbody>`) of their own. The only style is the alignment of each column.
    """
    return "\n".join(_table(table) for table in tables)


def _table(table: "Table") -> str:
    sides = ["left" if is_text(column, table) else "right" for column in table.columns]
    lines = ["<table>", f"<caption>{_escaped(table.title)}</caption>", "<thead>"]
    lines += [_row("th", [with_unit(column) for column in table.columns], sides), "</thead>", "<tbody>"]
    for row, ends in zip(cells(table), section_ends(table), strict=True):
        lines.append(_row("td", row, sides))
        lines += ["</tbody>", "<tbody>"] if ends else []
    lines += ["</tbody>", "</table>", *(f"<p>{_escaped(note)}</p>" for note in table.notes)]
    return "\n".join(lines)


def _row(element: str, texts: Sequence[str], sides: Sequence[str]) -> str:
    inner = (
        f'<{element} style="text-align: {side}">{escape(text)}</{element}>'
        for text, side in zip(texts, sides, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"


def _escaped(text: str) -> str:
    return escape(printable(text))
