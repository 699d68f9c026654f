"""Tables as plain HTML, for notebooks and reports; every text is escaped."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ..basics.printable import printable
from .cells import cells, is_text, section_ends, with_unit

if TYPE_CHECKING:
    from .table import Table

_LONG = 40  # characters; a cell with more gets a class, so that a page can give it room


def to_html(tables: Sequence["Table"]) -> str:
    """The tables one after the other for a notebook: the only style is the alignment of each column."""
    return "\n".join(_table(table, styled=True) for table in tables)


def table_html(table: "Table") -> str:
    """One table for a page that has styles: in a box that scrolls, figures and long texts marked by classes."""
    box = f'<div class="table" tabindex="0" role="region" aria-label="{_escaped(table.title)}">'
    return f"{box}\n{_table(table, styled=False)}\n</div>"


def _table(table: "Table", *, styled: bool) -> str:
    """A `<table>` with its title as caption; sections are bodies of their own (`<tbody>`); notes follow."""
    words = [is_text(column, table) for column in table.columns]
    # Headings say which column or row they are for. The first column heads its row if it holds words.
    columns = ['scope="col"'] * len(words)
    rows = ['scope="row"' if words[:1] == [True] and not i else "" for i in range(len(words))]
    lines = ["<table>", f"<caption>{_escaped(table.title)}</caption>", "<thead>"]
    lines += [_row([with_unit(column) for column in table.columns], words, columns, styled=styled)]
    lines += ["</thead>", "<tbody>"]
    for row, ends in zip(cells(table), section_ends(table), strict=True):
        lines.append(_row(row, words, rows, styled=styled))
        lines += ["</tbody>", "<tbody>"] if ends else []
    lines += ["</tbody>", "</table>", *(f'<p class="note">{_escaped(note)}</p>' for note in table.notes)]
    return "\n".join(lines)


def _row(texts: Sequence[str], words: Sequence[bool], scopes: Sequence[str], *, styled: bool) -> str:
    cells_ = (_cell(*cell, styled=styled) for cell in zip(texts, words, scopes, strict=True))
    return f"<tr>{''.join(cells_)}</tr>"


def _cell(text: str, is_word: bool, scope: str, *, styled: bool) -> str:
    element = "th" if scope else "td"
    if styled:
        look = f'style="text-align: {"left" if is_word else "right"}"'
    elif is_word:
        look = 'class="long"' if len(text) > _LONG else ""
    else:
        look = 'class="figure"'
    opening = " ".join(filter(None, (element, scope, look)))
    return f"<{opening}>{escape(text)}</{element}>"


def _escaped(text: str) -> str:
    return escape(printable(text))
