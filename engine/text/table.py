"""A user's table: one pass over a file, a folder of files or a frame writes its rows, to be read part by part.

All ways in give the same rows. A column has one type over the whole table. A label, which rows share, is the text that
a person sees, in one spelling: composed letters, usual spaces, none at the ends, nothing invisible.
"""

import hashlib
import json
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.errors import InputError, did_you_mean
from ..basics.printable import counted
from ..basics.reading import file_sha256, is_folder, paths_in
from .table_sources import ENDINGS, MOST_COLUMNS, Batch, Source, as_json, bare, in_memory, kinds_of

ROWS_PER_PART = 4096
NEEDED = "a text is needed"
MISSING = ("", "NA", "NaN", "<NA>", "NaT", "#N/A", r"\N")
"""What stands for no value in a cell, whatever wrote it: R, pandas, spreadsheets, databases."""
LOOKS_MISSING = ("None", "none", "NONE", "null", "NULL", "Null", "nan", "NAN", "N/A", "n/a", "#NULL!")
"""What can be a word or a name, and is told where it stands."""
ERRORS = ("#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NUM!", "#SPILL!", "#CALC!", "#GETTING_DATA", "Err:502", "Err:508")
# A file, a frame of Polars, pandas or Arrow, a list of dictionaries, or a dictionary of columns.
TableLike = str | Path | pl.DataFrame | pl.LazyFrame | Mapping[str, Sequence[Any]] | Any
Check = Callable[[pl.DataFrame], pl.Series]  # rows → for each row why it cannot be used; null where it can
# Of the frame of skipped rows: number of the row (from 1), line (null outside text files), why, fields as JSON.
SKIPPED_SCHEMA = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String, "content": pl.String}
_PLACE = {"number": pl.Int64, "line": pl.Int64}
_OWN = ""  # the column of the places; no column of a user has this name
FILE_NAME = "file name"  # a label of rows that several files have, though no column says it


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a part that can be used, and those that are skipped."""

    frame: pl.DataFrame
    numbers: NDArray[np.int64]  # int64 [n], the number of each row in its file, from 1
    lines: NDArray[np.int64] | None = None  # int64 [n], the line where each begins; None outside text files
    skipped: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SKIPPED_SCHEMA))

    def line(self, place: int) -> int | None:
        return None if self.lines is None else int(self.lines[place])

    def without(self, reasons: pl.Series) -> "Rows":
        """The same without the rows that have a reason, which are skipped; `reasons` as `Check` gives them."""
        if reasons.null_count() == len(reasons):
            return self
        keep = reasons.is_null()
        bad = [
            (int(self.numbers[i]), self.line(i), reasons[i], as_json(self.frame.row(i, named=True)))
            for i in (~keep).arg_true().to_list()
        ]
        skipped = pl.concat([self.skipped, pl.DataFrame(bad, schema=SKIPPED_SCHEMA, orient="row")])
        kept = keep.to_numpy()
        lines = None if self.lines is None else self.lines[kept]
        return Rows(self.frame.filter(keep), self.numbers[kept], lines, skipped.sort("row", maintain_order=True))


@dataclass(frozen=True)
class File:
    """One of the files of a table, or what was in memory."""

    name: str
    path: Path | None
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
    renamed: Mapping[str, str] = field(default_factory=dict)  # column as it is called there → as it is called here
    owner: object = field(default=None, repr=False)  # removes the folder when the last table that has it is gone

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
        paths = [Path(file.name) for file in self.files]
        stems = [bare(path).stem for path in paths]
        if len(paths) < 2:
            return ()
        return tuple(path.name if stems.count(stem) > 1 else stem for path, stem in zip(paths, stems, strict=True))

    @property
    def sha256(self) -> str:  # of the one file, or of the names and digests of all
        if not self.file_names:
            return self.files[0].sha256
        lines = [f"{own.sha256}  {name}\n" for name, own in zip(self.file_names, self.files, strict=True)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def file(self, number: int) -> str | None:
        """What results call the file of a part; None where there is one file."""
        return self.file_names[self.parts[number][0]] if self.file_names else None

    def location(self, number: int, row: int, line: int | None) -> str:
        """Where a row of a part stands, for a message."""
        name = self.files[self.parts[number][0]].name
        return f"{name}, row {row}" if line is None else f"{name}:{line}"

    def rows(self, number: int, texts: Sequence[str] = ()) -> Rows:
        """The rows of a part in the types of `schema`; in the columns `texts` what is not a text is a fault."""
        frame = pl.read_parquet(_part(self.folder, number), glob=False, hive_partitioning=False)
        place, nothing = frame[_OWN].struct.unnest(), pl.Series("reason", [None] * len(frame), pl.String)
        stored = {self.renamed.get(name, name): frame[name] for name in frame.columns}
        stored.setdefault(FILE_NAME, pl.Series([self.file(number)] * len(frame), dtype=pl.String))
        columns, reasons = [], [nothing]
        for name, dtype in self.schema.items():
            column = stored.get(name, nothing).alias(name)
            if name in texts:
                reasons.append(_not_texts(column))
            columns.append(_as_type(column, dtype))
        lines = None if place["line"].null_count() else place["line"].to_numpy()
        rows = Rows(pl.DataFrame(columns), place["number"].to_numpy(), lines)
        if (bad := _bad(self.folder, number)).exists():
            rows = replace(rows, skipped=pl.read_parquet(bad))
        return rows.without(pl.select(pl.coalesce(reasons).alias("reason")).to_series())

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
    ) -> "Stimuli":
        """Look at all rows: columns `texts` must hold a text in each row, `optional` ones hold one in some rows.

        `labels` are what rows share.

        Bad rows, by `check` or without a text, are an InputError, or counted with `skip_bad`. `see` gets the name of
        the file and the good rows of each part, with labels as they stand there, and again as they count. `spelled`
        are further spellings of labels: column → spelling → the one that counts.
        """
        for name in labels:
            if name in self.nested:
                raise InputError(f"{self.name}: the column {name!r} holds lists; a text or a number a row is needed")
        schema = dict(self.schema) | dict.fromkeys(
            (*texts, *optional), pl.String()
        )  # whole numbers stay numbers in labels
        schema |= {name: pl.String() for name in labels if not schema.get(name, pl.String()).is_integer()}
        named = {"texts": tuple(texts), "optional": tuple(optional), "labels": tuple(labels), "spelled": spelled or {}}
        stimuli = Stimuli(**{**vars(self), **named, "schema": schema})
        for own in self.files:
            for name in stimuli.named:
                self._refuse_absent(own, name)
        bad, first, looks = [0] * len(self.files), [""] * len(self.files), Counter[tuple[str, str]]()
        for number, (file, _) in enumerate(self.parts):
            rows = stimuli.seen(number, check)
            if len(rows.skipped):
                worst = rows.skipped.row(0, named=True)
                first[file] = first[file] or f"{self.location(number, worst['row'], worst['line'])}: {worst['reason']}"
                if not skip_bad:
                    raise InputError(first[file])
            bad[file] += len(rows.skipped)
            for name in stimuli.named:
                found = rows.frame[name].cast(pl.String).str.strip_chars()
                looks.update((name, text) for text in found.filter(found.is_in(list(LOOKS_MISSING))))
            if see is not None:
                see(self.files[file].name, rows, stimuli.labelled(rows.frame))
        for file, reason in enumerate(first):
            if reason and bad[file] == sum(size for own, size in self.parts if own == file):
                raise InputError(reason)
        told = [
            f"{self.name}: {text} stands in {counted(n, 'row')} of {name} and counts as a value; is it one? Else leave "
            "the cell empty"
            for (name, text), n in looks.items()
        ]
        return replace(stimuli, skipped=sum(bad), notes=(*self.notes, *told))

    def _refuse_absent(self, file: File, name: str) -> None:
        theirs = next((own for own, here in self.renamed.items() if here == name), name)
        if theirs in file.unreadable:
            why = file.unreadable[theirs]
            raise InputError(f"{file.name}: the column {theirs!r} cannot be read ({why}); write it as a text")
        if theirs not in file.columns and not self.is_file_name(theirs):
            more = f"; it has {_named(self)}" if len(self.files) == 1 else ", which others of these files have"
            raise InputError(f"{file.name}: no column {theirs!r}{more}")

    def is_file_name(self, name: str) -> bool:
        """Whether a label is the name of the file, and not a column."""
        return name == FILE_NAME and len(self.files) > 1 and name not in self.columns

    def without_names(self, taken: Iterable[str]) -> "Table":
        """The same, where a column with a name that is `taken` by results is called `table_NAME`."""
        known, renamed = {*taken, *self.columns}, dict(self.renamed)
        for name in set(self.columns) & set(taken):
            own = f"table_{name}"
            while own in known:
                own = f"table_{own}"
            renamed[name] = own
        schema = {renamed.get(name, name): dtype for name, dtype in self.schema.items()}
        return replace(self, schema=schema, renamed=renamed)


@dataclass(frozen=True, eq=False)
class Stimuli(Table):
    """A table whose rows are known and checked, to be read part by part."""

    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    spelled: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # label → spelling → the one that counts
    optional: tuple[str, ...] = ()  # columns that hold a text in some rows
    skipped: int = 0

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.texts, *self.optional, *self.labels)))

    def seen(self, number: int, check: Check | None = None) -> Rows:
        """As `read`, with labels as they stand there."""
        rows = self.rows(number, (*self.texts, *self.optional))
        rows = rows.without(_unusable(rows.frame, self.texts, self.named))
        return rows if check is None or rows.frame.is_empty() else rows.without(check(self.labelled(rows.frame)))

    def labelled(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with each label in one spelling; null where no value stands. Whole numbers stay numbers."""
        return rows.with_columns(_label(rows[name]).replace(self.spelled.get(name, {})) for name in self.labels)

    def read(self, number: int, check: Check | None = None) -> Rows:
        """The rows of a part with the columns of `schema`."""
        rows = self.seen(number, check)
        return replace(rows, frame=self.labelled(rows.frame))

    def paths(self) -> dict[str, Path]:
        """What the stage reads from the disk, by a name of our own."""
        return {"table": self.folder}

    def at(self, places: Mapping[str, Path]) -> "Stimuli":
        return replace(self, folder=places["table"])


