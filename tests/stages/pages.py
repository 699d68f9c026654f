"""A page as a list of elements, read with the standard library's parser; and the columns of docs/columns.toml."""

import tomllib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

FILES = Path(__file__).parents[2] / "docs" / "files.md"
VOID = {"col", "meta", "link", "br", "img", "input", "hr"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    parents: tuple[str, ...]
    content: list["str | Element"] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its own text, without that of its children."""
        return "".join(part for part in self.content if isinstance(part, str))

    @property
    def children(self) -> list["Element"]:
        return [part for part in self.content if isinstance(part, Element)]

    def everything(self) -> list["Element"]:
        """The elements inside this one, in the order of the page."""
        return [own for child in self.children for own in (child, *child.everything())]

    def all(self, name: str) -> list["Element"]:
        return [own for own in self.everything() if own.name == name]

    @property
    def words(self) -> str:
        """Its text, and that of its children."""
        return "".join(part if isinstance(part, str) else part.words for part in self.content)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {}, ())]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, {key: value or "" for key, value in attrs}, tuple(own.name for own in self.open[1:]))
        self.open[-1].content.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop().name == tag

    def handle_data(self, data):
        self.open[-1].content.append(data)


def read(page: str) -> Element:
    """Read a page, in which every element must be closed."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    root, *others = reader.open
    assert not others, f"not closed: {others[-1].name}"
    return root


def drawn_figures(run) -> dict[str, Any]:
    """The figures of a run's own sections by name; every one can be drawn, and its values can be written."""
    from negengine.engine.experiments.registry import experiment
    from negengine.engine.views.svg import for_page

    figures = [figure for section in experiment(run.stage).sections(run) for figure in section.figures]
    for figure in figures:
        assert for_page(figure, "f").startswith("<svg")
        assert figure.data.write_csv()
    found = {figure.name: figure for figure in figures}
    assert len(found) == len(figures)
    return found


def documented(file: str) -> list[str]:
    """The columns of a file, such as `items.parquet of gh22`, in their order."""
    own = tomllib.loads(FILES.with_name("columns.toml").read_text("utf-8"))[file]
    return [name for names in own if names not in {"about", "after"} for name in names.split()]
