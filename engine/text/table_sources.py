"""The ways into a user's table: CSV, TSV, JSON lines and lists, Parquet, spreadsheets, frames and rows in memory.

Each gives batches of rows, once: their columns, the lines where the rows begin, and why some cannot be read.
"""

import csv
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
import polars as pl
import regex
from polars.exceptions import PanicException, PolarsError

from ..basics.errors import InputError, first_line, needs_extra
from ..basics.frames import literal
from ..basics.printable import counted
from ..basics.reading import files_below, is_folder, open_regular, parse_json, paths_in
from .table_cells import INVISIBLE, MIXED, column_of, exact
from .text_lines import (
    BYTE_ORDER_MARK,
    MOST_TABLE,
    BadLineError,
    Lines,
    each_key_once,
    json_object,
    open_text,
)

MOST_COLUMNS = 1_000
PLACE = "\0"  # no column of a user has this name
PLACES = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String}
"""Where a row stands: its number from 1, its line (null outside text files); and why it cannot be used."""
_MOST_LIST = 2**26  # bytes of a JSON list, which is held in memory
_HINT = "give a table as CSV, TSV, JSON lines or Parquet"
_SHEET_HINT = "save the sheet as “CSV UTF-8” and give that file"
_FIRST = 4096  # bytes that show what a file is
_CSV, _TSV, _JSON, _PARQUET, _SHEET, _LIST = "CSV", "TSV", "JSON", "Parquet", "spreadsheet", "list of dictionaries"
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
_WORKBOOK = {"[Content_Types].xml", "mimetype"}  # one of them is in each
_IN_FOLDERS = {".csv": _CSV, ".tsv": _TSV, ".jsonl": _JSON, ".ndjson": _JSON, ".parquet": _PARQUET} | dict.fromkeys(
    (".xlsx", ".ods"), _SHEET
)
_BY_NAME = {**_IN_FOLDERS, ".tab": _TSV, ".json": _JSON}
_MAYBE = {*_BY_NAME, ".txt", ".xls", ".zip"}  # can be a table; in a folder, other files have such names more often
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space"}
_FRAME = "the frame"  # what messages call what is in memory
_AGAIN = "this row is the header again; remove it"
_COMMENT = "a line that begins with # is not a row of a table; remove it"
_VECTORS = "it holds lists or objects without texts"
_INVISIBLE, _NEXT = regex.compile(INVISIBLE, regex.V1), regex.compile(r"[\s,]*")
_CSV_ERRORS = {
    "field limit": "a text of more than 131,072 characters, or a double quote that is not closed",
    "unexpected end of data": "a double quote that is not closed",
    "new-line character": "a line end in the middle of the line; save the file as CSV with the usual line ends",
}
# Polars panics at a column of DuckDB's INTERVAL, even an unused one, unless it may take it for something else.
_INTERVALS = json.dumps({"environment": {"POLARS_IMPORT_INTERVAL_AS_STRUCT": "1"}})

Row = tuple[int | None, Mapping[str, Any], str | None]  # where it begins, its fields, and why it cannot be read
Batch = tuple[Mapping[str, Iterable[Any]], Sequence[int | None], Sequence[str | None]]  # the same of several rows


@dataclass(eq=False)
class Source:
    """A file; or what is in memory. Once all is read, it knows its columns and notes."""

    name: str
    data: Any  # its path, a frame of Polars, or a list of dictionaries; None once it is read
    sha256: str = ""  # in hex: of a file's bytes, or of the names, types and values in memory
    header: tuple[str, ...] = ()  # of a table with one
    columns: dict[str, None] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)  # column that cannot be read → why
    notes: list[str] = field(default_factory=list)  # what a person may not have meant

    def parts(self, size: int) -> Iterator[pl.DataFrame]:
        """All rows, so many together, with the column `PLACE`."""
        n, rows = 0, _ROWS.get(_kind_of(self.data))
        for columns, lines, reasons in _of_frame(self, size) if rows is None else _in_batches(self, rows(self), size):
            places = pl.DataFrame([range(n + 1, n + len(lines) + 1), lines, reasons], PLACES)
            yield pl.DataFrame([places.to_struct(PLACE), *(column_of(name, own) for name, own in columns.items())])
            self.columns |= dict.fromkeys(columns)
            n += len(lines)

    def location(self, row: int, line: int | None) -> str:
        """Where a row stands, for a message."""
        return f"{self.name}, row {row}" if line is None else f"{self.name}:{line}"

    def name_columns(self, names: Iterable[Any], location: str) -> None:
        """Take in the header: R and pandas write a first column without a name, which its position names."""
        self.header = _checked((seen_name(own) or f"column {i}" for i, own in enumerate(names, 1)), location)

    def is_header(self, fields: Sequence[Any]) -> bool:
        """Whether a row is the header again, also in other letters, such as capitals."""
        if any(isinstance(own, str) and own.startswith('{"ImportId":') for own in fields):
            raise InputError(f"{self.name}: below the names of the columns, Qualtrics has two lines more; remove them")
        is_first = seen_name(fields[0]).lower() == self.header[0].lower()
        return is_first and " ".join(map(seen_name, fields)).lower() == " ".join(self.header).lower()

    def row(self, line: int, fields: Sequence[Any], reason: str | None = None) -> Row:
        """A row below the header; `reason` says why it cannot be read."""
        reason = reason or (_AGAIN if self.is_header(fields) else None)
        return line, {} if reason else dict(zip(self.header, fields, strict=True)), reason


