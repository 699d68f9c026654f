"""Tables in text files: CSV, TSV and JSON lines."""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..errors import InputError
from ..files.json_text import parse_json
from ..files.reading import open_regular, unreadable
from ..printable import counted
from .kinds import Kind
from .lines import BadLineError, Lines, Place
from .rows import NEEDED, Bad, Block, Part, as_json, typed

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
MOST_COLUMNS = 1_000
_MISSING = ("NA", "NaN")  # what R and pandas write into CSV for a missing value
_LONG = "a text of more than 131,072 characters, or a double quote that is not closed"


class _Raw(NamedTuple):
    """A row: the line where it begins, its fields by column, and why it cannot be read (empty if it can)."""

    line: int
    fields: Mapping[str, Any]
    reason: str = ""
    content: str = ""


@dataclass(frozen=True)
class TextTable:
    """A text file with one row a line, or a few lines where a quoted text of CSV has line ends.

    Attributes:
        path: The file.
        kind: CSV, TSV or JSON lines.
        columns: In CSV and TSV all columns, in JSON lines those of the first row.
        delimiter: Between two fields; empty for JSON lines.
        start: Where the rows begin.
    """

    path: Path
    kind: Kind
    columns: tuple[str, ...]
    delimiter: str
    start: Place

    @classmethod
    def open(cls, path: Path, kind: Kind) -> "TextTable":
        """Read the header, or the first row of JSON lines.

        Raises:
            InputError: The file cannot be read, its header or first row is bad, or two columns have one name.
        """
        with _reading(path) as stream:
            lines = Lines(stream, str(path))
            try:
                if kind is Kind.JSON_LINES:
                    return cls(path, kind, _first_keys(lines), "", Place())
                header = next((line for line in lines if line.strip()), "")
                delimiter = _delimiter(header, kind)
                # The header may have quoted line ends: it is read again, as a row.
                lines = Lines(stream, str(path))
                fields = next((row for row in _reader(lines, delimiter) if any(row)), [])
            except BadLineError as error:
                raise InputError(f"{lines.location}: {error}") from None
            except csv.Error as error:
                raise InputError(f"{lines.location}: {_told(error)}") from None
            return cls(path, kind, _names(fields, lines.location), delimiter, lines.place)

    def blocks(self, size: int, digest: "hashlib._Hash", texts: Sequence[str]) -> Iterator[Block]:
        """All parts in one pass; the digest gets all bytes of the file.

        Args:
            size: Rows of a part.
            digest: Gets the bytes.
            texts: Columns that must hold texts.

        Raises:
            InputError: The file cannot be read, or a line is too long.
        """
        with _reading(self.path) as stream:
            digest.update(stream.read(self.start.offset))
            lines = Lines(stream, str(self.path), self.start, digest)
            rows, n, place = self._rows(lines, texts), 0, lines.place
            while raws := list(islice(rows, size)):
                yield self._block(Part(n, len(raws), *place), raws, None)
                n, place = n + len(raws), lines.place

    def block(self, part: Part, schema: Mapping[str, pl.DataType], texts: Sequence[str]) -> Block:
        """One part.

        Args:
            part: From `blocks`.
            schema: What the columns are in the whole table.
            texts: As for `blocks`.

        Raises:
            InputError: The file cannot be read.
        """
        with _reading(self.path) as stream:
            lines = Lines(stream, str(self.path), Place(part.offset, part.line))
            return self._block(part, list(islice(self._rows(lines, texts), part.size)), schema)

    def _rows(self, lines: Lines, texts: Sequence[str]) -> Iterator[_Raw]:
        return _json_rows(lines, texts) if self.kind is Kind.JSON_LINES else self._delimited_rows(lines)

    def _delimited_rows(self, lines: Lines) -> Iterator[_Raw]:
        reader = _reader(lines, self.delimiter)
        while True:
            first = lines.place.line + 1
            try:
                fields = next(reader, None)
            except BadLineError as error:
                yield _Raw(first, {}, error.reason)
                continue
            except csv.Error as error:
                yield _Raw(first, {}, _told(error))
                continue
            if fields is None:
                return
            if len(fields) == len(self.columns):
                if any(fields):  # spreadsheets write rows of empty cells below a table
                    yield _Raw(first, dict(zip(self.columns, fields, strict=True)))
            elif any(fields):
                yield _Raw(first, {}, self._ragged(len(fields)), as_json(fields))

    def _block(self, part: Part, raws: Sequence[_Raw], schema: Mapping[str, pl.DataType] | None) -> Block:
        good = [(number, raw) for number, raw in enumerate(raws, part.start + 1) if not raw.reason]
        names = schema if schema is not None else dict.fromkeys(name for _, raw in good for name in raw.fields)
        columns = [typed(name, [raw.fields.get(name) for _, raw in good], names[name]) for name in names]
        return Block(
            part,
            pl.DataFrame(columns),
            np.array([number for number, _ in good], np.int64),
            np.array([raw.line for _, raw in good], np.int64),
            [
                Bad(number, raw.line, raw.reason, raw.content)
                for number, raw in enumerate(raws, part.start + 1)
                if raw.reason
            ],
            () if self.kind is Kind.JSON_LINES else _MISSING,
        )

    def _ragged(self, n: int) -> str:
        found = f"{counted(n, 'field')}, but the header has {len(self.columns)}"
        if n < len(self.columns):
            return found
        return f"{found}; a text that has a {_DELIMITERS[self.delimiter]} must stand in double quotes"


