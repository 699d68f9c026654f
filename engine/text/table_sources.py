"""The ways into a user's table: CSV, TSV, JSON lines and lists, Parquet, spreadsheets, frames and rows in memory.

Each is a function that gives rows, or columns, once. Both become frames of some rows, whose column `PLACE` says where
they stand.
"""

import csv
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice, pairwise
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
from ..basics.reading import files_below, is_folder, open_regular, parse_json, paths_in, unreadable
from .table_cells import INVISIBLE, as_json, column_of, exact
from .text_lines import (
    BYTE_ORDER_MARK,
    GZIP,
    MOST_TABLE,
    BadLineError,
    Lines,
    each_key_once,
    fault_of_object,
    open_text,
)

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
_MAYBE = {*_BY_NAME, ".txt", ".xls", ".zip"}  # can be a table; in a folder, other files have such names more often
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space"}
_FRAME = "the frame"  # what messages call what is in memory
_AGAIN = "this row is the header again; remove it"
_COMMENT = "a line that begins with # is not a row of a table; remove it"
_INVISIBLE, _NEXT = regex.compile(INVISIBLE, regex.V1), regex.compile(r"[\s,]*")
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
    """A file; or what is in memory."""

    name: str
    data: Any  # the path of the file, columns by their names, or a list of rows
    header: tuple[str, ...] = ()  # known once reading has begun
    notes: list[str] = field(default_factory=list)  # what a person may not have meant; known once all is read
    unreadable: dict[str, str] = field(default_factory=dict)  # column that cannot be read → why

    def parts(self, size: int) -> Iterator[pl.DataFrame]:
        """All rows, so many together."""
        kind = _kind_of(self.data) if isinstance(self.data, Path) else type(self.data)
        if of_rows := _ROWS.get(kind):
            yield from self._of_rows(of_rows(self), size)
        elif kind == _PARQUET:
            for start, columns in _parquet(self, size):
                yield from self._of_columns(columns, size, start)
        else:
            yield from self._of_columns(self.data, size)

    def _of_rows(self, raws: Iterator[_Raw], size: int) -> Iterator[pl.DataFrame]:
        before = 0
        while some := list(islice(raws, size)):
            names = dict.fromkeys(chain(self.header, *(raw.fields for raw in some)))
            places = [(before + i, raw.line, raw.reason, raw.content) for i, raw in enumerate(some, 1)]
            yield _part({name: [raw.fields.get(name) for raw in some] for name in names}, places)
            before += len(some)

    def _of_columns(self, columns: Mapping[str, Any], size: int, before: int = 0) -> Iterator[pl.DataFrame]:
        """Vectors are not read: nothing here needs them, and they can be large."""
        columns = dict(zip(_checked(map(seen_name, columns), self.name), columns.values(), strict=True))
        for name, own in columns.items():
            if isinstance(own, pl.Series) and _is_vector(own.dtype) and name not in self.unreadable:
                self.unreadable[name] = "it holds lists or objects without texts"
                self.notes.append(f"the column {name!r} is not read: {self.unreadable[name]}")
        n, readable = len(next(iter(columns.values()), ())), columns.keys() - self.unreadable
        for start in range(0, n, size):
            places = [(before + i + 1, None, None, None) for i in range(start, min(start + size, n))]
            part = {name: [None] * len(places) for name in columns}
            part |= {name: _values(own[start : start + size]) for name, own in columns.items() if name in readable}
            yield _part(part, places)

    def named(self, names: Iterable[Any], location: str) -> tuple[str, ...]:
        """The header, as it counts: R and pandas write a first column without a name, which its position names."""
        self.header = _checked((seen_name(str(own)) or f"column {i}" for i, own in enumerate(names, 1)), location)
        return self.header

    def is_header(self, fields: list[str]) -> bool:
        return seen_name(fields[0]) == self.header[0] and tuple(map(seen_name, fields)) == self.header


