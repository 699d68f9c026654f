"""Where the rows of a user's table come from: text files (CSV, TSV, JSON lines), Parquet files, frames in memory.

A source has `columns`, its digest, `parts` (all of them, in one pass) and `rows` (of one part again).
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from ..basics.errors import InputError, first_line
from ..basics.parquet_pages import ROWS_AT_ONCE, refuse_huge_pages
from ..basics.printable import counted
from ..basics.reading import file_sha256, open_regular, unreadable
from .table_rows import NEEDED, SKIPPED_SCHEMA, Part, Rows, as_json, typed
from .text_lines import BYTE_ORDER_MARK, LONGEST_LINE, BadLineError, Lines, Place, json_object, open_text

_HINT = "give a table as CSV, TSV, JSON lines or Parquet"
_PARQUET = b"PAR1"
_FIRST = 4096  # bytes that show what a file is
_SPREADSHEET = "save the sheet as “CSV UTF-8” and give that file"
# First bytes → what the file is, and what the user does about it.
_OTHERS = {
    b"\x1f\x8b": ("packed with gzip", "unpack it with `gunzip`"),
    b"BZh": ("packed with bzip2", "unpack it with `bunzip2`"),
    b"\xfd7zXZ\x00": ("packed with xz", "unpack it with `unxz`"),
    b"\x28\xb5\x2f\xfd": ("packed with Zstandard", "unpack it with `unzstd`"),
    b"PK\x03\x04": ("a spreadsheet (.xlsx, .ods) or another zip file", _SPREADSHEET),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet (.xls) or another Office file", _SPREADSHEET),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
    b"%PDF": ("a PDF", _HINT),
}


class Kind(StrEnum):
    """How the rows of a table are written."""

    CSV = "CSV"
    TSV = "TSV"
    JSON_LINES = "JSON lines"
    PARQUET = "Parquet"


_BY_NAME = {".csv": Kind.CSV, ".parquet": Kind.PARQUET} | dict.fromkeys((".tsv", ".tab"), Kind.TSV)
_BY_NAME |= dict.fromkeys((".jsonl", ".ndjson", ".json"), Kind.JSON_LINES)


def kind_of(path: Path) -> Kind:
    """Which kind of table a file is, by its first bytes, then its name; InputError if it is none."""
    with open_regular(path, _HINT) as stream:
        try:
            first = stream.read(_FIRST)
        except OSError as error:
            raise unreadable(path, error, _HINT) from error
    if not first.strip():
        raise InputError(f"{path}: the file is empty; {_HINT}")
    if first.startswith(_PARQUET):
        return Kind.PARQUET
    for begin, (what, remedy) in _OTHERS.items():
        if first.startswith(begin):
            raise InputError(f"{path}: this is {what}; {remedy}")
    text = first.removeprefix(BYTE_ORDER_MARK).lstrip()
    kind = _BY_NAME.get(path.suffix.lower()) or (Kind.JSON_LINES if text.startswith(b"{") else Kind.CSV)
    if kind is Kind.PARQUET:
        raise InputError(f"{path}: not a Parquet file, although its name ends in {path.suffix}; {_HINT}")
    if kind is Kind.JSON_LINES and text.startswith(b"["):
        raise InputError(f"{path}: this is one JSON list; write one object per line, without the outer brackets")
    return kind


MOST_COLUMNS = 1_000
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_MISSING = ("NA", "NaN")  # what R and pandas write into CSV for a missing value


class _Raw(NamedTuple):
    """A row: the line where it begins, its fields by column, and why it cannot be read (empty if it can)."""

    line: int
    fields: Mapping[str, Any]
    reason: str = ""
    content: str = ""


@dataclass(frozen=True)
class TextTable:
    """A text file with one row a line, or a few lines where a quoted text of CSV has line ends."""

    path: Path
    kind: Kind
    columns: tuple[str, ...]  # in CSV and TSV all, in JSON lines those of the first row
    delimiter: str  # between two fields; empty for JSON lines
    start: Place

    @property
    def name(self) -> str:
        return str(self.path)

    @classmethod
    def open(cls, path: Path, kind: Kind) -> "TextTable":
        """Read the header, or the first row of JSON lines; InputError if it is bad."""
        with open_text(path) as stream:
            lines = Lines(stream, str(path))
            first = next((line for line in lines if line.strip()), "")
            if kind is Kind.JSON_LINES:
                return cls(path, kind, tuple(_fields(first, lines.location)), "", Place())
            # The one that the header has most often: spreadsheets in many countries write semicolons into CSV.
            usual = "\t" if kind is Kind.TSV else ","
            delimiter = max(_DELIMITERS, key=lambda delimiter: (first.count(delimiter), delimiter == usual))
            lines = Lines(stream, str(path))  # again as a row: a header may have quoted line ends
            try:
                fields = next((row for row in _reader(lines, delimiter) if any(row)), [])
            except csv.Error as error:
                raise InputError(f"{lines.location}: {_told(error)}") from None
            # R and pandas write a first column without a name: it is called by its position.
            names = tuple(name.strip() or f"column {number}" for number, name in enumerate(fields, start=1))
            _refuse_many(len(names), lines.location)
            if twice := [name for name in names if names.count(name) > 1]:
                raise InputError(
                    f"{lines.location}: two columns have the name {twice[0]!r}; give each a name of its own"
                )
            return cls(path, kind, names, delimiter, lines.place)

    def sha256(self) -> str:
        return file_sha256(self.path)

    def parts(self, size: int, texts: Sequence[str]) -> Iterator[tuple[Part, Rows]]:
        with open_text(self.path) as stream:
            lines = Lines(stream, str(self.path), self.start)
            raws, n, place = self._raws(lines, texts), 0, lines.place
            while some := list(islice(raws, size)):
                yield Part(n, len(some), *place), self._numbered(some, n, None)
                n, place = n + len(some), lines.place

    def rows(self, part: Part, schema: Mapping[str, pl.DataType], texts: Sequence[str]) -> Rows:
        with open_text(self.path) as stream:
            lines = Lines(stream, str(self.path), Place(part.offset, part.line))
            return self._numbered(list(islice(self._raws(lines, texts), part.size)), part.start, schema)

    @property
    def missing(self) -> tuple[str, ...]:  # what stands for a missing value
        return () if self.kind is Kind.JSON_LINES else _MISSING

    def _raws(self, lines: Lines, texts: Sequence[str]) -> Iterator[_Raw]:
        return _json_rows(lines, texts) if self.kind is Kind.JSON_LINES else self._delimited_rows(lines)

    def _delimited_rows(self, lines: Lines) -> Iterator[_Raw]:
        reader = _reader(lines, self.delimiter)
        while True:
            first = lines.place.line + 1
            try:
                fields = next(reader, None)
            except (BadLineError, csv.Error) as error:
                yield _Raw(first, {}, error.reason if isinstance(error, BadLineError) else _told(error))
                continue
            if fields is None:
                return
            if not any(fields):  # spreadsheets write rows of empty cells below a table
                continue
            if len(fields) == len(self.columns):
                yield _Raw(first, dict(zip(self.columns, fields, strict=True)))
                continue
            reason = f"{counted(len(fields), 'field')}, but the header has {len(self.columns)}"
            if len(fields) > len(self.columns):
                reason += f"; a text that has a {_DELIMITERS[self.delimiter]} must stand in double quotes"
            yield _Raw(first, {}, reason, as_json(fields))

    def _numbered(self, raws: Sequence[_Raw], before: int, schema: Mapping[str, pl.DataType] | None) -> Rows:
        """Rows behind `before` others, in the columns of `schema`, by default the table's and their own."""
        numbered = list(enumerate(raws, before + 1))
        good = [(number, raw) for number, raw in numbered if not raw.reason]
        bad = [(number, raw.line, raw.reason, raw.content) for number, raw in numbered if raw.reason]
        own = [*self.columns, *(name for _, raw in good for name in raw.fields)]
        names = dict.fromkeys(own) if schema is None else schema
        columns = [typed(name, [raw.fields.get(name) for _, raw in good], names[name]) for name in names]
        return Rows(
            pl.DataFrame(columns),
            np.array([number for number, _ in good], np.int64),
            np.array([raw.line for _, raw in good], np.int64),
            pl.DataFrame(bad, schema=SKIPPED_SCHEMA, orient="row"),
        )


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
        fields, reason = {}, ""
        try:
            fields = _fields(line, lines.location)
        except InputError as error:
            reason = str(error).removeprefix(f"{lines.location}: ")
        for name in texts:
            if not isinstance(value := fields.get(name), str | None):
                reason = reason or f"{name} is {as_json(value)}; {NEEDED}"
        yield _Raw(lines.place.line, fields, reason, line.strip() if reason else "")


