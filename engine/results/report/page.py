"""A report as one HTML file: it loads nothing, runs no other script, and can be read without its own."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...basics.printable import printable
from ...views import Figure, Section
from ...views.charts import PAGE, PHONE
from ...views.palette import declarations, variables
from ...views.svg import for_page
from ...views.to_html import Terms, prose, table_html

GENERATOR = "negengine report"  # how a report is recognised, in its element `<meta name="generator">`
_FOLDER = Path(__file__).parent
_SHORT = 14  # rows; a longer table is shown on demand


@dataclass(frozen=True, eq=False)
class Chapter:
    """Sections under one heading, with a summary of one or two sentences."""

    title: str
    sections: Sequence[Section]
    summary: Sequence[str] = field(default=())
    terms: Terms = field(default_factory=dict)  # in the tables
    about: Sequence[str] = ()  # further texts that, in a table, lead to this chapter as its title does


def page(title: str, chapters: Sequence[Chapter], separator: str = ",") -> str:
    """The whole file as HTML, the same text for the same chapters; `separator` is that of its tables as CSV."""
    script = (_FOLDER / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    links = {name: f"#c{number}" for number, own in enumerate(chapters[1:], 2) for name in (own.title, *own.about)}
    content: str = _template().render(
        title=title,
        links=links,
        separator=separator,
        colours=json.dumps(variables("light")),
        chapters=chapters,
        generator=GENERATOR,
        style=Markup(style()),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
    )
    return content


@cache
def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "table": lambda table, *page: Markup(table_html(table, *page)),  # noqa: S704 - every text in it is escaped
        "told": lambda text: Markup(prose(text)),  # noqa: S704 - every text in it is escaped
        "is_long": lambda table: len(table.frame) > _SHORT,
        "pictures": _pictures,
        "shown": printable,
    }
    return environment.get_template("page.html")


def _pictures(figure: Figure, name: str) -> Markup:
    drawn = {"broad": for_page(figure, name, PAGE), "narrow": for_page(figure, f"{name}-n", PHONE)}
    shown = (f'<div class="picture {kind}">\n{svg}\n</div>' for kind, svg in drawn.items())
    return Markup("\n".join(shown))  # noqa: S704 - checked: drawing elements alone


def style() -> str:
    """The style of a page, in the colours of a light and of a dark screen."""
    on_dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{declarations('dark')}}}}}"
    return f":root{{color-scheme:light dark;{declarations('light')}}}\n{on_dark}\n" + (_FOLDER / "page.css").read_text(
        "utf-8"
    )
