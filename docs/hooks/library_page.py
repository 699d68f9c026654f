"""The page of the library: every public name with its signature and its docstring."""

import inspect
import re
from typing import Any

import negengine as ng
from negengine.engine.basics.option import OpeningOptions
from negengine.engine.library.options import RunOptions
from negengine.engine.library.run import Run

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
LISTS = {"Args", "Attributes", "Raises"}


def page() -> str:
    """The whole page: functions, then classes, each in alphabetical order."""
    functions = [name for name in ng.__all__ if name.islower()]
    classes = [name for name in ng.__all__ if name not in functions]
    lines = [
        "# The names of the library",
        "",
        "This page is made from the program. [Using the library](library.md) has examples.",
        "",
    ]
    for name in functions:
        lines += _function(f"ng.{name}", getattr(ng, name), 2)
    for name in classes:
        lines += _class(f"ng.{name}", getattr(ng, name))
    lines += ["## Options of all run functions { #run-options }", "", *_docstring(RunOptions)]
    lines += ["## Options of how a model is opened { #opening-options }", "", *_docstring(OpeningOptions)]
    return "\n".join(lines) + "\n"


def _function(name: str, function: Any, level: int) -> list[str]:
    code = _signature(name, function)
    return [f"{'#' * level} {name}", "", "```text", code, "```", "", *_docstring(function)]


def _class(name: str, kind: Any) -> list[str]:
    lines = [f"## {name}", "", *_docstring(kind)]
    if kind is not Run and issubclass(kind, Run):
        lines += ["It has all that [ng.Run](#ngrun) has.", ""]
    for method, value in vars(kind).items():
        public = getattr(value, "__func__", value)
        if not method.startswith("_") and inspect.isfunction(public):
            lines += _function(f"{kind.__name__}.{method}", public, 3)
    return lines


def _signature(name: str, function: Any) -> str:
    """The signature without the names of modules, one argument a line if it is long."""
    signature = inspect.signature(function)
    own = [parameter for key, parameter in signature.parameters.items() if key not in {"self", "cls"}]
    texts: list[str] = []
    for parameter in own:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in texts and not _has_rest(texts):
            texts.append("*")
        texts.append(_short(str(parameter)))
    returned = signature.return_annotation
    arrow = "" if returned is signature.empty else f" -> {_short(inspect.formatannotation(returned))}"
    line = f"{name}({', '.join(texts)}){arrow}"
    return line if len(line) <= 80 else f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){arrow}"


def _has_rest(texts: list[str]) -> bool:
    return any(text.startswith("*") and not text.startswith("**") for text in texts)


def _short(annotation: str) -> str:
    """`a.b.Model` is `Model`; a string enum's default is its value."""
    annotation = re.sub(r"<\w+\.\w+: ('[^']*')>", r"\1", annotation)
    return re.sub(r"\*<class '(\w+)'>", r"\1", re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", annotation))


def _docstring(thing: Any) -> list[str]:
    """A docstring of Google's style as Markdown: its sections become lists."""
    text = inspect.getdoc(thing)
    if not text:
        return []
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        if found := SECTION.match(line):
            section = found[1]
            lines += [f"**{'Arguments' if section == 'Args' else section}**", ""]
        elif not line.strip():
            lines.append("")
        elif not line.startswith(" "):
            section = ""
            lines.append(_escaped(line))
        elif section in LISTS and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            lines.append(f"- `{name}`: {_escaped(rest)}" if colon else f"- {_escaped(line.strip())}")
        elif section:
            lines.append(f"    {_escaped(line.strip())}" if section in LISTS else line[4:])
        else:
            lines.append(line)
    return [*lines, ""]


def _escaped(text: str) -> str:
    """Brackets and angles outside of code are no Markdown."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([\[\]*_<])", r"\\\1", piece) for piece in pieces)
