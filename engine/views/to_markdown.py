"""Tables as Markdown: pipe tables, a title above each and its notes below."""

import re

from tabulate import tabulate

from ..basics.printable import printable
from .formats import Format
from .table import Table, cells, is_text, with_unit

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def _table(table: Table) -> str:
    body = tabulate(
        [[_text(text) for text in row] for row in cells(table)],
        headers=[_text(with_unit(column)) for column in table.columns],
        tablefmt="pipe",
        colalign=["left" if is_text(column, table) else "right" for column in table.columns],
        disable_numparse=True,
    )
    notes = [f"\n{_text(printable(note))}\n" for note in table.sentences]
    return "".join([f"**{_text(printable(table.title))}**\n\n", body, "\n", *notes])


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


FORMAT = Format(lambda tables, _: "\n".join(map(_table, tables)))
