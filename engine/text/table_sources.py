"""The ways into a user's table: CSV, TSV, JSON lines and lists, Parquet, spreadsheets, frames and rows in memory.

Each is read once and gives frames of some rows. In each, the column `PLACE` says where its rows stand.
"""

import csv
import json
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
import polars as pl
import regex
from polars.exceptions import PanicException, PolarsError

from ..basics.errors import InputError, first_line, needs_extra
from ..basics.printable import counted
from ..basics.reading import DEEPEST, is_folder, open_regular, parse_json, paths_in, unreadable
from .table_cells import INVISIBLE, as_json, column_of, exact
from .text_lines import BYTE_ORDER_MARK, GZIP, LONGEST_LINE, MOST_TABLE, BadLineError, Lines, json_object, open_text

MOST_COLUMNS = 1_000
PLACE = "\0"  # no column of a user has this name
SKIPPED_SCHEMA = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String, "content": pl.String}
"""Where a row stands: its number from 1, its line (null outside text files); why it is skipped, its fields as JSON."""
_MOST_LIST = 2**26  # bytes of a JSON list, which is held in memory
_HINT = "give a table as CSV, TSV, JSON lines or Parquet"
_SHEET_HINT = "save the sheet as “CSV UTF-8” and give that file"
_FIRST = 4096  # bytes that show what a file is
_CSV, _TSV, _JSON, _PARQUET, _SHEET = "CSV", "TSV", "JSON", "Parquet", "spreadsheet"
# First bytes → which kind of table it is; or what else, and what the user does about it.
_BY_BYTES: Mapping[bytes, str | tuple[str, str]] = {
    b"PAR1": _PARQUET,
    b"PK\x03\x04": _SHEET,
    b"\xd0\xcf\x11\xe0": _SHEET,
    b"BZh": ("packed with bzip2", "unpack it with `bunzip2`"),
    b"\xfd7zXZ\x00": ("packed with xz", "unpack it with `unxz`"),
    b"\x28\xb5\x2f\xfd": ("packed with Zstandard", "unpack it with `unzstd`"),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
    b"%PDF": ("a PDF", _HINT),
    b"<html": ("a page of the web", _SHEET_HINT),
    b"<!DOCTYPE": ("a page of the web", _SHEET_HINT),
    b"<?xml": ("XML", _SHEET_HINT),
}
_IN_FOLDERS = {".csv": _CSV, ".tsv": _TSV, ".jsonl": _JSON, ".ndjson": _JSON, ".parquet": _PARQUET} | dict.fromkeys(
    (".xlsx", ".ods"), _SHEET
)
_BY_NAME = {**_IN_FOLDERS, ".tab": _TSV, ".json": _JSON}
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space"}
_AGAIN = "this row is the header again; remove it"
_INVISIBLE = regex.compile(INVISIBLE, regex.V1)
_SPACE = re.compile(r"\s*")
# Polars panics at a column of DuckDB's INTERVAL, even an unused one, unless it may take it for something else.
_INTERVALS = json.dumps({"environment": {"POLARS_IMPORT_INTERVAL_AS_STRUCT": "1"}})


class _Raw(NamedTuple):
    """A row as it is written: the line where it begins, and its fields, or why it cannot be read."""

    line: int | None
    fields: Mapping[str, Any]
    reason: str | None = None
    content: str = ""