def _in_batches(source: Source, rows: Iterator[Row], size: int) -> Iterator[Batch]:
    while some := list(islice(rows, size)):
        lines, fields, reasons = zip(*some, strict=True)
        names = dict.fromkeys(chain(source.header, *fields))
        yield {name: [own.get(name) for own in fields] for name in names}, lines, reasons


def _of_delimited(source: Source, usual: str) -> Iterator[Row]:
    with open_text(source.data) as stream:
        lines = Lines(stream, source.name)
        reader, delimiter, named = _header(source, lines, usual)
        header, swallowed = source.header, list[int]()
        for first, fields, reason in _each(reader, lines):
            if reason:
                yield first, {}, reason
                continue
            if not any(fields) or (delimiter == "|" and not "".join(fields).strip("-: ")):
                continue  # spreadsheets write rows of empty cells below a table, Markdown dashes below a header
            if named is None:  # R's write.table gives the names of the rows no name in the header
                named = len(fields) == len(header) + 1 and fields[0].isdigit() and fields[-1] != ""
            own = fields[1:] if named else fields
            row = source.row(first, own, _fault(source, own, len(fields), delimiter))
            if row[1] and lines.line > first and any(_holds_a_row(text, delimiter, len(fields)) for text in own):
                swallowed.append(first)
            yield row
        if swallowed:
            source.notes.append(
                f"line {swallowed[0]}: a text in double quotes goes on over a line that looks like a row of its own"
                + (f" ({len(swallowed):,} such rows)" if len(swallowed) > 1 else "")
                + "; is a double quote missing, or one too many?"
            )


def _each(reader: Iterator[Any], lines: Lines) -> Iterator[tuple[int, Any, str | None]]:
    """What is read next of some lines, the line where it begins, and why it cannot be read."""
    while True:
        first, found, reason = lines.line + 1, None, None
        try:
            found = next(reader)
        except StopIteration:
            return
        except BadLineError as error:
            reason = error.reason
        except csv.Error as error:
            reason = _told(error)
        yield first, found, reason


