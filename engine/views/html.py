"""Tables as plain HTML, for notebooks and reports; every text is escaped."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from urllib.parse import quote

import polars.selectors as cs

from ..basics.numerals import with_minus
from ..basics.printable import is_right_to_left, isolated_runs, printable
from .cells import cells, is_text, section_ends, with_unit
from .table import Table
from .to_csv import MARK, csv_rows, flat

_ROOM, _LONG = 24, 40  # characters: of a cell that a page gives room to, and that makes a list of a table on a phone
_DIGITS = 6  # of a figure in a CSV file; the files of a run have all


class Codes:
    """Short names with a meaning, such as `CpTn`: a page shows the meaning wherever the name stands."""

    def __init__(self, meanings: Mapping[str, str]) -> None:
        self.meanings = meanings
        longest_first = sorted(map(re.escape, meanings), key=len, reverse=True)
        self._words = re.compile(rf"(?<![\w@-])(?:{'|'.join(longest_first) or '(?!)'})(?![\w@-])")

    def meaning(self, text: str) -> str:
        """What the names in a text stand for; empty if it has none."""
        found = dict.fromkeys(self._words.findall(text))
        return "; ".join(f"{name}: {self.meanings[name]}" for name in found)

    def html(self, text: str) -> str:
        """A text, escaped, with the meaning of each name in it on hover."""
        return self._marked(text, lambda own: escape(printable(own)))

    def prose(self, text: str) -> str:
        """The same for a sentence of our own, in which names from right to left do not change the order."""
        return self._marked(text, lambda own: isolated_names(escape(printable(own))))

    def _marked(self, text: str, shown: Callable[[str], str]) -> str:
        parts, last = [], 0
        for match in self._words.finditer(text):
            said = escape(printable(self.meanings[match[0]]))
            parts += [shown(text[last : match.start()]), f'<abbr title="{said}">{escape(match[0])}</abbr>']
            last = match.end()
        return "".join([*parts, shown(text[last:])])


PLAIN = Codes({})


def isolated_names(content: str) -> str:
    """Escaped text whose names from right to left stand in elements of their own."""
    return isolated_runs(content).replace("\u2068", "<bdi>").replace("\u2069", "</bdi>")


def to_html(tables: Sequence[Table]) -> str:
    """The tables one after the other for a notebook: the only style is the alignment of each column."""
    return "\n".join("\n".join([_table(table, styled=True), *_notes(table, PLAIN)]) for table in tables)


def table_html(table: Table, codes: Codes = PLAIN, links: Mapping[str, str] | None = None, separator: str = ",") -> str:
    """One table for a page that has styles: in a box that scrolls, with a link that saves it as CSV.

    The CSV has a byte order mark, by which Excel knows UTF-8, and decimal commas where `separator` is `;`. A cell of
    words that is a key of `links` leads there. On a phone, a table of long texts is a list of its rows.
    """
    kind = "table stacks" if any(len(text) > _LONG for row in cells(table) for text in row) else "table"
    box = f'<div class="{kind}" tabindex="0" role="region" aria-label="{escape(printable(table.title))}">'
    name = re.sub(r"\W+", "-", table.title).strip("-")[:60] or "table"
    # Sums in another order differ in their last digits, and the same run has the same page.
    figures = flat(table.figures).with_columns(cs.float().round(12).round_sig_figs(_DIGITS))
    data = f"data:text/csv;charset=utf-8,{quote(MARK + ''.join(csv_rows(figures.lazy(), separator)))}"
    taken = f'<a class="save" download="{escape(name)}.csv" href="{data}">Save as CSV</a>'
    shown = _table(table, styled=False, codes=codes, links=links)
    return "\n".join([box, shown, "</div>", *_notes(table, codes), taken])


def _notes(table: Table, codes: Codes) -> list[str]:
    return [f'<p class="note">{codes.prose(note)}</p>' for note in table.sentences]


def _table(table: Table, *, styled: bool, codes: Codes = PLAIN, links: Mapping[str, str] | None = None) -> str:
    """A `<table>` with its title as caption; sections are bodies of their own (`<tbody>`)."""
    words = [is_text(column, table) for column in table.columns]
    headings = [with_unit(column) for column in table.columns]
    # Headings say which column or row they are for. The first column heads its row if it holds words.
    titled = zip(headings, words, strict=True)
    heads = "".join(_cell(codes.html(text), 'scope="col"', word, styled=styled) for text, word in titled)
    title = codes.prose(table.title)
    lines = [
        "<table>",
        f"<caption>{title if styled else f'<span>{title}</span>'}</caption>",
        f"<thead>\n<tr>{heads}</tr>\n</thead>",
        "<tbody>",
    ]
    for row, ends in zip(cells(table), section_ends(table), strict=True):
        shown = []
        for i, (text, word) in enumerate(zip(row, words, strict=True)):
            content = codes.html(text) if word else escape(with_minus(text))
            if word and links and text in links:
                content = f'<a href="{escape(links[text])}">{content}</a>'
            scope = 'scope="row"' if words[:1] == [True] and not i else ""
            shown.append(_cell(content, scope, word, styled=styled, heading=headings[i], is_long=len(text) > _ROOM))
        lines += [f"<tr>{''.join(shown)}</tr>", *(["</tbody>", "<tbody>"] if ends else [])]
    return "\n".join([*lines, "</tbody>", "</table>"])


def _cell(content: str, scope: str, is_word: bool, *, styled: bool, heading: str = "", is_long: bool = False) -> str:
    element = "th" if scope else "td"
    direction = 'dir="auto"' if is_right_to_left(content) else ""
    if styled:
        look = f'style="text-align: {"left" if is_word else "right"}"'
    else:
        look = ('class="long"' if is_long else "") if is_word else 'class="figure"'
        look += f' data-heading="{escape(heading)}"' if heading else ""
    opening = " ".join(filter(None, (element, scope, look.strip(), direction)))
    return f"<{opening}>{content}</{element}>"
