"""A user's table: one pass over a file, a folder of files or a frame writes its rows, to be read part by part.

All ways in give the same rows. A column has one type over the whole table. A label, which rows share, is the text that
a person sees, in one spelling.
"""

import hashlib
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.errors import InputError, did_you_mean
from ..basics.printable import counted
from ..basics.reading import file_sha256, is_folder
from .table_cells import LOOKS_MISSING, as_json, as_type, kinds_of, label, not_texts, type_of, unusable
from .table_sources import MOST_COLUMNS, PLACE, SKIPPED_SCHEMA, Source, bare, in_memory, seen_name, sources_of
from .text_lines import LONGEST_LINE

ROWS_PER_PART = 4096
# A file, a frame of Polars, pandas or Arrow, a list of dictionaries, or a dictionary of columns.
TableLike = str | Path | pl.DataFrame | pl.LazyFrame | Mapping[str, Sequence[Any]] | Any
Check = Callable[[pl.DataFrame], pl.Series]  # rows → for each row why it cannot be used; null where it can
FILE_NAME = "file name"  # a label of rows that several files have, though no column says it


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a part that can be used, and those that are skipped."""

    frame: pl.DataFrame
    places: pl.DataFrame  # the columns row and line of `SKIPPED_SCHEMA`
    skipped: pl.DataFrame  # of `SKIPPED_SCHEMA`

    @property
    def numbers(self) -> NDArray[np.int64]:  # [n], of each row in its file, from 1
        return self.places["row"].to_numpy()

    @property
    def lines(self) -> NDArray[np.int64] | None:  # [n], where each row begins; None outside text files
        line = self.places["line"]
        return None if line.null_count() else line.to_numpy()

    def without(self, reasons: pl.Series) -> "Rows":
        """The same without the rows that have a reason, which are skipped; `reasons` as `Check` gives them."""
        is_bad = reasons.is_not_null()
        if not is_bad.any():
            return self
        content = [as_json(row) for row in self.frame.filter(is_bad).iter_rows(named=True)]
        bad = self.places.filter(is_bad).with_columns(reason=reasons.drop_nulls(), content=pl.Series(content))
        skipped = pl.concat([self.skipped, bad]).sort("row", maintain_order=True)
        return Rows(self.frame.filter(~is_bad), self.places.filter(~is_bad), skipped)


@dataclass(frozen=True)
class File:
    """One of the files of a table, or what was in memory."""

    name: str
    sha256: str  # in hex: of a file's bytes, or of the names, types and values in memory
    columns: tuple[str, ...]
    unreadable: Mapping[str, str]  # column → why


@dataclass(frozen=True, eq=False)
class Table:
    """A user's table, whose rows lie in a folder of our own, a Parquet file for each part. It travels by pickling."""

    title: str  # without its folder and its ending
    files: tuple[File, ...]  # one, or those of a folder in the order of their names
    folder: Path = field(repr=False)
    parts: tuple[tuple[int, int], ...] = field(repr=False)  # number of the file, and rows, bad ones among them
    schema: Mapping[str, pl.DataType]  # of all columns
    nested: frozenset[str] = frozenset()  # the columns with lists or objects, as they are called there
    notes: tuple[str, ...] = ()  # what a person may not have meant, a line each
    headings: Path | None = None  # where a user can write which columns are meant; None for what was in memory
    owner: object = field(default=None, repr=False)  # removes the folder when the last table that has it is gone
    absent: tuple[tuple[str, str], ...] = ()  # options with the columns that they name and the table lacks
    # Known once a table is scanned:
    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    spelled: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # label → spelling → the one that counts
    optional: tuple[str, ...] = ()  # columns that hold a text in some rows
    skipped: int = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "owner": None}

    @property
    def name(self) -> str:
        return self.files[0].name

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema)

    @property
    def sizes(self) -> list[int]:
        return [size for _, size in self.parts]

    @property
    def n(self) -> int:  # the rows, bad ones among them
        return sum(self.sizes)

    @property
    def file_names(self) -> tuple[str, ...]:  # what results call each of several files; empty for a single one
        paths = [Path(file.name) for file in self.files] if len(self.files) > 1 else []
        stems = [bare(path).stem for path in paths]
        return tuple(path.name if stems.count(stem) > 1 else stem for path, stem in zip(paths, stems, strict=True))

    @property
    def sha256(self) -> str:  # of the one file, or of the names and digests of all
        if not self.file_names:
            return self.files[0].sha256
        lines = [f"{own.sha256}  {name}\n" for name, own in zip(self.file_names, self.files, strict=True)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.texts, *self.optional, *self.labels)))

    def file(self, number: int) -> str | None:
        """What results call the file of a part; None where there is one file."""
        return self.file_names[self.parts[number][0]] if self.file_names else None

    def is_file_name(self, name: str) -> bool:
        """Whether a label is the name of the file, and not a column."""
        return name == FILE_NAME and len(self.files) > 1 and name not in self.columns

    def location(self, number: int, row: int, line: int | None) -> str:
        """Where a row of a part stands, for a message."""
        name = self.files[self.parts[number][0]].name
        return f"{name}, row {row}" if line is None else f"{name}:{line}"

    def paths(self) -> dict[str, Path]:
        """What is read from the disk, by a name of our own."""
        return {"table": self.folder}

    def at(self, places: Mapping[str, Path]) -> "Table":
        return replace(self, folder=places["table"])

    def read(self, number: int, check: Check | None = None) -> Rows:
        """The rows of a part with the columns of `schema`; what cannot be used, or has a reason by `check`, is skipped.

        Labels are those that count.
        """
        rows = self.seen(number, check)
        return replace(rows, frame=self.labelled(rows.frame))

    def seen(self, number: int, check: Check | None = None) -> Rows:
        """As `read`, with labels as they stand there."""
        stored = pl.read_parquet(part_file(self.folder, number), glob=False, hive_partitioning=False)
        places = stored[PLACE].struct.unnest()
        is_bad = places["reason"].is_not_null()
        stored, places, bad = stored.filter(~is_bad), places.filter(~is_bad), places.filter(is_bad)
        nothing = pl.Series([None] * len(stored), dtype=pl.String)
        found = {column.name: column for column in stored.iter_columns()}
        found.setdefault(FILE_NAME, pl.Series([self.file(number)] * len(stored), dtype=pl.String))
        columns = {name: found.get(name, nothing).alias(name) for name in self.schema}
        faults = [not_texts(columns[name]) for name in (*self.texts, *self.optional)]
        frame = pl.DataFrame([as_type(columns[name], dtype) for name, dtype in self.schema.items()])
        rows = Rows(frame, places.select("row", "line"), bad)
        rows = rows.without(pl.select(pl.coalesce([nothing, *faults]).alias("reason")).to_series())
        rows = rows.without(unusable(rows.frame, self.texts, self.named))
        return rows if check is None or rows.frame.is_empty() else rows.without(check(self.labelled(rows.frame)))

    def labelled(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with each label in one spelling; null where no value stands. Whole numbers stay numbers."""
        return rows.with_columns(label(rows[name]).replace(self.spelled.get(name, {})) for name in self.labels)

    def scan(
        self,
        texts: Sequence[str],
        check: Check | None = None,
        *,
        optional: Sequence[str] = (),
        labels: Sequence[str] = (),
        spelled: Mapping[str, Mapping[str, str]] | None = None,
        skip_bad: bool = False,
        see: Callable[[str, Rows, pl.DataFrame], None] | None = None,
    ) -> "Table":
        """Look at all rows: columns `texts` must hold a text in each row, `optional` ones hold one in some rows.

        `labels` are what rows share.

        Bad rows, by `check` or without a text, are an InputError, or counted with `skip_bad`. `see` gets the name of
        the file and the good rows of each part, with labels as they stand there, and again as they count. `spelled`
        are further spellings of labels: column → spelling → the one that counts.
        """
        for name in labels:
            if name in self.nested:
                raise InputError(f"{self.name}: the column {name!r} holds lists; a text or a number a row is needed")
        as_texts = {*texts, *optional, *(own for own in labels if not self.schema.get(own, pl.String()).is_integer())}
        schema = {**self.schema, **dict.fromkeys(as_texts, pl.String())}
        named: Any = {"texts": tuple(texts), "optional": tuple(optional), "labels": tuple(labels)}
        found = replace(self, schema=schema, spelled=spelled or {}, **named)
        for own in self.files:
            for name in found.named:
                self._refuse_absent(own, name)
        looks, good, first = Counter[tuple[str, str]](), Counter[int](), dict[int, str]()
        for number, (file, _) in enumerate(self.parts):
            rows = found.seen(number, check)
            if len(rows.skipped):
                row, line, reason, _ = rows.skipped.row(0)
                first.setdefault(file, f"{self.location(number, row, line)}: {reason}")
                if not skip_bad:
                    raise InputError(first[file])
            good[file] += len(rows.frame)
            for name in found.named:
                text = rows.frame[name].cast(pl.String).str.strip_chars()
                looks.update((name, word) for word in text.filter(text.is_in(LOOKS_MISSING)))
            if see is not None:
                see(self.files[file].name, rows, found.labelled(rows.frame))
        for file, reason in first.items():
            if not good[file]:
                raise InputError(reason)
        told = (
            f"{self.name}: {text} stands in {counted(n, 'row')} of {name} and counts as a value; is it one? Else leave "
            "the cell empty"
            for (name, text), n in looks.items()
        )
        return replace(found, skipped=self.n - good.total(), notes=(*self.notes, *told))

    def _refuse_absent(self, file: File, name: str) -> None:
        if name in file.unreadable:
            why = file.unreadable[name]
            raise InputError(f"{file.name}: the column {name!r} cannot be read ({why}); write it as a text")
        if name not in file.columns and not self.is_file_name(name):
            more = f"; it has {_named(self)}" if len(self.files) == 1 else ", which others of these files have"
            raise InputError(f"{file.name}: no column {name!r}{more}")


def open_table(source: TableLike, rows_per_part: int = ROWS_PER_PART) -> Table:
    """Read a user's table, or all tables of a folder or a zip archive in the order of their names, once."""
    if not isinstance(source, str | Path):
        return _kept("frame", [in_memory(source)], rows_per_part)
    path = Path(source)
    with sources_of(path) as found:
        table = _kept(path.resolve().name if is_folder(path) else bare(path).stem, found, rows_per_part)
    return replace(table, headings=headings_file(path))


def headings_file(path: Path) -> Path:
    """The file beside a table, or beside a folder of tables, in which a user can write which columns are meant."""
    name = path.resolve().name if is_folder(path) else bare(path).stem
    return path.with_name(f"{name}.columns.toml")


class OwnFolder:
    """A folder that is gone when nobody has it any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="negengine-table-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def part_file(folder: Path, number: int) -> Path:
    """The Parquet file with a part of what was read."""
    return folder / f"{number:06d}.parquet"


def _kept(title: str, sources: Sequence[Source], rows_per_part: int) -> Table:
    folder, files, parts = OwnFolder(), list[File](), list[tuple[int, int]]()
    kinds = dict[str, set[str]]()
    for number, source in enumerate(sources):
        sha256 = file_sha256(source.data) if isinstance(source.data, Path) else ""
        columns, bad, good = dict[str, None](), pl.DataFrame(schema=SKIPPED_SCHEMA), 0
        for part in source.parts(rows_per_part):
            part.write_parquet(part_file(folder.path, len(parts)), compression="lz4", statistics=False)
            parts.append((number, len(part)))
            places = part[PLACE].struct.unnest()
            good, bad = good + places["reason"].null_count(), bad.vstack(places.drop_nulls("reason").head(1))
            for column in part.drop(PLACE).iter_columns():
                columns[column.name] = None
                kinds.setdefault(column.name, set()).update(kinds_of(column))
                if column.dtype == pl.String and (column.str.len_bytes() > LONGEST_LINE).any():
                    long = f"the column {column.name!r} has a text of more than {LONGEST_LINE:,} bytes"
                    raise InputError(f"{source.name}: {long}; give shorter texts")
            if len(kinds) > MOST_COLUMNS:
                raise InputError(f"{source.name}: more than {MOST_COLUMNS:,} columns; write one object of few per line")
        if not good:
            if bad.is_empty():
                raise InputError(f"{source.name}: there is no row below the names of the columns")
            row, line, reason, _ = bad.row(0)
            raise InputError(f"{source.name}{f', row {row}' if line is None else f':{line}'}: {reason}")
        if sha256 and file_sha256(source.data) != sha256:
            raise InputError(f"{source.name}: changed while it was read; run the command again")
        files.append(File(source.name, sha256, tuple(columns), source.unreadable))
    schema = {name: type_of(own) for name, own in kinds.items()}
    notes = tuple(f"{source.name}: {note}" for source in sources for note in source.notes)
    nested = frozenset(name for name, own in kinds.items() if "nested" in own)
    table = Table(title, tuple(files), folder.path, tuple(parts), schema, nested, notes, owner=folder)
    return table if files[0].sha256 else replace(table, files=(replace(files[0], sha256=_digest(table)),))


def _digest(table: Table) -> str:
    """SHA-256 of the names, types and values of what was in memory, however its rows are divided."""
    schema = [[name, str(dtype)] for name, dtype in table.schema.items()]
    digest = hashlib.sha256(as_json(schema).encode())
    for number in range(len(table.parts)):
        digest.update(table.read(number).frame.write_ndjson().encode())
    return digest.hexdigest()


def find_column(table: Table, option: str, given: str | None, obvious: Sequence[str] = ()) -> str | None:
    """The column that a user named with `option`; else one with an obvious name; else None.

    An empty name stands for no column. The exact name wins; of names alike but for case and spaces none is guessed.
    """
    if given == "":
        return None
    if given is not None:
        if not _has(table, given):
            needed_columns(table, (option, given, obvious))  # which refuses it
        return seen_name(given)
    for name in obvious:
        alike = [own for own in table.columns if own.strip().lower() == name]
        if len(alike) > 1 and name not in alike:
            both = " or ".join(map(repr, alike))
            raise InputError(f"{table.name}: is {both} the column {name!r}? Name one with {option} COLUMN")
        if alike:
            return name if name in alike else alike[0]
    return None


def needed_columns(table: Table, *asked: tuple[str, str | None, Sequence[str]]) -> list[str]:
    """As `find_column`, for columns that the table must have; all that it lacks are in one message."""
    absent = absent_columns(table, {option: [given] for option, given, _ in asked if given is not None})
    absent = tuple(dict.fromkeys((*absent, *table.absent)))
    rest = [one for one in asked if one[:2] not in absent]
    found = [find_column(table, *one) for one in rest]
    lacking = [(option, obvious[0]) for (option, _, obvious), name in zip(rest, found, strict=True) if name is None]
    if len(absent) == 1 and not lacking:
        [(option, name)] = absent
        near = did_you_mean(name, table.columns)
        raise InputError(f"{option} {name}: {near}{table.name} has no such column; it has {_named(table)}")
    if absent or lacking:
        names = [f"no column {name!r} ({option})" for option, name in absent]
        said = " and ".join([*names, *(f"no column {name!r}" for _, name in lacking)])
        which, options = "one" if len(lacking) == 1 else "ones", " and ".join(f"{own} COLUMN" for own, _ in lacking)
        once = "" if table.headings is None else f", or once in {table.headings}"
        remedy = f": give the right {which} with {options}{once}" if lacking else ""
        raise InputError(f"{table.name}: {said}; it has {_named(table)}{remedy}")
    return [name for name in found if name is not None]


def absent_columns(table: Table, given: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Options with the columns that they name and the table lacks."""
    named = [(option, name) for option, names in given.items() for name in names if name]
    return tuple((option, name) for option, name in named if not _has(table, name))


def _has(table: Table, name: str) -> bool:
    return seen_name(name) in table.columns or table.is_file_name(name)


def needed_column(table: Table, option: str, given: str | None, obvious: Sequence[str]) -> str:
    """As `needed_columns`, for one."""
    return needed_columns(table, (option, given, obvious))[0]


def _named(table: Table) -> str:
    return ", ".join(map(repr, table.columns)) or "no columns"