def _fields(line: str, location: str) -> dict[str, Any]:
    fields = json_object(line, location)
    _refuse_many(len(fields), location)
    return fields


def _refuse_many(columns: int, location: str) -> None:
    if columns > MOST_COLUMNS:
        raise InputError(f"{location}: {columns:,} columns; a table has at most {MOST_COLUMNS:,}")


def _reader(lines: Lines, delimiter: str) -> Iterator[list[str]]:
    # `map` goes on after a line that cannot be read; a generator would end there.
    return csv.reader(map("{}\n".format, lines), delimiter=delimiter, strict=True)


def _told(error: csv.Error) -> str:
    text = str(error)
    if "field limit" in text:
        return "a text of more than 131,072 characters, or a double quote that is not closed"
    if "unexpected end of data" in text:
        return "a double quote that is not closed"
    if "new-line character" in text:
        return "a line end in the middle of the line; save the file as CSV with the usual line ends"
    return f"{text}; write a double quote within a quoted text twice"


_NESTED = (pl.List, pl.Array, pl.Struct, pl.Object, pl.Binary)


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """A Parquet file, or a frame in memory: its digest is that of its names, types and values."""

    missing: ClassVar[tuple[str, ...]] = ()

    path: Path | None  # None for a frame
    frame: pl.DataFrame | None = None

    @property
    def name(self) -> str:
        return "the frame" if self.path is None else str(self.path)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        if self.path is not None:
            refuse_huge_pages(self.path)
        with self._reading() as rows:
            return tuple(rows.collect_schema())

    def sha256(self) -> str:
        if self.path is not None:
            return file_sha256(self.path)
        with self._reading() as rows:
            schema = [[name, str(dtype)] for name, dtype in rows.collect_schema().items()]
            digest = hashlib.sha256(as_json(schema).encode())
            for some in rows.collect_batches(chunk_size=ROWS_AT_ONCE, maintain_order=True):
                digest.update(_plain(some).write_ndjson().encode())
        return digest.hexdigest()

    def parts(self, size: int, texts: Sequence[str]) -> Iterator[tuple[Part, Rows]]:
        """All parts. InputError if one of the columns `texts` holds something else."""
        with self._reading() as rows:
            schema, n = rows.collect_schema(), rows.select(pl.len()).collect().item()
        for column in texts:
            if not isinstance(schema[column], pl.String | pl.Categorical | pl.Enum | pl.Null):
                raise InputError(f"{self.name}: the column {column!r} holds {schema[column]}; {NEEDED} in each row")
        for start in range(0, n, size):
            part = Part(start, min(size, n - start))
            yield part, self.rows(part, schema, texts)

    def rows(self, part: Part, schema: Mapping[str, pl.DataType], texts: Sequence[str]) -> Rows:  # noqa: ARG002
        with self._reading() as rows:
            frame = rows.slice(part.start, part.size).collect()
        for column in frame.iter_columns():
            if column.dtype == pl.String and (column.str.len_bytes() > LONGEST_LINE).any():
                raise InputError(
                    f"{self.name}: the column {column.name!r} has a text of more than {LONGEST_LINE:,} bytes; "
                    "give shorter texts"
                )
        return Rows(_plain(frame), np.arange(part.start + 1, part.start + part.size + 1))

    @contextmanager
    def _reading(self) -> Iterator[pl.LazyFrame]:
        if self.frame is not None or self.path is None:
            yield (pl.DataFrame() if self.frame is None else self.frame).lazy()
            return
        with open_regular(self.path):  # refuses pipes and folders, for which Polars would wait or look inside
            pass
        try:
            yield pl.scan_parquet(self.path, glob=False, hive_partitioning=False)
        except (PolarsError, PanicException, OSError, ValueError) as error:
            raise InputError(f"{self.path}: not a whole Parquet file ({first_line(error)}); write it again") from None


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The same in plain columns: categories and spans of time are texts, and lists and objects are written as JSON."""
    columns = []
    for column in frame.iter_columns():
        if isinstance(column.dtype, pl.Categorical | pl.Enum):
            columns.append(column.cast(pl.String))
        elif isinstance(column.dtype, pl.Duration):
            columns.append(column.dt.to_string())  # ISO 8601; a cast is not possible
        elif isinstance(column.dtype, _NESTED):
            texts = [None if value is None else as_json(value) for value in column.to_list()]
            columns.append(pl.Series(column.name, texts, pl.String))
        else:
            columns.append(column)
    return pl.DataFrame(columns)