def open_table(source: TableLike, rows_per_part: int = ROWS_PER_PART) -> Table:
    """Read a user's table, or all tables of a folder in the order of their names, once, and keep the rows."""
    if not isinstance(source, str | Path):
        return _kept("frame", [in_memory(source)], rows_per_part)
    path = Path(source)
    if not is_folder(path):
        return _kept(bare(path).stem, [Source(str(path), path)], rows_per_part)
    paths = [own for own in paths_in(path) if _is_table(own)]
    if not paths:
        raise InputError(f"{path}: this folder does not hold a table; the name of a table ends in {', '.join(ENDINGS)}")
    return _kept(path.resolve().name, [Source(str(own), own) for own in paths], rows_per_part)


def _is_table(path: Path) -> bool:
    """By its name; systems and spreadsheets leave hidden files beside others."""
    return bare(path).suffix.lower() in ENDINGS and not path.name.startswith((".", "~$"))


def _part(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.parquet"


def _bad(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}-skipped.parquet"


class _Folder:
    """A folder that is gone when nobody has it any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="negengine-table-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _kept(title: str, sources: Sequence[Source], rows_per_part: int) -> Table:
    folder = _Folder()
    files: list[File] = []
    parts: list[tuple[int, int]] = []
    kinds: dict[str, set[str]] = {}
    types: dict[str, set[pl.DataType]] = {}
    for number, source in enumerate(sources):
        sha256 = "" if source.path is None else file_sha256(source.path)
        columns: dict[str, None] = {}
        first, good = None, 0
        for batch in source.batches(rows_per_part):
            _write(folder.path, len(parts), batch)
            parts.append((number, len(batch.numbers) + len(batch.bad)))
            first, good = first or next(iter(batch.bad), None), good + len(batch.numbers)
            for column in batch.frame.iter_columns():
                columns[column.name] = None
                kinds.setdefault(column.name, set()).update(kinds_of(column))
                types.setdefault(column.name, set()).add(column.dtype)
            if len(kinds) > MOST_COLUMNS:
                raise InputError(f"{source.name}: more than {MOST_COLUMNS:,} columns; write one object of few per line")
        if not good:
            at = "" if first is None else f", row {first.row}" if first.line is None else f":{first.line}"
            raise InputError(
                f"{source.name}{at}: {first.reason if first else 'there is no row below the names of the columns'}"
            )
        if source.path is not None and file_sha256(source.path) != sha256:
            raise InputError(f"{source.name}: changed while it was read; run the command again")
        files.append(File(source.name, source.path, sha256, tuple(columns), source.unreadable))
    schema = {name: _type(own, types[name]) for name, own in kinds.items()}
    notes = tuple(f"{source.name}: {note}" for source in sources for note in source.notes)
    nested = frozenset(name for name, own in kinds.items() if "nested" in own)
    table = Table(title, tuple(files), folder.path, tuple(parts), schema, nested, notes, owner=folder)
    return table if sources[0].path is not None else replace(table, files=(replace(files[0], sha256=_digest(table)),))


def _write(folder: Path, number: int, batch: Batch) -> None:
    lines = [None] * len(batch.numbers) if batch.lines is None else batch.lines
    place = pl.DataFrame({"number": pl.Series(batch.numbers, dtype=pl.Int64), "line": pl.Series(lines, dtype=pl.Int64)})
    frame = pl.DataFrame({_OWN: place.to_struct(), **batch.frame.to_dict()})
    frame.write_parquet(_part(folder, number), compression="lz4", statistics=False)
    if batch.bad:
        pl.DataFrame(batch.bad, schema=SKIPPED_SCHEMA, orient="row").write_parquet(_bad(folder, number))


def _digest(table: Table) -> str:
    """SHA-256 of the names, types and values of what was in memory, however its rows are divided."""
    schema = [[name, str(dtype)] for name, dtype in table.schema.items()]
    digest = hashlib.sha256(as_json(schema).encode())
    for number in range(len(table.parts)):
        digest.update(table.rows(number).frame.write_ndjson().encode())
    return digest.hexdigest()


def _type(kinds: set[str], types: set[pl.DataType]) -> pl.DataType:
    """What a column is over the whole table; a whole number never becomes a fraction that differs from it."""
    own = types - {pl.Null(), pl.Binary()}
    if kinds and kinds <= {"whole", "large"} and own <= {pl.Int64(), pl.Int32(), pl.Int16(), pl.Int8()}:
        return pl.Int64() if len(own) != 1 else own.pop()
    if kinds == {"whole", "fraction"} or (kinds == {"fraction"} and len(own) != 1):
        return pl.Float64()
    return own.pop() if len(kinds) == 1 and len(own) == 1 and types <= {pl.Null(), *own} else pl.String()


def _decoded(column: pl.Series) -> list[Any]:
    return [None if value is None else json.loads(value) for value in column]


def _as_text(column: pl.Series) -> pl.Series:
    """Each value as the text that a person sees."""
    if column.dtype == pl.Binary or column.dtype.is_float():
        values = _decoded(column) if column.dtype == pl.Binary else column
        texts = [value if value is None or isinstance(value, str) else as_json(value) for value in values]
        return pl.Series(column.name, texts, pl.String)
    return column.cast(pl.String)


def _as_type(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    if dtype == pl.String:
        return _as_text(column)
    if column.dtype == pl.Binary:  # whole numbers and fractions
        return pl.Series(column.name, [None if value is None else float(value) for value in _decoded(column)], dtype)
    return column.cast(dtype)


def _not_texts(column: pl.Series) -> pl.Series:
    """For each row why its value is not a text; null where it is one, or nothing."""
    if column.dtype in {pl.String, pl.Null}:
        return pl.Series("reason", [None] * len(column), pl.String)
    odd = [value is not None and not (column.dtype == pl.Binary and value.startswith(b'"')) for value in column]
    told = [
        f"{column.name} is {value}; {NEEDED}" if own else None for own, value in zip(odd, _as_text(column), strict=True)
    ]
    return pl.Series("reason", told, pl.String)


_SPACES, _INVISIBLE = r"[\s\p{Zs}]+", "[\u200b\u2060\ufeff\u00ad\u200e\u200f]"


def _label(column: pl.Series) -> pl.Series:
    if column.dtype != pl.String:
        return column
    text = column.str.normalize("NFC").str.replace_all(_INVISIBLE, "").str.replace_all(_SPACES, " ").str.strip_chars()
    return text.set(text.is_in(list(MISSING)), None)


def _unusable(frame: pl.DataFrame, texts: Sequence[str], names: Sequence[str]) -> pl.Series:
    """Why rows lack one of `texts`, or hold an error of a spreadsheet in one of `names`; null where they do not."""
    reasons = [pl.lit(None, pl.String)]
    for name in texts:
        column, where = pl.col(name), f"{name} is"
        text = column.str.strip_chars()
        reasons += [
            pl.when(column.is_null()).then(pl.lit(f"{where} missing; {NEEDED}")),
            pl.when(text == "").then(pl.lit(f"{where} empty; {NEEDED}")),
            pl.when(text.is_in(list(MISSING))).then(pl.lit(f"{where} ") + text + f", a missing value; {NEEDED}"),
        ]
    for name in names:
        text = pl.col(name).cast(pl.String).str.strip_chars()
        told = pl.lit(f"{name} is ") + text + ", an error of a spreadsheet; correct the cell"
        reasons.append(pl.when(text.is_in(list(ERRORS))).then(told))
    return frame.select(pl.coalesce(reasons).alias("reason")).to_series()


def find_column(table: Table, option: str, given: str | None, obvious: Sequence[str] = ()) -> str | None:
    """The column that a user named with `option`; else one with an obvious name; else None.

    An empty name stands for no column. The exact name wins; of names alike but for case and spaces none is guessed.
    """
    if given == "":
        return None
    if given is not None:
        named = table.renamed.get(given, given)
        if named not in table.columns and not table.is_file_name(named):
            near = did_you_mean(given, table.columns)
            raise InputError(f"{option} {given}: {near}{table.name} has no such column; it has {_named(table)}")
        return named
    theirs = {own: name for name, own in table.renamed.items()}
    for name in obvious:
        alike = [own for own in table.columns if theirs.get(own, own).strip().lower() == name]
        exact = [own for own in alike if theirs.get(own, own) == name]
        if len(alike) > 1 and not exact:
            both = " or ".join(map(repr, alike))
            raise InputError(f"{table.name}: is {both} the column {name!r}? Name one with {option} COLUMN")
        if alike:
            return (exact or alike)[0]
    return None


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
