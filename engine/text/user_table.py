"""Opening a user's table, the one pass over it, and reading its parts."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.errors import InputError, did_you_mean
from ..basics.reading import file_sha256
from .table_rows import Check, Part, Rows, common_types, judged
from .table_sources import MOST_COLUMNS, FrameTable, Kind, ParquetTable, TextTable, kind_of

ROWS_PER_PART = 4096
TableLike = str | Path | pl.DataFrame | pl.LazyFrame | Mapping[str, Sequence[Any]] | Any
"""A file, a Polars frame, a pandas frame, or a dictionary of columns."""

Source = TextTable | ParquetTable | FrameTable


@dataclass(frozen=True, eq=False)
class Table:
    """A user's table before its rows are read."""

    source: Source
    path: Path | None  # None for a frame in memory

    @property
    def name(self) -> str:
        return "the frame" if self.path is None else str(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; in JSON lines those of the first row."""
        return self.source.columns

    def scan(
        self,
        texts: Sequence[str],
        check: Check | None = None,
        *,
        skip_bad: bool = False,
        rows_per_part: int = ROWS_PER_PART,
    ) -> "Stimuli":
        """Read all rows once, one part at a time: count them, check them, and find the digest and the parts.

        Every row must hold a text in each of the columns `texts`. `check` says what else makes a row bad, such as a
        sentence without a mask; it gets a part's rows with all columns. Bad rows are counted with `skip_bad`.

        Raises:
            InputError: The file cannot be read; a row is bad, without `skip_bad`; no row can be used.
        """
        digest = hashlib.sha256()
        stamp = _stamp(self.path)
        parts: list[Part] = []
        schema: dict[str, pl.DataType] = {}
        skipped, first = 0, ""
        for block in self.source.blocks(rows_per_part, digest, texts):
            rows = judged(block, texts, check)
            if len(rows.skipped):
                first = first or _told(self.name, rows.skipped.row(0, named=True))
                if not skip_bad:
                    raise InputError(first)
            skipped += len(rows.skipped)
            parts.append(block.part)
            schema = common_types(schema, block.frame)
            if len(schema) > MOST_COLUMNS:
                raise InputError(f"{self.name}: more than {MOST_COLUMNS:,} columns; write one object of few per line")
        n = sum(part.size for part in parts)
        if skipped == n:
            raise InputError(first or f"{self.name}: there is no row below the names of the columns")
        schema = {name: dtype if dtype != pl.Null else pl.String() for name, dtype in schema.items()}
        return Stimuli(
            self.source, self.path, tuple(texts), schema, tuple(parts), n, skipped, digest.hexdigest(), stamp
        )


@dataclass(frozen=True, eq=False)
class Stimuli:
    """A user's table whose rows are known, to be read part by part. It travels to other processes by pickling."""

    source: Source = field(repr=False)
    path: Path | None  # None for a frame in memory
    texts: tuple[str, ...]
    schema: Mapping[str, pl.DataType]  # of all columns; those of CSV and TSV are texts
    parts: tuple[Part, ...] = field(repr=False)
    n: int
    skipped: int
    sha256: str  # hexadecimal: of the file's bytes, or of the frame's names, types and values
    stamp: tuple[int, int] | None = field(repr=False)

    def read(self, number: int, check: Check | None = None) -> Rows:
        """Rows with the columns of `schema`. Raises InputError if the file cannot be read, or was changed since."""
        self._refuse_change()
        block = self.source.block(self.parts[number], self.schema, self.texts)
        rows = judged(block, self.texts, check)
        return replace(rows, frame=rows.frame.cast(pl.Schema(self.schema)))

    def location(self, number: int, line: int | None) -> str:
        """Where a row stands, for a message: file and line of a text file, or the number of the row."""
        return _location("the frame" if self.path is None else str(self.path), number, line)

    def at(self, path: Path) -> "Stimuli":
        """The same table in a copy of its file."""
        if isinstance(self.source, FrameTable):
            return self
        return replace(self, path=path, source=replace(self.source, path=path))

    def _refuse_change(self) -> None:
        if self.path is None or (stamp := _stamp(self.path)) == self.stamp:
            return
        if not _has_digest(self.path, stamp, self.sha256):
            raise InputError(
                f"{self.path}: changed since the run began; give the run another --output, or undo the change"
            )


def open_table(source: TableLike) -> Table:
    """Open a user's table: read its header, not its rows.

    Raises:
        InputError: There is no such file; it is packed, a spreadsheet or something else; its header is bad.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        kind = kind_of(path)
        table = Table(ParquetTable(path) if kind is Kind.PARQUET else TextTable.open(path, kind), path)
        assert table.columns is not None  # noqa: S101 - reads the header of Parquet
        return table
    return Table(FrameTable(_frame(source)), None)


def _frame(source: Any) -> pl.DataFrame:
    try:
        if isinstance(source, pl.DataFrame):
            return source
        if isinstance(source, pl.LazyFrame):
            return source.collect()
        if isinstance(source, Mapping):
            return pl.DataFrame({str(name): _listed(column) for name, column in source.items()}, strict=False)
        if hasattr(source, "columns") and hasattr(source, "__getitem__"):
            return pl.DataFrame({str(name): _listed(source[name]) for name in source.columns}, strict=False)
        if isinstance(source, list) and all(isinstance(row, Mapping) for row in source):
            return pl.DataFrame(list(source))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"the table cannot be read ({error}); give a file, or columns of the same length") from error
    raise InputError(f"a table of type {type(source).__name__}; give a file, a frame or a dictionary of columns")


def _listed(column: Any) -> Any:
    """The values of a column; pandas has NaN where a text is missing."""
    if isinstance(column, pl.Series):
        return column
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    if any(isinstance(value, str) for value in values):
        return [None if isinstance(value, float) and isnan(value) else value for value in values]
    return values


def _stamp(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        found = os.stat(path)  # noqa: PTH116 - `Path.stat` fails for names that no file can have
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=16)
def _has_digest(path: Path, stamp: tuple[int, int] | None, sha256: str) -> bool:  # noqa: ARG001 - part of the key
    return file_sha256(path) == sha256


def _location(name: str, number: int, line: int | None) -> str:
    return f"{name}, row {number}" if line is None else f"{name}:{line}"


def _told(name: str, bad: Mapping[str, Any]) -> str:
    return f"{_location(name, bad['row'], bad['line'])}: {bad['reason']}"


def find_column(table: Table, option: str, given: str | None, obvious: Sequence[str] = ()) -> str | None:
    """The column that a user named for a purpose; else one with an obvious name; None if there is neither.

    `option` is what names the column, such as `--sentence`, for the message. The `obvious` names are in lower case;
    upper and lower case are the same.

    Raises:
        InputError: The table does not have the named column.
    """
    if given is None:
        by_name = {name.strip().lower(): name for name in reversed(table.columns)}
        return next((by_name[name] for name in obvious if name in by_name), None)
    if given not in table.columns:
        near = did_you_mean(given, table.columns)
        raise InputError(f"{option} {given}: {near}{table.name} has no such column; it has {_named(table)}")
    return given


def needed_column(table: Table, option: str, given: str | None, obvious: Sequence[str]) -> str:
    """As `find_column`, for a column that the table must have. Raises InputError if it does not have it."""
    found = find_column(table, option, given, obvious)
    if found is None:
        raise InputError(
            f"{table.name}: no column {obvious[0]!r}; it has {_named(table)}: give the right one with {option} COLUMN"
        )
    return found


def _named(table: Table) -> str:
    return ", ".join(map(repr, table.columns)) or "no columns"