def _header(source: Source, lines: Lines, usual: str) -> tuple[Iterator[list[str]], str, bool | None]:
    """What reads the rows, what is between their fields, and None where the rows can have names, as those of R have.

    An unquoted text with a comma too many looks like a row with a name, so that the header must stand in quotes.
    """
    filled = (line for line in lines if line.strip())
    first = next(filled, "")
    said = first[4:] if first[:4].lower() == "sep=" and len(first) == 5 else ""
    if said:  # a spreadsheet's own line about the delimiter
        first = next(filled, "")
    if first.startswith("# "):
        raise InputError(f"{lines.location}: {_COMMENT}")
    # The one that the header has most often: spreadsheets in many countries write semicolons into CSV.
    # In TSV, a comma stands in a name rather than a tab.
    delimiter = max(",;\t|", key=lambda sign: (sign == usual == "\t" in first, first.count(sign), sign == usual))
    if delimiter not in first and first.startswith('"'):  # a space can stand in a name, too
        delimiter = " "
    delimiter = said if said in _DELIMITERS else delimiter
    # `map` goes on after a line that cannot be read; a generator would end there. A space before a double quote is
    # layout, and one before another text is not read anyway.
    every = map("{}\n".format, chain([first], lines))
    reader = csv.reader(every, delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        source.name_columns(next(reader, []), lines.location)
    except csv.Error as error:
        raise InputError(f"{lines.location}: {_told(error)}") from None
    can_be_named = len(source.header) > 1 and (first.startswith('"') or delimiter == "\t")
    return reader, delimiter, None if can_be_named else False


def _told(error: csv.Error) -> str:
    usual = f"{error}; write a double quote within a quoted text twice"
    return next((told for begin, told in _CSV_ERRORS.items() if begin in str(error)), usual)


def _fault(source: Source, fields: list[str], n: int, delimiter: str) -> str | None:
    """Why `n` fields of a line, without the name of the row, are not a row; None if they are one."""
    is_ragged = len(fields) != len(source.header)
    if fields[:1] and fields[0].startswith("#" if is_ragged else "# "):
        return _COMMENT
    if not is_ragged:
        return None
    more = f"; a text that has a {_DELIMITERS[delimiter]} must stand in double quotes"
    return f"{counted(n, 'field')}, but the header has {len(source.header)}" + more * (len(fields) > len(source.header))


def _holds_a_row(text: str, delimiter: str, fields: int) -> bool:
    """Whether a quoted text goes on over a line that has as many delimiters as a row."""
    return "\n" in text and any(line.count(delimiter) >= fields - 1 for line in text.split("\n"))


def _of_json(source: Source) -> Iterator[Row]:
    """One object per line, or a list of objects."""
    with open_text(source.data) as stream:
        lines, is_first = Lines(stream, source.name), True
        for line, text, reason in _each(lines, lines):
            if reason:
                yield line, {}, reason
            elif is_first and text.lstrip().startswith("["):
                yield from _of_list("\n" * (line - 1) + "\n".join(chain([text], lines)), source.name)
            elif text.strip():
                yield _row(text.strip(), line)
            is_first = is_first and not reason and not text.strip()


def _of_list(text: str, name: str) -> Iterator[Row]:
    if len(text) > _MOST_LIST:
        raise InputError(f"{name}: a JSON list of more than {_MOST_LIST:,} bytes; write one object per line")
    place, line, decoder = text.index("[") + 1, text.count("\n", 0, text.index("[")) + 1, json.JSONDecoder()
    for _ in parse_json(text, name):  # which refuses a list that is not whole
        begin = _NEXT.match(text, place).end()
        line, (_, place) = line + text.count("\n", place, begin), decoder.raw_decode(text, begin)
        yield _row(text[begin:place], line)
        line += text.count("\n", begin, place)


def _row(given: str | Mapping[Any, Any], line: int | None = None) -> Row:
    """A JSON object or a dictionary, with the names that a person sees, of which no two may be alike."""
    try:
        own = json_object(given, "") if isinstance(given, str) else given
        return line, each_key_once([(seen_name(name), cell) for name, cell in own.items()]), None
    except InputError as error:
        return line, {}, str(error).removeprefix(": ")


def _of_sheet(source: Source) -> Iterator[Row]:
    """The rows of the first sheet that a person sees; their lines are the rows that the sheet shows."""
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
    cells = [[None if cell == "" else exact(cell) for cell in row] for row in rows]
    for (top, left), (bottom, _) in merged:  # each of its rows shows the first one's value
        for row in cells[top + 1 : bottom + 1]:
            row[left] = cells[top][left]
    filled = [(line, row) for line, row in enumerate(cells, 1) if any(cell is not None for cell in row)]
    if not filled:
        raise InputError(f"{source.name}: the first sheet is empty; put the table there")
    if len(seen) > 1:
        source.notes.append(f"only the first of {len(seen)} sheets is read: {seen[0]!r}")
    kept = [place for place in range(len(filled[0][1])) if any(row[place] is not None for _, row in filled)]
    (line, header), *below = [(line, [row[place] for place in kept]) for line, row in filled]
    source.name_columns(("" if own is None else own for own in header), f"{source.name}:{line}")
    yield from (source.row(line, row) for line, row in below)


def _of_frame(source: Source, size: int) -> Iterator[Batch]:
    """Vectors are not read: nothing here needs them, and they can be large."""
    try:
        pl.Config.load(_INTERVALS)
        is_file = isinstance(source.data, Path)
        frame = pl.scan_parquet(source.data, glob=False, hive_partitioning=False) if is_file else source.data.lazy()
        schema, n = frame.collect_schema(), frame.select(pl.len()).collect().item()
        names = dict(zip(schema, _checked(schema, source.name), strict=True))
        vectors = [name for name, dtype in schema.items() if dtype.is_nested() and "String" not in str(dtype)]
        source.unreadable |= {names[name]: _VECTORS for name in vectors}
        source.notes.extend(f"the column {names[name]!r} is not read: {_VECTORS}" for name in vectors)
        for start in range(0, n, size):
            part = frame.slice(start, size).with_columns(pl.lit(None).alias(name) for name in vectors).collect()
            nothing = [None] * len(part)
            yield {own: _values(part[name]) for name, own in names.items()}, nothing, nothing
    except (PolarsError, PanicException, OSError, ValueError) as error:
        raise InputError(f"{source.name}: not a whole Parquet file ({first_line(error)}); write it again") from None


_ROWS: Mapping[str, Callable[[Source], Iterator[Row]]] = {
    _CSV: lambda source: _of_delimited(source, ","),
    _TSV: lambda source: _of_delimited(source, "\t"),
    _JSON: _of_json,
    _SHEET: _of_sheet,
    _LIST: lambda source: map(_row, source.data),
}


def in_memory(data: Any) -> Source:
    """A frame of Polars, pandas or Arrow, a list of dictionaries, or a dictionary of columns; else an `InputError`."""
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        return Source(_FRAME, list(data))
    is_lazy = isinstance(data, pl.LazyFrame)
    try:
        if is_lazy or (hasattr(data, "__arrow_c_stream__") and not hasattr(data, "iloc")):
            return Source(_FRAME, data.collect() if is_lazy else pl.DataFrame(data))
        if isinstance(data, Mapping) or hasattr(data, "columns"):
            return Source(_FRAME, pl.DataFrame(_columns(data)))
    except (PolarsError, PanicException, TypeError, ValueError, ImportError) as error:
        raise InputError(f"the table cannot be read ({first_line(error)}); give a file or a dictionary") from None
    raise InputError(f"a table of type {type(data).__name__}; give a file, a frame or a dictionary of columns")


def _columns(data: Any) -> list[pl.Series]:
    """A dictionary of columns, or a frame of another library."""
    named = [own for own in getattr(getattr(data, "index", None), "names", ()) if own not in {None, *data.columns}]
    data = data.reset_index(level=named) if named else data  # as in the files that pandas writes
    keys = list(getattr(data, "columns", data))
    columns = [data.iloc[:, i] if hasattr(data, "iloc") else data[key] for i, key in enumerate(keys)]
    names = _checked(keys, _FRAME)
    for name, own in zip(names, columns, strict=True):
        if isinstance(own, str | bytes | set | Mapping) or not hasattr(own, "__len__"):
            raise InputError(f"the column {name!r} of the table is a {type(own).__name__}; give a list of values")
    return [column_of(name, _values(own)) for name, own in zip(names, columns, strict=True)]


def _values(column: Any) -> Any:
    """The values of a column; fractions of 16 or 32 bits stay as they are, so that 0.1 is 0.1."""
    if isinstance(column, pl.Series) and column.dtype in {pl.String, pl.Boolean, pl.Int64, MIXED}:
        return column
    if str(getattr(column, "dtype", "")).lower() in {"float16", "float32"}:
        return np.asarray(column)
    as_list = getattr(column, "to_list", None) or getattr(column, "tolist", None)
    return as_list() if as_list else list(column)


def _checked(names: Iterable[object], location: str) -> tuple[str, ...]:
    """The names of columns as they count; `InputError` if there are too many, or two alike."""
    found = tuple(map(seen_name, names))
    if len(found) > MOST_COLUMNS:
        raise InputError(f"{location}: {len(found):,} columns; a table has at most {MOST_COLUMNS:,}")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"{location}: two columns have the name {twice!r}; give each a name of its own")
    return found


