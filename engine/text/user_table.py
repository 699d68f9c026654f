"""A user's table (a file, a frame in memory, a folder of files with the same columns): the pass over it, its parts."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.errors import InputError, did_you_mean
from ..basics.reading import file_sha256, is_folder, paths_in
from .table_rows import Check, Part, Rows, common_type, shared_values
from .table_sources import MOST_COLUMNS, ColumnTable, Kind, TextTable, kind_of

ROWS_PER_PART = 4096
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
# A file, a Polars frame, a pandas frame, or a dictionary of columns.
TableLike = str | Path | pl.DataFrame | pl.LazyFrame | Mapping[str, Sequence[Any]] | Any
Source = TextTable | ColumnTable


@dataclass(frozen=True, eq=False)
class Table:
    """A user's table before its rows are read."""

    title: str  # without its folder and its ending
    sources: tuple[Source, ...]  # one, or the files of a folder in the order of their names

    @property
    def name(self) -> str:
        return self.sources[0].name

    @property
    def columns(self) -> tuple[str, ...]:
        return self.sources[0].columns

    def scan(
        self,
        texts: Sequence[str],
        check: Check | None = None,
        *,
        skip_bad: bool = False,
        rows_per_part: int = ROWS_PER_PART,
        see: Callable[[str, Rows, Sequence[str]], None] | None = None,
    ) -> "Stimuli":
        """Read all rows once, one part at a time: count them, check them, and find the digests and the parts.

        Bad rows, by `check` or without a text in one of `texts`, are an InputError, or counted with `skip_bad`. `see`
        gets the name of the file, the good rows of each part, and the texts that stand for a missing value.
        """
        parts: list[tuple[int, Part]] = []
        schema: dict[str, pl.DataType] = {}
        skipped, digests, stamps = 0, [], [_stamp(source.path) for source in self.sources]
        for number, source in enumerate(self.sources):
            digests.append(source.sha256())
            n, bad, first = 0, 0, ""
            for part, read in source.parts(rows_per_part, texts):
                rows = read.judged(texts, source.missing, check)
                if len(rows.skipped):
                    worst = rows.skipped.row(0, named=True)
                    first = first or f"{_location(source.name, worst['row'], worst['line'])}: {worst['reason']}"
                    if not skip_bad:
                        raise InputError(first)
                if see is not None:
                    see(source.name, rows, source.missing)
                n, bad = n + part.size, bad + len(rows.skipped)
                parts.append((number, part))
                schema |= {name: common_type(schema.get(name), kind) for name, kind in read.frame.schema.items()}
                if len(schema) > MOST_COLUMNS:
                    raise InputError(
                        f"{source.name}: more than {MOST_COLUMNS:,} columns; write one object of few per line"
                    )
            if bad == n:
                raise InputError(first or f"{source.name}: there is no row below the names of the columns")
            skipped += bad
        schema = {name: dtype if dtype != pl.Null else pl.String() for name, dtype in schema.items()}
        return Stimuli(
            self.title, self.sources, tuple(texts), schema, tuple(parts), skipped, tuple(digests), tuple(stamps)
        )


