"""References: bibliographic facts as data, and how they are cited: as BibTeX, and as `Ettinger, 2020`.

A probe names a TOML file beside its code (`Probe.references`). It has one table for each paper, whose name is the key
of BibTeX, with `role` (test, method or data), `type`, `title`, `author` and other fields of BibTeX. `models.toml` has
the papers of model families. The tool's own reference is read from CITATION.cff.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from ...views.to_latex import latex

_ROOT = Path(__file__).resolve().parents[2]
_CITATION = "CITATION.cff"
_CAPITALS = re.compile(r"\b\w*[A-Z]\w*[A-Z]\w*\b")  # BibTeX styles write titles in small letters, but not inside braces
_VERBATIM = {"pages", "year", "doi", "url", "eprint", "archiveprefix"}


@dataclass(frozen=True)
class Reference:
    """A paper, a data set or a program.

    Attributes:
        key: In BibTeX.
        kind: BibTeX's type of entry, such as `inproceedings`.
        title: Its title.
        authors: Full names, in order.
        year: None where it has none.
        fields: All other fields of BibTeX.
        role: `test`, `method`, `data`, `model` or `tool`.
        dataset: The data set or method that it describes, if it is one of several; see `Run.used`.
    """

    key: str
    kind: str
    title: str
    authors: tuple[str, ...]
    year: int | None
    role: str
    fields: Mapping[str, str] = field(default_factory=dict)
    dataset: str | None = None

    @property
    def label(self) -> str:
        """As a text cites it: `Ettinger, 2020`; `Kassner and Schütze, 2020`; `Kletz et al., 2023`."""
        last = [author.split()[-1] for author in self.authors]
        who = last[0] if len(last) == 1 else " and ".join(last) if len(last) == 2 else f"{last[0]} et al."
        return f"{who}, {self.year}" if self.year else who

    @property
    def bibtex(self) -> str:
        """The entry."""
        authors = " and ".join(latex(author) if " " in author else f"{{{latex(author)}}}" for author in self.authors)
        if self.role == "tool":  # the name of a group is not a first and a last name
            authors = " and ".join(f"{{{latex(author)}}}" for author in self.authors)
        values = {"title": _protected(self.title), "author": authors}
        values |= {"year": str(self.year)} if self.year else {}
        values |= {name: value if name in _VERBATIM else latex(value) for name, value in self.fields.items()}
        lines = [f"  {name} = {{{value}}}," for name, value in values.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def probe_references(reference: str) -> tuple[Reference, ...]:
    """The papers of a probe.

    Args:
        reference: `package:file.toml`, or empty.
    """
    if not reference:
        return ()
    package, _, name = reference.partition(":")
    content = tomllib.loads(files(package).joinpath(name).read_text("utf-8"))
    return tuple(_reference(key, entry) for key, entry in content.items())


def model_references(family: str) -> tuple[Reference, ...]:
    """The papers of a model family; none where `models.toml` does not have it."""
    content = tomllib.loads(files(__package__).joinpath("models.toml").read_text("utf-8"))
    return tuple(_reference(key, {"role": "model", **entry}) for key, entry in content.get(family, {}).items())


@cache
def tool_reference() -> Reference:
    """The program itself, from CITATION.cff."""
    content = yaml.safe_load(_citation_file())
    authors = (entry.get("name") or f"{entry['given-names']} {entry['family-names']}" for entry in content["authors"])
    released = str(content.get("date-released", ""))
    optional = {"url": content.get("url") or content.get("repository-code"), "doi": content.get("doi")}
    return Reference(
        key="negengine",
        kind="misc",
        title=content["title"],
        authors=tuple(authors),
        year=int(released[:4]) if released else None,
        role="tool",
        fields={
            "note": f"Software, version {content['version']}",
            **{name: str(value) for name, value in optional.items() if value},
        },
    )


def _citation_file() -> str:
    """CITATION.cff of the checkout, or the copy that is installed with the package."""
    if (_ROOT / _CITATION).is_file():
        return (_ROOT / _CITATION).read_text("utf-8")
    for path in distribution("negengine").files or ():
        if path.name == _CITATION:
            return path.read_text("utf-8")
    raise PackageNotFoundError(_CITATION)


def _reference(key: str, entry: Mapping[str, Any]) -> Reference:
    known = {"role", "type", "title", "author", "year", "dataset"}
    return Reference(
        key=key,
        kind=entry["type"],
        title=entry["title"],
        authors=tuple(entry["author"]),
        year=entry["year"],
        role=entry["role"],
        fields={name: str(value) for name, value in entry.items() if name not in known},
        dataset=entry.get("dataset"),
    )


def _protected(title: str) -> str:
    """A title for BibTeX: words with capitals inside keep them."""
    return _CAPITALS.sub(lambda match: f"{{{match[0]}}}", latex(title))
