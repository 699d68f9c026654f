"""Tables as HTML, for notebooks, for reports, and as a page for Word and browsers; every text is escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import quote

import polars.selectors as cs

from ..basics.apart import stem
from ..basics.numerals import with_minus
from ..basics.printable import is_right_to_left, isolated_runs, printable
from .formats import Format
from .table import Table, cells, is_text, section_ends, with_unit
from .to_csv import MARK, csv_rows, flat

_ROOM, _PHONE = 24, 48  # characters: of a cell that a page gives room to, and that stand side by side on a phone
_DIGITS = 6  # of a figure in a CSV file; the files of a run have all

_STYLE = (
    "body { font-family: serif } caption { text-align: left; padding: 0.5em 0 } p { font-size: smaller }"
    " table { border-collapse: collapse; border-bottom: 1.5pt solid; margin-top: 1.5em } th, td { padding: 2pt 6pt }"
    " thead { border-top: 1.5pt solid; border-bottom: 0.75pt solid } th { font-weight: normal }"
    " tbody + tbody { border-top: 0.75pt solid }"
)

Terms = Mapping[str, Mapping[str, str]]
"""Column of a frame → a short name that stands there, such as `CpTn` → what it stands for."""


def prose(text: str) -> str:
    """A sentence, escaped, in which names from right to left stand in elements of their own."""
    return isolated_runs(escape(printable(text))).replace("\u2068", "<bdi>").replace("\u2069", "</bdi>")


def to_html(tables: Sequence[Table]) -> str:
    """The tables one after the other for a notebook: the only style is the alignment of each column."""
    return "\n".join("\n".join([_table(table, styled=True), *_notes(table)]) for table in tables)


def table_html(
    table: Table, terms: Terms | None = None, links: Mapping[str, str] | None = None, separator: str = ","
) -> str:
    """One table for a page that has styles: in a box that scrolls, with a link that saves it as CSV.

    The CSV has a byte order mark, by which Excel knows UTF-8, and decimal commas where `separator` is `;`. A text of
    the column `table.leads` leads to its place in `links`; one of `terms` has its meaning on hover. On a phone, a table
    that is wider than the screen is a list of its rows.
    """
    words = [with_unit(column).split() for column in table.columns]
    longest = [max(map(len, [*own, *texts]), default=0) for own, *texts in zip(words, *cells(table), strict=True)]
    kind = "table stacks" if sum(longest) > _PHONE else "table"
    box = f'<div class="{kind}" tabindex="0" role="region" aria-label="{escape(printable(table.title))}">'
    # Sums in another order differ in their last digits, and the same run has the same page.
    figures = flat(table.figures).with_columns(cs.float().round(12).round_sig_figs(_DIGITS))
    data = f"data:text/csv;charset=utf-8,{quote(MARK + ''.join(csv_rows(figures.lazy(), separator)))}"
    taken = f'<a class="save" download="{escape(stem(table.title))}.csv" href="{data}">Save as CSV</a>'
    shown = _table(table, styled=False, terms=terms, links=links)
    return "\n".join([box, shown, "</div>", *_notes(table), taken])


def _notes(table: Table) -> list[str]:
    return [f'<p class="note">{prose(note)}</p>' for note in table.sentences]


def _table(table: Table, *, styled: bool, terms: Terms | None = None, links: Mapping[str, str] | None = None) -> str:
    """A `<table>` with its title as caption; sections are bodies of their own (`<tbody>`)."""
    words = [is_text(column, table) for column in table.columns]
    headings = [with_unit(column) for column in table.columns]
    # Headings say which column or row they are for. The first column heads its row if it holds words.
    titled = zip(headings, words, strict=True)
    heads = "".join(_cell(escape(text), 'scope="col"', word, styled=styled) for text, word in titled)
    title = prose(table.title)
    lines = [
        "<table>",
        f"<caption>{title if styled else f'<span>{title}</span>'}</caption>",
        f"<thead>\n<tr>{heads}</tr>\n</thead>",
        "<tbody>",
    ]
    known = [(terms or {}).get(column.value or "", {}) for column in table.columns]
    frame = table.frame.iter_rows(named=True)
    for row, own, ends in zip(cells(table), frame, section_ends(table), strict=True):
        shown = []
        for i, (text, word, column) in enumerate(zip(row, words, table.columns, strict=True)):
            content = escape(text if word else with_minus(text))
            if word and (said := known[i].get(str(own.get(column.value or "")))):
                content = f'<abbr title="{escape(printable(said))}">{content}</abbr>'
            if links and table.leads is not None and column.value == table.leads and text in links:
                content = f'<a href="{escape(links[text])}">{content}</a>'
            scope = 'scope="row"' if words[:1] == [True] and not i else ""
            shown.append(_cell(content, scope, word, styled=styled, heading=headings[i], is_long=len(text) > _ROOM))
        lines += [f"<tr>{''.join(shown)}</tr>", *(["</tbody>", "<tbody>"] if ends else [])]
    return "\n".join([*lines, "</tbody>", "</table>"])


def _cell(content: str, scope: str, is_word: bool, *, styled: bool, heading: str = "", is_long: bool = False) -> str:
    element = "th" if scope else "td"
    if is_right_to_left(content):  # not the cell: on a phone, its heading stands before it
        content = f"<bdi>{content}</bdi>"
    if styled:
        look = f'style="text-align: {"left" if is_word else "right"}"'
    else:
        look = ('class="long"' if is_long else "") if is_word else 'class="figure"'
        look += f' data-heading="{escape(heading)}"' if heading else ""
    opening = " ".join(filter(None, (element, scope, look.strip())))
    return f"<{opening}>{content}</{element}>"


def _page(tables: Sequence[Table], _: int) -> str:
    """In ASCII, with lines as in a paper, and nothing to load."""
    if not tables:
        return ""
    head = f'<meta charset="utf-8"><title>negengine</title><style>{_STYLE}</style>'
    page = f"<!DOCTYPE html>\n<html><head>{head}</head>\n<body>\n{to_html(tables)}\n</body></html>\n"
    return page.encode("ascii", "xmlcharrefreplace").decode()


FORMAT = Format(_page)