@dataclass(eq=False)
class Source:
    """A file; or what is in memory, as a frame or a list of rows."""

    name: str
    path: Path | None
    data: Any = None
    header: tuple[str, ...] = ()  # known once reading has begun
    notes: list[str] = field(default_factory=list)  # what a person may not have meant; known once all is read
    unreadable: dict[str, str] = field(default_factory=dict)  # column that cannot be read → why

    def parts(self, size: int) -> Iterator[pl.DataFrame]:
        """All rows, so many together."""
        if self.path is None:
            is_list = isinstance(self.data, list)
            yield from self._of_rows(self._objects(), size) if is_list else _slices(self.data, size)
            return
        kind = _kind_of(self.path)
        if kind == _PARQUET:
            yield from self._parquet(self.path, size)
        elif kind == _SHEET:
            yield from self._of_rows(self._sheet(self.path), size)
        else:
            with open_text(self.path) as stream:
                lines = Lines(stream, self.name)
                yield from self._of_rows(self._json(lines) if kind == _JSON else self._delimited(lines, kind), size)

    def _of_rows(self, raws: Iterator[_Raw], size: int) -> Iterator[pl.DataFrame]:
        before = 0
        while some := list(islice(raws, size)):
            names = dict.fromkeys(chain(self.header, *(raw.fields for raw in some)))
            columns = [column_of(name, [raw.fields.get(name) for raw in some]) for name in names]
            places = [(before + i, raw.line, raw.reason, raw.content) for i, raw in enumerate(some, 1)]
            yield _with_places(columns, pl.DataFrame(places, SKIPPED_SCHEMA, orient="row"))
            before += len(some)

    def _objects(self) -> Iterator[_Raw]:
        for row in self.data:
            yield _Raw(None, dict(zip(_checked(map(str, row), self.name), row.values(), strict=True)))

    # CSV and TSV

    def _delimited(self, lines: Lines, kind: str) -> Iterator[_Raw]:
        reader, delimiter = self._header(lines, kind)
        swallowed, named = [], None if len(self.header) > 1 else False
        while True:
            first = lines.place.line + 1
            try:
                fields = next(reader, None)
            except (BadLineError, csv.Error) as error:
                yield _Raw(first, {}, error.reason if isinstance(error, BadLineError) else _told(error))
                continue
            if fields is None:
                break
            if not any(fields):  # spreadsheets write rows of empty cells below a table
                continue
            if named is None:  # R's write.table gives the names of the rows no name in the header
                named = len(fields) == len(self.header) + 1 and fields[0].isdigit()
            own, reason = fields[1:] if named else fields, None
            if len(own) != len(self.header):
                reason = f"{counted(len(fields), 'field')}, but the header has {len(self.header)}"
                if len(own) > len(self.header):
                    reason += f"; a text that has a {_DELIMITERS[delimiter]} must stand in double quotes"
            elif self._is_header(own):
                reason = _AGAIN
            elif lines.place.line > first and any(_holds_a_row(text, delimiter, len(fields)) for text in own):
                swallowed.append(first)
            if reason is None:
                yield _Raw(first, dict(zip(self.header, own, strict=True)))
            else:
                yield _Raw(first, {}, reason, as_json(fields))
        if swallowed:
            self.notes.append(
                f"line {swallowed[0]}: a text in double quotes goes on over a line that looks like a row of its own"
                + (f" ({len(swallowed):,} such rows)" if len(swallowed) > 1 else "")
                + "; is a double quote missing, or one too many?"
            )

    def _is_header(self, fields: list[str]) -> bool:
        return _name(fields[0]) == self.header[0] and tuple(map(_name, fields)) == self.header

    def _header(self, lines: Lines, kind: str) -> tuple[Iterator[list[str]], str]:
        filled = (line for line in lines if line.strip())
        first = next(filled, "")
        said = first[4:] if first[:4].lower() == "sep=" and len(first) == 5 else ""
        if said:  # a spreadsheet's own line about the delimiter
            first = next(filled, "")
        usual = "\t" if kind == _TSV else ","
        # The one that the header has most often: spreadsheets in many countries write semicolons into CSV.
        delimiter = max(_DELIMITERS, key=lambda delimiter: (first.count(delimiter), delimiter == usual))
        delimiter = said if said in _DELIMITERS else delimiter
        # `map` goes on after a line that cannot be read; a generator would end there.
        reader = csv.reader(map("{}\n".format, chain([first], lines)), delimiter=delimiter, strict=True)
        try:
            fields = next(reader, [])
        except csv.Error as error:
            raise InputError(f"{lines.location}: {_told(error)}") from None
        # R and pandas write a first column without a name: it is called by its position.
        names = (_name(name) or f"column {number}" for number, name in enumerate(fields, 1))
        self.header = _checked(names, lines.location)
        return reader, delimiter

    # JSON

    def _json(self, lines: Lines) -> Iterator[_Raw]:
        while True:
            try:
                line = next(lines, None)
            except BadLineError as error:
                yield _Raw(lines.place.line, {}, error.reason)
                continue
            if line is None:
                return
            if lines.place.line == 1 and line.lstrip().startswith("["):
                yield from self._json_list("\n".join(chain([line], lines)))
            elif line.strip():
                yield _json_row(line, lines.place.line)

    def _json_list(self, text: str) -> Iterator[_Raw]:
        """The objects of one list, which may be one line or many."""
        if len(text) > _MOST_LIST:
            raise InputError(f"{self.name}: a JSON list of more than {_MOST_LIST:,} bytes; write one object per line")
        if text.count("[") + text.count("{") > DEEPEST:
            parse_json(text, self.name)  # refuses what is too deep, which the decoder would not bear
        decoder, begin, place, line = json.JSONDecoder(), 0, text.index("["), 1
        while text[place : place + 1] in {"[", ","}:
            place = _behind_space(text, place + 1)
            begin, line = place, line + text.count("\n", begin, place)
            if text[place : place + 1] == "]":
                break
            try:
                _, end = decoder.raw_decode(text, place)
            except ValueError as error:
                raise InputError(f"{self.name}:{line}: not JSON ({error})") from None
            yield _json_row(text[place:end], line)
            place = _behind_space(text, end)
        if text[place : place + 1] != "]":
            raise InputError(f"{self.name}:{line}: the JSON list is not closed; write the file again")
        if text[place + 1 :].strip():
            raise InputError(f"{self.name}:{line}: more stands behind the JSON list; give one list alone")

    # Spreadsheets and Parquet

    def _sheet(self, path: Path) -> Iterator[_Raw]:
        """The rows of the first sheet; their lines are the rows that the sheet shows."""
        with needs_extra("sheets", "a spreadsheet (.xlsx, .xls, .ods)"):
            import python_calamine as calamine  # noqa: PLC0415 - an extra
        try:
            with open_regular(path) as stream:
                book = calamine.CalamineWorkbook.from_filelike(stream)
                seen = [own.name for own in book.sheets_metadata if own.visible == calamine.SheetVisibleEnum.Visible]
                rows = book.get_sheet_by_name(seen[0]).to_python(skip_empty_area=False)
        except (calamine.CalamineError, OSError, ValueError, IndexError) as error:
            raise InputError(f"{self.name}: not a whole spreadsheet ({first_line(error)}); {_SHEET_HINT}") from None
        filled = [(line, row) for line, row in enumerate(rows, 1) if any(cell not in {"", None} for cell in row)]
        if not filled:
            raise InputError(f"{self.name}: the first sheet is empty; put the table there")
        if len(seen) > 1:
            self.notes.append(f"only the first of {len(seen)} sheets is read: {seen[0]!r}")
        line, header = filled[0]
        kept = [place for place in range(len(header)) if any(row[place] not in {"", None} for _, row in filled)]
        names = (_name(str(exact(header[place]))) or f"column {place + 1}" for place in kept)
        self.header = _checked(names, f"{self.name}:{line}")
        for line, row in filled[1:]:
            cells = [None if row[place] == "" else exact(row[place]) for place in kept]
            if self._is_header(list(map(str, cells))):
                yield _Raw(line, {}, _AGAIN, as_json(cells))
            else:
                yield _Raw(line, dict(zip(self.header, cells, strict=True)))

    def _parquet(self, path: Path, size: int) -> Iterator[pl.DataFrame]:
        pl.Config.load(_INTERVALS)
        try:
            rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            schema, n = rows.collect_schema(), rows.select(pl.len()).collect().item()
            nested = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if _is_left(dtype)]
            for start in range(0, n, size):
                frame = rows.with_columns(nested).slice(start, size).collect()
                yield from _slices(self.plain(frame), size, start)
        except (PolarsError, PanicException, OSError, ValueError) as error:
            raise InputError(f"{self.name}: not a whole Parquet file ({first_line(error)}); write it again") from None

    # What is in memory

    def plain(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What another program made; lists of numbers are not read: nothing here needs them, and they can be large."""
        self.header = _checked(frame.columns, self.name)
        for column in frame.iter_columns():
            if _is_left(column.dtype) and column.name not in self.unreadable:
                self.unreadable[column.name] = "it holds lists or objects without texts"
                self.notes.append(f"the column {column.name!r} is not read: {self.unreadable[column.name]}")
            if column.dtype == pl.String and (column.str.len_bytes() > LONGEST_LINE).any():
                raise InputError(
                    f"{self.name}: the column {column.name!r} has a text of more than {LONGEST_LINE:,} bytes; "
                    "give shorter texts"
                )
        return pl.DataFrame(list(map(_plain, frame.iter_columns())))

    def columns(self, data: Any) -> pl.DataFrame:
        """A dictionary of columns, or a frame of another library."""
        named = [own for own in getattr(getattr(data, "index", None), "names", ()) if own not in {None, *data.columns}]
        data = data.reset_index(level=named) if named else data  # as in the files that pandas writes
        keys = list(getattr(data, "columns", data))
        own = [data.iloc[:, i] if hasattr(data, "iloc") else data[key] for i, key in enumerate(keys)]
        names = _checked(map(str, keys), self.name)
        for name, column in zip(names, own, strict=True):
            if isinstance(column, str | bytes | set | Mapping) or not hasattr(column, "__len__"):
                raise InputError(
                    f"the column {name!r} of the table is a {type(column).__name__}; give a list of values"
                )
        for name, column in zip(names, own, strict=True):
            if len(column) != (most := max(map(len, own))):
                raise InputError(
                    f"{self.name}: the table's column {name!r} has {counted(len(column), 'value')}, others {most:,}; "
                    "give columns of the same length"
                )
        return pl.DataFrame(list(map(column_of, names, map(_values, own))))


def in_memory(data: Any) -> Source:
    """A frame of Polars, pandas or Arrow, a list of dictionaries, or a dictionary of columns; else an `InputError`."""
    source = Source("the frame", None)
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        source.data = list(data)
    elif isinstance(data, pl.LazyFrame) or (hasattr(data, "__arrow_c_stream__") and not hasattr(data, "iloc")):
        try:
            source.data = source.plain(data.collect() if isinstance(data, pl.LazyFrame) else pl.DataFrame(data))
        except (PolarsError, PanicException, TypeError, ValueError, ImportError) as error:
            raise InputError(f"the table cannot be read ({first_line(error)}); give a file or a dictionary") from None
    elif isinstance(data, Mapping) or hasattr(data, "columns"):
        source.data = source.columns(data)
    else:
        raise InputError(f"a table of type {type(data).__name__}; give a file, a frame or a dictionary of columns")
    return source


@contextmanager
def sources_of(path: Path) -> Iterator[list[Source]]:
    """A file, or the tables of a folder or of an archive (zip) in the order of their names.

    Hidden files are left out. Raises InputError if no file is a table.
    """
    with TemporaryDirectory(prefix="negengine-zip-") as unpacked:
        if not is_folder(path) and not _is_archive(path):
            yield [Source(str(path), path)]
            return
        paths = paths_in(path) if is_folder(path) else _unpacked(path, Path(unpacked))
        found = [own for own in paths if bare(own).suffix.lower() in _IN_FOLDERS and own.name[0] != "."]
        found = [own for own in found if not own.name.startswith("~$")]
        if not found:
            kind, endings = "folder" if is_folder(path) else "archive", ", ".join(_IN_FOLDERS)
            raise InputError(f"{path}: this {kind} does not hold a table; the name of a table ends in {endings}")
        yield [Source(str(path / own.name), own) for own in found]


def _is_archive(path: Path) -> bool:
    """Whether a file is a zip archive, and not a workbook, which is one, too."""
    with open_regular(path, _HINT) as stream:
        if path.suffix.lower() == ".zip" or not is_zipfile(stream):
            return path.suffix.lower() == ".zip"
        return not {"[Content_Types].xml", "mimetype"} & set(ZipFile(stream).namelist())


def _unpacked(path: Path, folder: Path) -> list[Path]:
    try:
        with ZipFile(path) as archive:
            found = {info: folder / Path(info.filename).name for info in archive.infolist() if not info.is_dir()}
            if sum(info.file_size for info in found) > MOST_TABLE:
                raise InputError(f"{path}: more than {MOST_TABLE:,} bytes when it is unpacked; give a smaller archive")
            for info, place in found.items():
                if place.exists():
                    raise InputError(f"{path}: two files have the name {place.name!r}; unpack it and give one folder")
                with archive.open(info) as packed, place.open("xb") as plain:
                    shutil.copyfileobj(packed, plain)
    except (BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise InputError(f"{path}: the archive cannot be unpacked ({first_line(error)}); unpack it yourself") from None
    return sorted(found.values())


def bare(path: Path) -> Path:
    """The name of a file without the ending of its packing."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _kind_of(path: Path) -> str:
    """Which kind of table a file is, by its first bytes, then its name; InputError if it is none."""
    with open_regular(path, _HINT) as stream:
        try:
            first = stream.read(_FIRST)
        except OSError as error:
            raise unreadable(path, error, _HINT) from error
    if not first.strip():
        raise InputError(f"{path}: the file is empty; {_HINT}")
    found = next((kind for begin, kind in _BY_BYTES.items() if first.startswith(begin)), "")
    if isinstance(found, tuple):
        raise InputError(f"{path}: this is {found[0]}; {found[1]}")
    if first.startswith(GZIP):
        with open_text(path, _HINT) as unpacked:
            first = unpacked.read(_FIRST)
    is_object = first.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{")
    kind = found or _BY_NAME.get(bare(path).suffix.lower(), _JSON if is_object else _CSV)
    if not found and kind in {_PARQUET, _SHEET}:
        raise InputError(f"{path}: not a {kind} file, although its name ends in {path.suffix}; {_HINT}")
    return kind


def _slices(frame: pl.DataFrame, size: int, before: int = 0) -> Iterator[pl.DataFrame]:
    for start in range(0, len(frame), size):
        part = frame.slice(start, size)
        places = pl.DataFrame({"row": range(before + start + 1, before + start + len(part) + 1)})
        nothing = (pl.lit(None, dtype).alias(name) for name, dtype in SKIPPED_SCHEMA.items() if name != "row")
        yield _with_places(part.get_columns(), places.with_columns(nothing))


def _with_places(columns: list[pl.Series], places: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame([places.to_struct(PLACE), *columns])


def _values(column: Any) -> Iterable[Any]:
    """The values of a column; fractions of 16 or 32 bits stay as they are, so that 0.1 is 0.1."""
    if str(getattr(column, "dtype", "")).lower() in {"float16", "float32"}:
        return np.asarray(column)
    return list(column.tolist() if hasattr(column, "tolist") else column)


_FLAT = (pl.String, pl.Boolean, pl.Date, pl.Time, pl.Datetime, pl.Decimal, pl.Null)


def _is_left(dtype: pl.DataType) -> bool:
    """Whether a type is lists or objects without texts, such as vectors."""
    return dtype.is_nested() and "String" not in str(dtype)


def _plain(column: pl.Series) -> pl.Series:
    """The column in a plain type. Categories and durations become texts. Lists without texts become nulls."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if isinstance(column.dtype, pl.Duration):
        return column.dt.to_string()  # ISO 8601; not all of what reads parts and results has such a type
    if isinstance(column.dtype, pl.Object | pl.Binary) or (column.dtype.is_nested() and not _is_left(column.dtype)):
        return column_of(column.name, column.to_list())
    if column.dtype.is_float():
        return column.fill_nan(None)
    if column.dtype.is_integer() or isinstance(column.dtype, _FLAT):
        return column
    return pl.Series(column.name, [None] * len(column), pl.String)


def _json_row(text: str, line: int) -> _Raw:
    try:
        fields = json_object(text, "", _each_key_once)
        _checked(fields, "")
    except InputError as error:
        return _Raw(line, {}, str(error).removeprefix(": "), text.strip())
    return _Raw(line, fields)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f": the key {twice!r} stands there twice; write it once")
    return found


def _behind_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _checked(names: Iterable[str], location: str) -> tuple[str, ...]:
    """The names of columns; `InputError` if there are too many, or two alike."""
    found = tuple(names)
    if len(found) > MOST_COLUMNS:
        raise InputError(f"{location}: {len(found):,} columns; a table has at most {MOST_COLUMNS:,}")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"{location}: two columns have the name {twice!r}; give each a name of its own")
    return found


def _name(text: str) -> str:
    """The name of a column as it counts."""
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text)).strip()


def _holds_a_row(text: str, delimiter: str, fields: int) -> bool:
    """Whether a quoted text goes on over a line that has as many delimiters as a row."""
    return "\n" in text and any(line.count(delimiter) >= fields - 1 for line in text.split("\n"))


def _told(error: csv.Error) -> str:
    known = {
        "field limit": "a text of more than 131,072 characters, or a double quote that is not closed",
        "unexpected end of data": "a double quote that is not closed",
        "new-line character": "a line end in the middle of the line; save the file as CSV with the usual line ends",
    }
    usual = f"{error}; write a double quote within a quoted text twice"
    return next((told for begin, told in known.items() if begin in str(error)), usual)