@dataclass(frozen=True, eq=False)
class Stimuli:
    """A user's table whose rows are known, to be read part by part. It travels to other processes by pickling."""

    title: str
    sources: tuple[Source, ...] = field(repr=False)
    texts: tuple[str, ...]
    schema: Mapping[str, pl.DataType]  # of all columns; those of CSV and TSV are texts
    parts: tuple[tuple[int, Part], ...] = field(repr=False)  # number of the file, and its rows
    skipped: int
    digests: tuple[str, ...]  # SHA-256 in hex: of a file's bytes, or of a frame's names, types and values
    stamps: tuple[tuple[int, int] | None, ...] = field(repr=False)
    shared: tuple[str, ...] = ()  # columns that say which rows belong together, read by `shared_values`

    @property
    def sizes(self) -> list[int]:
        return [part.size for _, part in self.parts]

    @property
    def n(self) -> int:  # the rows, bad ones among them
        return sum(self.sizes)

    @property
    def files(self) -> tuple[str, ...]:  # what results call each of several files; empty for a single one
        return tuple(Path(source.name).stem for source in self.sources) if len(self.sources) > 1 else ()

    @property
    def sha256(self) -> str:  # of the one file, or of the names and digests of all
        if not self.files:
            return self.digests[0]
        lines = [f"{digest}  {file}\n" for file, digest in zip(self.files, self.digests, strict=True)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def read(self, number: int, check: Check | None = None) -> Rows:
        """The rows of a part with the columns of `schema`; InputError if the file was changed since."""
        file, part = self.parts[number]
        source = self.sources[file]
        if source.path is not None and (stamp := _stamp(source.path)) != self.stamps[file]:
            _refuse_change(source.path, stamp, self.digests[file])
        rows = source.rows(part, self.schema, self.texts).judged(self.texts, source.missing, check)
        frame = rows.frame.with_columns(**shared_values(rows.frame, self.shared, source.missing))
        absent = [pl.lit(None).alias(name) for name in self.schema if name not in frame.columns]
        frame = frame.with_columns(absent).select(*self.schema).cast(pl.Schema(self.schema))
        return replace(rows, frame=frame)

    def file(self, number: int) -> str | None:
        """What results call the file of a part; None where there is one file."""
        return self.files[self.parts[number][0]] if self.files else None

    def location(self, number: int, row: int, line: int | None) -> str:
        """Where a row of a part stands, for a message."""
        return _location(self.sources[self.parts[number][0]].name, row, line)

    def paths(self) -> dict[str, Path]:
        """The files by names of our own."""
        return {f"table {i}": source.path for i, source in enumerate(self.sources) if source.path is not None}

    def at(self, places: Mapping[str, Path]) -> "Stimuli":
        moved = [
            replace(source, path=places[name]) if (name := f"table {i}") in places else source
            for i, source in enumerate(self.sources)
        ]
        return replace(self, sources=tuple(moved))


def open_table(source: TableLike) -> Table:
    """Open a user's table, or all tables of a folder in the order of their names: read headers, not rows."""
    if not isinstance(source, str | Path):
        return Table("frame", (ColumnTable(None, _frame(source)),))
    path = Path(source)
    if not is_folder(path):
        return Table(path.stem, (_open_file(path),))
    paths = [own for own in paths_in(path) if own.suffix.lower() in ENDINGS]
    if not paths:
        raise InputError(f"{path}: this folder does not hold a table; the name of a table ends in {', '.join(ENDINGS)}")
    first, *others = [_open_file(own) for own in paths]
    for other in others:
        if further := sorted(set(other.columns) ^ set(first.columns)):
            raise InputError(f"{other.name}: only one of this file and {first.name} has the column {further[0]!r}")
    return Table(path.resolve().name, (first, *others))


def _open_file(path: Path) -> Source:
    kind = kind_of(path)
    source: Source = ColumnTable(path) if kind is Kind.PARQUET else TextTable.open(path, kind)
    assert source.columns is not None  # noqa: S101 - reads the header of Parquet
    return source


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
def _refuse_change(path: Path, stamp: tuple[int, int] | None, sha256: str) -> None:  # noqa: ARG001 - part of the key
    if file_sha256(path) != sha256:
        raise InputError(f"{path}: changed since the run began; give the run another --output, or undo the change")


def _location(name: str, number: int, line: int | None) -> str:
    return f"{name}, row {number}" if line is None else f"{name}:{line}"


def find_column(table: Table, option: str, given: str | None, obvious: Sequence[str] = ()) -> str | None:
    """The column that a user named with `option`; else one with an obvious name, in lower case; else None."""
    if given is None:
        by_name = {name.strip().lower(): name for name in reversed(table.columns)}
        return next((by_name[name] for name in obvious if name in by_name), None)
    if given not in table.columns:
        near = did_you_mean(given, table.columns)
        raise InputError(f"{option} {given}: {near}{table.name} has no such column; it has {_named(table)}")
    return given


def needed_column(table: Table, option: str, given: str | None, obvious: Sequence[str]) -> str:
    """As `find_column`, for a column that the table must have."""
    found = find_column(table, option, given, obvious)
    if found is None:
        raise InputError(
            f"{table.name}: no column {obvious[0]!r}; it has {_named(table)}: give the right one with {option} COLUMN"
        )
    return found


def _named(table: Table) -> str:
    return ", ".join(map(repr, table.columns)) or "no columns"
