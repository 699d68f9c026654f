"""A user's table: one pass over a file, a folder of files or a frame writes its rows, to be read part by part.

All ways in give the same rows. A column has one type over the whole table. A label, which rows share, is the text that
a person sees, in one spelling.
"""

import hashlib
import shutil
import tempfile
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from ..basics.errors import InputError
from ..basics.reading import file_sha256, is_folder
from .table_cells import DATE, MOST_COLUMNS, as_type, kinds_of, label, type_of, unusable
from .table_sources import bare, in_memory, parts_of, sources_of
from .table_text import AS_USUAL, PLACE, Form, Source, location
from .text_lines import LONGEST_LINE

ROWS_PER_PART = 4096
# A file, a frame of Polars, pandas or Arrow, a data set of the hub, a list of dictionaries, or a dictionary of columns.
TableLike = str | Path | pl.DataFrame | pl.LazyFrame | Mapping[str, Sequence[Any]] | Any
Check = Callable[[pl.DataFrame], pl.Series]  # rows → for each row why it cannot be used; null where it can
_DATES = " has dates or times, which a sheet may show in another form; it also makes dates of texts such as 1-5"
FILE_NAME = "file name"  # a label of rows that several files have, though no column says it


class Rows(NamedTuple):
    """The rows of a part that can be used, where they stand, and those that are skipped."""

    frame: pl.DataFrame
    written: pl.DataFrame  # the same with labels as they stand there
    places: pl.DataFrame  # row and line of `PLACES`
    skipped: pl.DataFrame  # of `PLACES`
    left: pl.DataFrame  # what stands in these