def _of_delimited(source: Source, usual: str) -> Iterator[_Raw]:
    with open_text(source.data) as stream:
        lines = Lines(stream, source.name)
        reader, delimiter, may_name = _header(source, lines, usual)
        header, swallowed, named = source.header, [], None if len(source.header) > 1 and may_name else False
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
                named = len(fields) == len(header) + 1 and fields[0].isdigit() and fields[-1] != ""
            own = fields[1:] if named else fields
            if reason := _fault(source, own, len(fields), delimiter):
                yield _Raw(first, {}, reason, as_json(fields))
                continue
            if lines.place.line > first and any(_holds_a_row(text, delimiter, len(fields)) for text in own):
                swallowed.append(first)
            yield _Raw(first, dict(zip(header, own, strict=True)))
        if swallowed:
            source.notes.append(
                f"line {swallowed[0]}: a text in double quotes goes on over a line that looks like a row of its own"
                + (f" ({len(swallowed):,} such rows)" if len(swallowed) > 1 else "")
                + "; is a double quote missing, or one too many?"
            )


def _fault(source: Source, fields: list[str], n: int, delimiter: str) -> str:
    """Why `n` fields of a line, without the name of the row, are not a row; empty if they are one."""
    is_ragged = len(fields) != len(source.header)
    if fields[:1] and fields[0].startswith("#" if is_ragged else "# "):
        return _COMMENT
    if not is_ragged:
        return _AGAIN if source.is_header(fields) else ""
    more = f"; a text that has a {_DELIMITERS[delimiter]} must stand in double quotes"
    return f"{counted(n, 'field')}, but the header has {len(source.header)}" + more * (len(fields) > len(source.header))


def _header(source: Source, lines: Lines, usual: str) -> tuple[Iterator[list[str]], str, bool]:
    """What reads the rows, what is between their fields, and whether rows can have names, as those of R have.

    An unquoted text with a comma too many looks like a row with a name, so that the fields must stand in quotes.
    """
    filled = (line for line in lines if line.strip())
    first = next(filled, "")
    said = first[4:] if first[:4].lower() == "sep=" and len(first) == 5 else ""
    if said:  # a spreadsheet's own line about the delimiter
        first = next(filled, "")
    if first.startswith("# "):
        raise InputError(f"{lines.location}: {_COMMENT}")
    # The one that the header has most often: spreadsheets in many countries write semicolons into CSV.
    delimiter = max(",;\t|", key=lambda sign: (first.count(sign), sign == usual))
    if delimiter not in first and first.startswith('"'):  # a space can stand in a name, too
        delimiter = " "
    delimiter = said if said in _DELIMITERS else delimiter
    # `map` goes on after a line that cannot be read; a generator would end there.
    # A space before a double quote is layout, and one before another text is not read anyway.
    reader = csv.reader(
        map("{}\n".format, chain([first], lines)), delimiter=delimiter, strict=True, skipinitialspace=True
    )
    try:
        source.named(next(reader, []), lines.location)
    except csv.Error as error:
        raise InputError(f"{lines.location}: {_told(error)}") from None
    return reader, delimiter, first.startswith('"') or delimiter == "\t"


def _of_json(source: Source) -> Iterator[_Raw]:
    is_list: bool | None = None
    with open_text(source.data) as stream:
        lines = Lines(stream, source.name)
        while True:
            try:
                line = next(lines, None)
            except BadLineError as error:
                yield _Raw(lines.place.line, {}, error.reason)
                continue
            if line is None:
                return
            if is_list is None and line.strip():
                is_list = line.lstrip().startswith("[")
            if is_list:
                text = "\n" * (lines.place.line - 1) + "\n".join(chain([line], lines))
                if len(text) > _MOST_LIST:
                    most = f"a JSON list of more than {_MOST_LIST:,} bytes"
                    raise InputError(f"{source.name}: {most}; write one object per line")
                values = parse_json(text, source.name, each_key_once)
                for value, number in zip(values, _lines_of_values(text), strict=True):
                    yield _of_value(value, number, as_json(value))
            elif line.strip():
                yield _of_line(line.strip(), lines.place.line)


def _lines_of_values(text: str) -> Iterator[int]:
    """The line where each value of a JSON list begins."""
    line, before, decoder = 1, 0, json.JSONDecoder()
    begin = text.index("[") + 1
    while (begin := _NEXT.match(text, begin).end()) < len(text) and text[begin] != "]":
        line, before = line + text.count("\n", before, begin), begin
        yield line
        _, begin = decoder.raw_decode(text, begin)


def _of_line(text: str, line: int) -> _Raw:
    try:
        return _of_value(parse_json(text, "", each_key_once), line, text)
    except InputError as error:
        return _Raw(line, {}, str(error).removeprefix(": "), text)


