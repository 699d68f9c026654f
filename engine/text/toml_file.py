"""A TOML file with the lines of its keys, so that every error names file and line."""

import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..basics.errors import InputError
from .text_lines import read_text

_MOST_PARSED = 500
_MOST = 2**19  # bytes: tens of times the largest of ours; `tomllib` takes up to 500 bytes for one
# A key of very many parts, with dots between them: `tomllib` takes gigabytes for it.
_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_MANY_PARTS = re.compile(rf"(?<![\w.\\-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{50}}")
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class TomlFile:
    """A TOML file whose tables at the top are arrays, such as `[[pattern]]`, or plain ones, such as `[slots]`."""

    path: Path
    lines: tuple[str, ...]
    document: dict[str, Any]

    @classmethod
    def read(cls, path: Path, hint: str = "") -> "TomlFile":
        text = read_text(path, hint, _MOST)
        if found := _MANY_PARTS.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise InputError(f"{path}:{line}: more than 50 words with dots between them; a key has one to three")
        try:
            return cls(path, tuple(text.split("\n")), tomllib.loads(text))
        except RecursionError:
            raise InputError(f"{path}: not valid TOML: nested too deeply") from None
        except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
            # Python 3.11 tells the line in the message alone, and none where the file ends too early.
            line = int(found[1]) if (found := re.search(r"at line (\d+)", str(error))) else text.count("\n")
            raise InputError(f"{path}:{line}: not valid TOML: {error}") from error

    def refuse_unknown(self, known: tuple[str, ...], said: str) -> None:
        if unknown := next((key for key in self.document if key not in known), None):
            raise InputError(f"{self.line(unknown)}: unknown key {unknown!r}; known are {said}")

    def tables(self, name: str) -> list[dict[str, Any]]:
        """The tables of an array; none if the file lacks it. InputError if it is something else."""
        found = self.document.get(name, [])
        if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
            raise InputError(f"{self.line(name)}: {name} must be tables [[{name}]]")
        return found

    def convert(self, name: str, kind: type[Kind]) -> list[Kind]:
        """The tables of an array as values; InputError if a key is missing, unknown, or of another kind."""
        found = []
        for number, table in enumerate(self.tables(name)):
            try:
                found.append(msgspec.convert(table, kind))
            except msgspec.ValidationError as error:
                raise self._refusal(name, number, table, kind, str(error)) from None
        return found

    def _refusal(self, name: str, number: int, table: dict[str, Any], kind: type, error: str) -> InputError:
        said, _, place = error.partition(" - at `$.")
        key: str | None = re.split(r"[.\[`]", place)[0]
        fields = msgspec.structs.fields(kind)
        if found := re.search(r"unknown field `(\w+)`", said):
            key, what = found[1], f"unknown key {found[1]!r}; known are {', '.join(own.name for own in fields)}"
        elif not key and (found := re.search(r"missing required field `(\w+)`", said)):
            needed = ", ".join(own.name for own in fields if own.required)
            key, what = None, f"this [[{name}]] has no {found[1]!r}; it needs {needed}"
        elif said.startswith("Invalid enum value") and isinstance(table.get(key or ""), str):
            known = next(own.type for own in fields if own.name == key)
            what = f"unknown {key} {table[key or '']!r}; known are {', '.join(known)}"
        elif key and said.startswith("Expected `str`") and place == f"{key}`":
            what = f"{key} is {table[key]!r}; it must be a string"
        else:
            what = f"[[{name}]] {key}: {said.removeprefix('Object ')}"
        return InputError(f"{self.line_of(name, number, key)}: {what}")

    def line(self, key: str | None = None) -> str:
        """File and line of a key or table at the top, or of the first line where it is not found."""
        found = []
        if key is not None:
            above = self._headers[0] if self._headers else len(self.lines)
            header = rf"\[\[?\s*[\"']?{re.escape(key)}[\"']?\s*[\].]"
            found = self._starting_with(_key(key), range(above)) or self._starting_with(header, range(len(self.lines)))
        return f"{self.path}:{(found or [0])[0] + 1}"

    def line_of(self, table: str, number: int, key: str | None = None) -> str:
        """File and line of a key in table `number` (from 0) of an array, or of the table where it lacks the key."""
        headers = self._starting_with(rf"\[\[\s*[\"']?{re.escape(table)}[\"']?\s*\]\]", range(len(self.lines)))
        if number >= len(headers):
            return self.line(table)
        start = headers[number]
        following = [line for line in self._headers if line > start]
        own = range(start, following[0] if following else len(self.lines))
        found = [] if key is None else self._starting_with(_key(key), own)
        return f"{self.path}:{(found or own)[0] + 1}"

    def line_in(self, table: str, key: str) -> str:
        """File and line of a key in a plain table, or of the table where the key is not found."""
        headers = self._starting_with(rf"\[\s*[\"']?{re.escape(table)}[\"']?\s*[\].]", range(len(self.lines)))
        found = self._starting_with(_key(key), range(headers[0], len(self.lines))) if headers else []
        return f"{self.path}:{(found or headers or [0])[0] + 1}"

    @cached_property
    def _headers(self) -> list[int]:  # the lines that begin a table at the top
        return self._starting_with(r"\[", range(len(self.lines)))

    def _starting_with(self, expression: str, lines: range) -> list[int]:
        """The lines on which a statement like this begins."""
        alike = [number for number in lines if re.match(rf"\s*{expression}", self.lines[number])]
        if len(alike) > _MOST_PARSED or not self._is_spread:
            return alike  # too many to parse what is above each of them; or no value has several lines
        # What stands above a statement is a whole document; what stands above a line in a string or a list is not.
        found = []
        for number in alike:
            with suppress(ValueError, RecursionError):
                tomllib.loads("\n".join(self.lines[:number]))
                found.append(number)
        return found

    @cached_property
    def _is_spread(self) -> bool:  # whether a value may have several lines
        strings = any(quotes in line for line in self.lines for quotes in ('"""', "'''"))
        return strings or any(re.search(r"=\s*\[", line) and line.count("[") > line.count("]") for line in self.lines)


def _key(key: str) -> str:
    return rf"""["']?{re.escape(key)}["']?\s*="""