def seen_name(name: object) -> str:
    """The name of a column as a person sees it, which is how it counts; see `literal`."""
    text = str(name)
    return literal((text if text.isascii() else unicodedata.normalize("NFC", _INVISIBLE.sub("", text))).strip())


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
        ending = f"the name of a table in it ends in {', '.join(_IN_FOLDERS)}"
        if not found:
            kind = "folder" if is_folder(path) else "archive"
            raise InputError(f"{path}: this {kind} does not hold a table; {ending}")
        for first, second in pairwise(found):
            if first.name == second.name:
                raise InputError(f"{path}: two files have the name {first.name!r}; unpack it and give one folder")
        sources = [Source(str(path / own.name), own) for own in found]
        left = [own for own in shown if own not in found and (is_folder(own) or bare(own).suffix.lower() in _MAYBE)]
        if left:
            sources[0].notes.append(f"not read: {', '.join(own.name for own in left)}; {ending}")
        yield sources


def _is_archive(path: Path) -> bool:
    """Whether a file is a zip archive, and not a workbook, which is one, too."""
    with open_regular(path, _HINT) as stream:
        is_named = path.suffix.lower() == ".zip"
        return is_named or (is_zipfile(stream) and not _WORKBOOK & set(ZipFile(stream).namelist()))


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


def _kind_of(path: Any) -> str:
    """Which kind of table a file is, by its first bytes, then its name; InputError if it is none."""
    if not isinstance(path, Path):  # a frame is as Parquet
        return _LIST if isinstance(path, list) else _PARQUET
    with open_text(path, _HINT) as stream:
        first = stream.read(_FIRST)
    if not first.strip():
        raise InputError(f"{path}: the file is empty; {_HINT}")
    found = next((kind for begin, kind in _BY_BYTES.items() if first.startswith(begin)), "")
    if isinstance(found, tuple):
        raise InputError(f"{path}: this is {found[0]}; {found[1]}")
    is_object = first.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{")
    kind = found or _BY_NAME.get(bare(path).suffix.lower(), _JSON if is_object else _CSV)
    if not found and kind in {_PARQUET, _SHEET}:
        raise InputError(f"{path}: not a {kind} file, although its name ends in {path.suffix}; {_HINT}")
    return kind