def _of_value(value: Any, line: int | None, text: str) -> _Raw:
    fault = fault_of_object(value, text)
    if not fault and len(names := {seen_name(key): own for key, own in value.items()}) < len(value):
        twice = next(seen_name(key) for key in value if seen_name(key) != key)
        fault = f"the key {twice!r} stands there twice; write it once"
    return _Raw(line, {}, fault, text) if fault else _Raw(line, names)


def _of_sheet(source: Source) -> Iterator[_Raw]:
    """The rows of the first sheet; their lines are the rows that the sheet shows."""
    with needs_extra("sheets", "a spreadsheet (.xlsx, .xls, .ods)"):
        import python_calamine as calamine  # noqa: PLC0415 - an extra
    try:
        with open_regular(source.data) as stream:
            book = calamine.CalamineWorkbook.from_filelike(stream)
            seen = [own.name for own in book.sheets_metadata if own.visible == calamine.SheetVisibleEnum.Visible]
            sheet = book.get_sheet_by_name(seen[0])
            rows, merged = sheet.to_python(skip_empty_area=False), sheet.merged_cell_ranges or ()
    except (calamine.CalamineError, OSError, ValueError, IndexError) as error:
        raise InputError(f"{source.name}: not a whole spreadsheet ({first_line(error)}); {_SHEET_HINT}") from None
    for (top, left), (bottom, right) in merged:  # every cell of them shows the first one's value
        for row in rows[top : bottom + 1]:
            row[left : right + 1] = [rows[top][left]] * len(row[left : right + 1])
    filled = [(line, row) for line, row in enumerate(rows, 1) if any(cell not in {"", None} for cell in row)]
    if not filled:
        raise InputError(f"{source.name}: the first sheet is empty; put the table there")
    if len(seen) > 1:
        source.notes.append(f"only the first of {len(seen)} sheets is read: {seen[0]!r}")
    kept = [place for place in range(len(filled[0][1])) if any(row[place] not in {"", None} for _, row in filled)]
    (line, header), *below = [(line, [None if row[i] == "" else exact(row[i]) for i in kept]) for line, row in filled]
    names = source.named(("" if own is None else own for own in header), f"{source.name}:{line}")
    for line, cells in below:
        is_again = source.is_header(list(map(str, cells)))
        yield _Raw(line, {}, _AGAIN, as_json(cells)) if is_again else _Raw(line, dict(zip(names, cells, strict=True)))


def _parquet(source: Source, size: int) -> Iterator[tuple[int, dict[str, pl.Series]]]:
    pl.Config.load(_INTERVALS)
    try:
        rows = pl.scan_parquet(source.data, glob=False, hive_partitioning=False)
        schema, n = rows.collect_schema(), rows.select(pl.len()).collect().item()
        rows = rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if _is_vector(dtype))
        for start in range(0, n, size):
            yield start, rows.slice(start, size).collect().to_dict()
    except (PolarsError, PanicException, OSError, ValueError) as error:
        raise InputError(f"{source.name}: not a whole Parquet file ({first_line(error)}); write it again") from None


def _of_objects(source: Source) -> Iterator[_Raw]:
    for row in source.data:
        yield _Raw(
            None, dict(zip(_checked((seen_name(str(key)) for key in row), source.name), row.values(), strict=True))
        )


_ROWS: Mapping[Any, Callable[[Source], Iterator[_Raw]]] = {
    _CSV: lambda source: _of_delimited(source, ","),
    _TSV: lambda source: _of_delimited(source, "\t"),
    _JSON: _of_json,
    _SHEET: _of_sheet,
    list: _of_objects,
}


def in_memory(data: Any) -> Source:
    """A frame of Polars, pandas or Arrow, a list of dictionaries, or a dictionary of columns; else an `InputError`."""
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        return Source(_FRAME, list(data))
    if isinstance(data, pl.LazyFrame) or (hasattr(data, "__arrow_c_stream__") and not hasattr(data, "iloc")):
        try:
            frame = data.collect() if isinstance(data, pl.LazyFrame) else pl.DataFrame(data)
        except (PolarsError, PanicException, TypeError, ValueError, ImportError) as error:
            raise InputError(f"the table cannot be read ({first_line(error)}); give a file or a dictionary") from None
        return Source(_FRAME, frame.to_dict())
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        return Source(_FRAME, _columns(data))
    raise InputError(f"a table of type {type(data).__name__}; give a file, a frame or a dictionary of columns")