@dataclass(frozen=True, eq=False)
class Table:
    """A user's table, whose rows lie in a folder of our own, a Parquet file for each part. It travels by pickling."""

    title: str  # without its folder and its ending
    files: tuple[Source, ...]  # one, or those of a folder in the order of their names
    folder: Path = field(repr=False)
    parts: tuple[tuple[int, int], ...] = field(repr=False)  # number of the file, and rows, bad ones among them
    schema: Mapping[str, pl.DataType]  # of all columns
    kinds: Mapping[str, set[str]] = field(default_factory=dict)  # of their values, see `kinds_of`
    notes: tuple[str, ...] = ()  # what a person may not have meant, a line each
    headings: Path | None = None  # where a user can write which columns are meant; None for what was in memory
    owner: object = field(default=None, repr=False)  # removes the folder when the last table that has it is gone
    absent: tuple[tuple[str, str], ...] = ()  # options with the columns that they name and the table lacks
    # Known once a table is scanned:
    texts: tuple[str, ...] = ()  # columns that hold a text in each row
    optional: tuple[str, ...] = ()  # columns that hold a text in some rows
    labels: tuple[str, ...] = ()
    spelled: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # label → spelling → the one that counts
    skipped: int = 0

    @property
    def name(self) -> str:
        return self.files[0].name

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema)

    @property
    def said(self) -> str:  # its columns, for a message
        return ", ".join(map(repr, self.columns)) or "no columns"

    @property
    def sizes(self) -> list[int]:
        return [size for _, size in self.parts]

    @property
    def n(self) -> int:  # the rows, bad ones among them
        return sum(self.sizes)

    @property
    def file_names(self) -> tuple[str, ...]:  # what results call each of several files; empty for a single one
        names = [Path(file.name).name for file in self.files] if len(self.files) > 1 else []
        stems = [bare(Path(name)).stem for name in names]
        taken = {*names, *(stem for stem in stems if stems.count(stem) > 1)}
        return tuple(name if stem in taken else stem for name, stem in zip(names, stems, strict=True))

    @property
    def sha256(self) -> str:  # of the one file, or of the names and digests of all
        if not self.file_names:
            return self.files[0].sha256
        lines = [f"{own.sha256}  {name}\n" for name, own in zip(self.file_names, self.files, strict=True)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def file(self, number: int) -> str | None:
        """What results call the file of a part; None where there is one file."""
        return self.file_names[self.parts[number][0]] if self.file_names else None

    def is_file_name(self, name: str) -> bool:
        """Whether a label is the name of the file, and not a column."""
        return name == FILE_NAME and len(self.files) > 1 and not any(name in own.columns for own in self.files)

    def location(self, number: int, row: int) -> str:
        """Where a row of a part stands, for a message."""
        places = pl.read_parquet(part_file(self.folder, number), columns=[PLACE], glob=False)[PLACE].struct.unnest()
        return location(self.files[self.parts[number][0]].name, row, places.filter(row=row)["line"][0])

    def paths(self) -> dict[str, Path]:
        """What is read from the disk, by a name of our own."""
        return {"table": self.folder}

    def at(self, places: Mapping[str, Path]) -> "Table":
        return replace(self, folder=places["table"])

    def read(self, number: int, check: Check | None = None) -> Rows:
        """The rows of a part with the columns of `schema`; what cannot be used, or has a reason by `check`, is skipped.

        Each label is in one spelling; null where no value stands. Whole numbers stay numbers.
        """
        stored = pl.read_parquet(part_file(self.folder, number), glob=False, hive_partitioning=False)
        places = stored[PLACE].struct.unnest()
        absent = {name: pl.lit(None, pl.String) for name in self.schema if name not in stored.columns}
        if self.is_file_name(FILE_NAME):
            absent[FILE_NAME] = pl.lit(self.file(number))
        stored = stored.with_columns(**absent) if absent else stored
        written = stored.select(as_type(name, dtype).alias(name) for name, dtype in self.schema.items())
        frame = written.with_columns(label(written[own]).replace(self.spelled.get(own, {})) for own in self.labels)
        reasons = [places["reason"], *unusable(self.texts, self.optional, self.labels)]
        reasons += [] if check is None else [check(frame)]
        places = places.with_columns(stored.select(reason=pl.coalesce(reasons)))
        good = places["reason"].is_null()
        every = frame, written, places.drop("reason")
        kept, as_written, there = every if good.all() else (own.filter(good) for own in every)
        return Rows(kept, as_written, there, places.filter(~good), frame.filter(~good))

    def scan(
        self,
        texts: Sequence[str],
        check: Check | None = None,
        *,
        optional: Sequence[str] = (),
        labels: Sequence[str] = (),
        spelled: Mapping[str, Mapping[str, str]] | None = None,
        skip_bad: bool = False,
        see: Callable[[str, Rows], None] | None = None,
    ) -> "Table":
        """Look at all rows: columns `texts` must hold a text in each row, `optional` ones hold one in some rows.

        `labels` are what rows share.

        Bad rows, by `check` or without a text, are an InputError, or counted with `skip_bad`. `see` gets the name of
        the file and the rows of each part. `spelled` are further spellings of labels: column → spelling → the one that
        counts.
        """
        for name in labels:
            if "nested" in self.kinds.get(name, ()):
                raise InputError(f"{self.name}: the column {name!r} holds lists; a text or a number a row is needed")
        as_texts = {*texts, *optional, *(own for own in labels if not self.schema.get(own, pl.String()).is_integer())}
        schema = {**self.schema, **dict.fromkeys(as_texts, pl.String())}
        found = replace(self, texts=tuple(texts), optional=tuple(optional), labels=tuple(labels))
        found = replace(found, schema=schema, spelled=spelled or {})
        for own, name in product(self.files, (*texts, *optional, *labels)):
            if why := own.unreadable.get(name):
                raise InputError(f"{own.name}: the column {name!r} cannot be read ({why}); write it as a text")
            if name not in own.columns and not self.is_file_name(name):
                more = f"; it has {self.said}" if len(self.files) == 1 else ", which others of these files have"
                raise InputError(f"{own.name}: no column {name!r}{more}")
        good, first = Counter[int](), dict[int, str]()
        for number, (file, _) in enumerate(self.parts):
            rows = found.read(number, check)
            if len(rows.skipped):
                *place, reason = rows.skipped.row(0)
                first.setdefault(file, f"{location(self.files[file].name, *place)}: {reason}")
                if not skip_bad:
                    raise InputError(first[file])
            good[file] += len(rows.frame)
            if see is not None:
                see(self.files[file].name, rows)
        for file, reason in first.items():
            if not good[file]:
                raise InputError(reason)
        dates = (f"{self.name}: {name}{_DATES}" for name in labels if DATE in self.kinds.get(name, ()))
        return replace(found, skipped=self.n - good.total(), notes=(*self.notes, *dates))


def open_table(source: TableLike, rows_per_part: int = ROWS_PER_PART, form: Form = AS_USUAL) -> Table:
    """Read a user's table, or all tables of a folder or a zip archive in the order of their names, once."""
    if not isinstance(source, str | Path):
        return _kept("frame", [in_memory(source)], rows_per_part)
    path = Path(source)
    with sources_of(path, form) as found:
        table = _kept(_title(path), found, rows_per_part)
    return replace(table, headings=headings_file(path))


def headings_file(path: Path) -> Path:
    """The file beside a table, or beside a folder of tables, in which a user can write which columns are meant."""
    return path.with_name(f"{_title(path)}.columns.toml")


def _title(path: Path) -> str:
    return path.resolve().name if is_folder(path) else bare(path).stem


class OwnFolder:
    """A folder that is gone when nobody has it any more; what travels to another process does not own it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="negengine-table-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def part_file(folder: Path, number: int) -> Path:
    """The Parquet file with a part of what was read."""
    return folder / f"{number:06d}.parquet"


def _kept(title: str, sources: Sequence[Source], rows_per_part: int) -> Table:
    folder, files, parts, kinds = OwnFolder(), list[Source](), list[tuple[int, int]](), defaultdict[str, set[str]](set)
    for number, source in enumerate(sources):
        is_file, content = isinstance(source.data, Path), hashlib.sha256()
        sha256 = file_sha256(source.data) if is_file else ""
        for part in parts_of(source, rows_per_part):
            part.write_parquet(part_file(folder.path, len(parts)), compression="lz4", statistics=False)
            parts.append((number, len(part)))
            cells = part.drop(PLACE)
            for column, longest in zip(cells, cells.select(pl.all().str.len_bytes().max()), strict=True):
                kinds[column.name] |= kinds_of(column)
                if (longest > LONGEST_LINE).any():
                    long = f"the column {column.name!r} has a text of more than {LONGEST_LINE:,} bytes"
                    raise InputError(f"{source.name}: {long}; give shorter texts")
            if len(kinds) > MOST_COLUMNS:
                raise InputError(f"{source.name}: more than {MOST_COLUMNS:,} columns; write one object of few per line")
            if not is_file:
                content.update(cells.write_ndjson().encode())
        if is_file and file_sha256(source.data) != sha256:
            raise InputError(f"{source.name}: changed while it was read; run the command again")
        files.append(replace(source, data=None, sha256=sha256 or content.hexdigest()))
    schema = {name: type_of(own) for name, own in kinds.items()}
    notes = tuple(f"{source.name}: {note}" for source in sources for note in source.notes)
    return Table(title, tuple(files), folder.path, tuple(parts), schema, dict(kinds), notes, owner=folder)