def _json_rows(lines: Lines, texts: Sequence[str]) -> Iterator[_Raw]:
    while True:
        try:
            line = next(lines, None)
        except BadLineError as error:
            yield _Raw(lines.place.line, {}, error.reason)
            continue
        if line is None:
            return
        if not line.strip():
            continue
        reason = ""
        try:
            fields = _object(line, lines.location)
        except InputError as error:
            fields, reason = {}, str(error).removeprefix(f"{lines.location}: ")
        for name in texts:
            if not isinstance(value := fields.get(name), str | None):
                reason = reason or f"{name} is {as_json(value)}; {NEEDED}"
        yield _Raw(lines.place.line, fields, reason, line.strip() if reason else "")


def _first_keys(lines: Lines) -> tuple[str, ...]:
    line = next((line for line in lines if line.strip()), "")
    return tuple(_object(line, lines.location))


def _object(line: str, location: str) -> dict[str, Any]:
    fields = parse_json(line, location)
    if not isinstance(fields, dict):
        raise InputError(f"{location}: {line.strip()[:40]!r} is not a JSON object; write one object per line")
    if len(fields) > MOST_COLUMNS:
        raise InputError(f"{location}: {len(fields):,} columns; a table has at most {MOST_COLUMNS:,}")
    return fields


@contextmanager
def _reading(path: Path) -> "Iterator[Any]":
    with open_regular(path) as stream:
        try:
            yield stream
        except OSError as error:
            raise unreadable(path, error) from error


def _reader(lines: Lines, delimiter: str) -> "Iterator[list[str]]":
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _delimiter(header: str, kind: Kind) -> str:
    """The delimiter that the header has most often: spreadsheets in many countries write semicolons into CSV."""
    usual = "\t" if kind is Kind.TSV else ","
    return max(_DELIMITERS, key=lambda delimiter: (header.count(delimiter), delimiter == usual))


def _names(fields: Sequence[str], location: str) -> tuple[str, ...]:
    """The names of a header. R and pandas write a first column without a name: it is called by its position."""
    names = tuple(name.strip() or f"column {number}" for number, name in enumerate(fields, start=1))
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{location}: {len(names):,} columns; a table has at most {MOST_COLUMNS:,}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{location}: two columns have the name {twice[0]!r}; give each a name of its own")
    return names


def _told(error: csv.Error) -> str:
    """What the csv module says, in the words of a user."""
    text = str(error)
    if "field limit" in text:
        return _LONG
    if "unexpected end of data" in text:
        return "a double quote that is not closed"
    if "new-line character" in text:
        return "a line end in the middle of the line; save the file as CSV with the usual line ends"
    return f"{text}; write a double quote within a quoted text twice"