def _columns(data: Any) -> dict[str, Any]:
    """A dictionary of columns, or a frame of another library."""
    named = [own for own in getattr(getattr(data, "index", None), "names", ()) if own not in {None, *data.columns}]
    data = data.reset_index(level=named) if named else data  # as in the files that pandas writes
    keys = list(getattr(data, "columns", data))
    columns = [data.iloc[:, i] if hasattr(data, "iloc") else data[key] for i, key in enumerate(keys)]
    names = _checked((seen_name(str(key)) for key in keys), _FRAME)
    for name, own in zip(names, columns, strict=True):
        if isinstance(own, str | bytes | set | Mapping) or not hasattr(own, "__len__"):
            raise InputError(f"the column {name!r} of the table is a {type(own).__name__}; give a list of values")
        if len(own) != len(columns[0]):
            raise InputError(
                f"{_FRAME}: the table's column {name!r} has {counted(len(own), 'value')}, {names[0]!r} has "
                f"{len(columns[0]):,}; give columns of the same length"
            )
    return dict(zip(names, map(_values, columns), strict=True))


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
        shown = [own for own in paths if own.name[0] != "." and not own.name.startswith("~$")]
        found = [own for own in shown if bare(own).suffix.lower() in _IN_FOLDERS]
        if not found:
            kind, endings = "folder" if is_folder(path) else "archive", ", ".join(_IN_FOLDERS)
            raise InputError(f"{path}: this {kind} does not hold a table; the name of a table ends in {endings}")
        for first, second in pairwise(found):
            if first.name == second.name:
                raise InputError(f"{path}: two files have the name {first.name!r}; unpack it and give one folder")
        left = [
            own.name for own in shown if own not in found and (bare(own).suffix.lower() in _MAYBE or is_folder(own))
        ]
        told = [f"not read: {', '.join(left)}; the name of a table in a folder ends in {', '.join(_IN_FOLDERS)}"]
        yield [Source(str(path / own.name), own, notes=told[: own is found[0] and len(left)]) for own in found]


def _is_archive(path: Path) -> bool:
    """Whether a file is a zip archive, and not a workbook, which is one, too."""
    with open_regular(path, _HINT) as stream:
        if path.suffix.lower() == ".zip" or not is_zipfile(stream):
            return path.suffix.lower() == ".zip"
        return not {"[Content_Types].xml", "mimetype"} & set(ZipFile(stream).namelist())


def _unpacked(path: Path, folder: Path) -> list[Path]:
    try:
        with ZipFile(path) as archive:
            if sum(own.file_size for own in archive.infolist()) > MOST_TABLE:
                raise InputError(f"{path}: more than {MOST_TABLE:,} bytes when it is unpacked; give a smaller archive")
            archive.extractall(folder)
    except (BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise InputError(f"{path}: the archive cannot be unpacked ({first_line(error)}); unpack it yourself") from None
    return sorted(files_below(folder), key=lambda own: own.name)


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


def _part(columns: Mapping[str, Iterable[Any]], places: list[tuple[Any, ...]]) -> pl.DataFrame:
    rows = pl.DataFrame(places, SKIPPED_SCHEMA, orient="row")
    return pl.DataFrame([rows.to_struct(PLACE), *(column_of(name, own) for name, own in columns.items())])


def _values(column: Any) -> Any:
    """The values of a column; fractions of 16 or 32 bits stay as they are, so that 0.1 is 0.1."""
    if isinstance(column, pl.Series) and column.dtype in {pl.String, pl.Boolean, pl.Int64}:
        return column
    if str(getattr(column, "dtype", "")).lower() in {"float16", "float32"}:
        return np.asarray(column)
    as_list = getattr(column, "to_list", None) or getattr(column, "tolist", None)
    return as_list() if as_list else list(column)


def _is_vector(dtype: pl.DataType) -> bool:
    """Whether a type is lists or objects without texts."""
    return dtype.is_nested() and "String" not in str(dtype)


def _checked(names: Iterable[str], location: str) -> tuple[str, ...]:
    """The names of columns; `InputError` if there are too many, or two alike."""
    found = tuple(names)
    if len(found) > MOST_COLUMNS:
        raise InputError(f"{location}: {len(found):,} columns; a table has at most {MOST_COLUMNS:,}")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"{location}: two columns have the name {twice!r}; give each a name of its own")
    return found


@cache
def seen_name(text: str) -> str:
    """The name of a column as a person sees it, which is how it counts."""
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
