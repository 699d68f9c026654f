"""Tables as a page of HTML for Word, LibreOffice and browsers: ASCII, lines as in a paper, and nothing to load."""

from collections.abc import Sequence

from .formats import Format
from .html import to_html
from .table import Table

_STYLE = (
    "body { font-family: serif } caption { text-align: left; padding: 0.5em 0 } p { font-size: smaller }"
    " table { border-collapse: collapse; border-bottom: 1.5pt solid; margin-top: 1.5em } th, td { padding: 2pt 6pt }"
    " thead { border-top: 1.5pt solid; border-bottom: 0.75pt solid } th { font-weight: normal }"
    " tbody + tbody { border-top: 0.75pt solid }"
)


def _page(tables: Sequence[Table], _: int) -> str:
    if not tables:
        return ""
    head = f'<meta charset="utf-8"><title>negengine</title><style>{_STYLE}</style>'
    page = f"<!DOCTYPE html>\n<html><head>{head}</head>\n<body>\n{to_html(tables)}\n</body></html>\n"
    return page.encode("ascii", "xmlcharrefreplace").decode()


FORMAT = Format(_page)
