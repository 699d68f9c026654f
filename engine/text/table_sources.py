"""The ways into a user's table: CSV, TSV, JSON lines and lists, Parquet, spreadsheets, frames and rows in memory.

Each is read once and gives batches of rows: their values by column, the line where each begins, and rows that cannot
be read. A column whose values are of several kinds in one batch holds each value as JSON, in bytes.
"""

import csv
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from ..basics.errors import InputError, first_line, needs_extra
from ..basics.printable import counted
from ..basics.reading import DEEPEST, open_regular, parse_json, unreadable
from .text_lines import BYTE_ORDER_MARK, GZIP, LONGEST_LINE, BadLineError, Lines, json_object, open_text

MOST_COLUMNS = 1_000
_MOST_LIST = 2**26  # bytes of a JSON list, which is held in memory
_HINT = "give a table as CSV, TSV, JSON lines or Parquet"
_FIRST = 4096  # bytes that show what a file is
# First bytes → what the file is, and what the user does about it.
_OTHERS = {
    b"BZh": ("packed with bzip2", "unpack it with `bunzip2`"),
    b"\xfd7zXZ\x00": ("packed with xz", "unpack it with `unxz`"),
    b"\x28\xb5\x2f\xfd": ("packed with Zstandard", "unpack it with `unzstd`"),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
    b"%PDF": ("a PDF", _HINT),
}


class Kind(StrEnum):
    """How the rows of a table are written."""

    CSV = "CSV"
    TSV = "TSV"
    JSON = "JSON"
    PARQUET = "Parquet"
    SHEET = "spreadsheet"


_BY_BYTES = {b"PAR1": Kind.PARQUET, b"PK\x03\x04": Kind.SHEET, b"\xd0\xcf\x11\xe0": Kind.SHEET}
_BY_NAME = {".csv": Kind.CSV, ".parquet": Kind.PARQUET} | dict.fromkeys((".tsv", ".tab"), Kind.TSV)
_BY_NAME |= dict.fromkeys((".jsonl", ".ndjson", ".json"), Kind.JSON)
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".ods")  # of the tables in a folder


def bare(path: Path) -> Path:
    """The name of a file without the ending of its packing."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


class Bad(NamedTuple):
    """A row that cannot be read: its number and line, why, and what stands there."""

    row: int
    line: int | None
    reason: str
    content: str


class Batch(NamedTuple):
    """Rows that were read together: columns of n values, their numbers from 1, their lines (None: there are none)."""

    frame: pl.DataFrame
    numbers: Sequence[int]
    lines: Sequence[int] | None
    bad: Sequence[Bad]


class _Raw(NamedTuple):
    """A row as it is written: the line where it begins, and its fields, or why it cannot be read."""

    line: int
    fields: Mapping[str, Any]
    reason: str = ""
    content: str = ""


@dataclass(eq=False)
class Source:
    """A file, or what is in memory."""

    name: str
    path: Path | None
    data: Any = None  # of a source in memory
    header: tuple[str, ...] = ()  # known once reading has begun
    notes: list[str] = field(default_factory=list)  # what a person may not have meant; known once all is read
    unreadable: dict[str, str] = field(default_factory=dict)  # column that cannot be read → why

    def batches(self, size: int) -> Iterator[Batch]:
        """All rows, so many together."""
        if self.path is None:
            yield from self._of_memory(self.data, size)
            return
        kind = kind_of(self.path)
        if kind is Kind.PARQUET:
            yield from self._of_parquet(self.path, size)
        elif kind is Kind.SHEET:
            yield from self._of_rows(self._sheet_rows(self.path), size)
        else:
            with open_text(self.path) as stream:
                lines = Lines(stream, self.name)
                raws = self._json_rows(lines) if kind is Kind.JSON else self._delimited_rows(lines, kind)
                yield from self._of_rows(raws, size)

    def _of_rows(self, raws: Iterator[_Raw], size: int) -> Iterator[Batch]:
        before = 0
        while some := list(islice(raws, size)):
            numbered = list(enumerate(some, before + 1))
            good = [(number, raw) for number, raw in numbered if not raw.reason]
            bad = [Bad(number, raw.line or None, raw.reason, raw.content) for number, raw in numbered if raw.reason]
            names = dict.fromkeys(chain(self.header, *(raw.fields for _, raw in good)))
            columns = [column_of(name, [raw.fields.get(name) for _, raw in good]) for name in names]
            lines = [raw.line for _, raw in good] if some[0].line else None
            yield Batch(pl.DataFrame(columns), [number for number, _ in good], lines, bad)
            before += len(some)

    # CSV and TSV

    def _delimited_rows(self, lines: Lines, kind: Kind) -> Iterator[_Raw]:
        reader, delimiter, named = self._header(lines, kind)
        swallowed: list[int] = []
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
            own = fields[1:] if named else fields
            if len(own) != len(self.header):
                reason = f"{counted(len(fields), 'field')}, but the header has {len(self.header)}"
                if len(own) > len(self.header):
                    reason += f"; a text that has a {_DELIMITERS[delimiter]} must stand in double quotes"
                yield _Raw(first, {}, reason, as_json(fields))
            elif self._is_header(own):
                yield _Raw(first, {}, "this row is the header again; remove it", as_json(fields))
            else:
                if lines.place.line > first and any(_holds_a_row(text, delimiter, len(fields)) for text in own):
                    swallowed.append(first)
                yield _Raw(first, dict(zip(self.header, own, strict=True)))
        if swallowed:
            self.notes.append(
                f"line {swallowed[0]}: a text in double quotes goes on over a line that looks like a row of its own"
                + (f" ({len(swallowed):,} such rows)" if len(swallowed) > 1 else "")
                + "; is a double quote missing, or one too many?"
            )

    def _is_header(self, fields: list[str]) -> bool:
        return _name(fields[0]) == self.header[0] and tuple(map(_name, fields)) == self.header

    def _header(self, lines: Lines, kind: Kind) -> tuple[Iterator[list[str]], str, bool | None]:
        first = next((line for line in lines if line.strip()), "")
        said = first.lower().removeprefix("sep=") if first.lower().startswith("sep=") else ""
        if said and len(said) == 1:  # a spreadsheet's own line about the delimiter
            first = next((line for line in lines if line.strip()), "")
        usual = "\t" if kind is Kind.TSV else ","
        # The one that the header has most often: spreadsheets in many countries write semicolons into CSV.
        delimiter = max(_DELIMITERS, key=lambda delimiter: (first.count(delimiter), delimiter == usual))
        if said in _DELIMITERS:
            delimiter = said
        elif not first.count(delimiter) and first.startswith('"') and '" "' in first:
            delimiter = " "  # R's write.table
        reader = _reader(chain([first], lines), delimiter)
        try:
            fields = next(reader, [])
        except csv.Error as error:
            raise InputError(f"{lines.location}: {_told(error)}") from None
        # R and pandas write a first column without a name: it is called by its position.
        names = _checked((_name(name) or f"column {number}" for number, name in enumerate(fields, 1)), lines.location)
        self.header = names
        return reader, delimiter, None if len(names) > 1 else False

    # JSON

    def _json_rows(self, lines: Lines) -> Iterator[_Raw]:
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
            if lines.place.line == 1 and line.lstrip().startswith("["):
                yield from self._json_list(line, lines)
                return
            yield _json_row(line, lines.place.line)

    def _json_list(self, first: str, lines: Lines) -> Iterator[_Raw]:
        """The objects of one list, which may be one line or many."""
        text, decoder = "\n".join(chain([first], lines)), json.JSONDecoder()
        if len(text) > _MOST_LIST:
            raise InputError(f"{self.name}: a JSON list of more than {_MOST_LIST:,} bytes; write one object per line")
        if text.count("[") + text.count("{") > DEEPEST:
            parse_json(text, self.name)  # refuses what is too deep, which the decoder would not bear
        place, line = text.index("[") + 1, 1
        counted_to = 0
        while True:
            place = _behind_space(text, place)
            line, counted_to = line + text.count("\n", counted_to, place), place
            if text[place : place + 1] == "]":
                if text[place + 1 :].strip():
                    raise InputError(f"{self.name}:{line}: more stands behind the JSON list; give one list alone")
                return
            try:
                _, end = decoder.raw_decode(text, place)
            except ValueError as error:
                raise InputError(f"{self.name}:{line}: not JSON ({error})") from None
            yield _json_row(text[place:end], line)
            place = _behind_space(text, end)
            if text[place : place + 1] == ",":
                place += 1
            elif text[place : place + 1] != "]":
                raise InputError(f"{self.name}:{line}: the JSON list is not closed; write the file again")

    # Spreadsheets

    def _sheet_rows(self, path: Path) -> Iterator[_Raw]:
        """The rows of the first sheet; their lines are the rows that the sheet shows."""
        with needs_extra("sheets", "a spreadsheet (.xlsx, .xls, .ods)"):
            import python_calamine as calamine  # noqa: PLC0415 - an extra
        try:
            with open_regular(path) as stream:
                book = calamine.CalamineWorkbook.from_filelike(stream)
                sheets = book.sheet_names
                rows = book.get_sheet_by_index(0).to_python(skip_empty_area=False)
        except (calamine.CalamineError, OSError, ValueError, IndexError) as error:
            raise InputError(f"{path}: not a whole spreadsheet ({first_line(error)}); {_SHEET_HINT}") from None
        filled = [(line, row) for line, row in enumerate(rows, 1) if any(cell not in {"", None} for cell in row)]
        if not filled:
            raise InputError(f"{path}: the first sheet is empty; put the table there")
        if len(sheets) > 1:
            self.notes.append(f"only the first of {len(sheets)} sheets is read: {sheets[0]!r}")
        line, header = filled[0]
        kept = [place for place, cell in enumerate(header) if any(row[place] not in {"", None} for _, row in filled)]
        names = (_name(str(header[place])) or f"column {place + 1}" for place in kept)
        self.header = _checked(names, f"{path}:{line}")
        for line, row in filled[1:]:
            yield _Raw(line, {name: _cell(row[place]) for name, place in zip(self.header, kept, strict=True)})

    # Parquet, and what is in memory

    def _of_parquet(self, path: Path, size: int) -> Iterator[Batch]:
        pl.Config.load(_INTERVALS)
        try:
            rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            schema, n = rows.collect_schema(), rows.select(pl.len()).collect().item()
            self.header = _checked(schema, self.name)
            nested = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if dtype.is_nested()]
            for start in range(0, n, size):
                frame = rows.with_columns(nested).slice(start, min(size, n - start)).collect()
                yield from self._of_frame(frame, size, start)
        except (PolarsError, PanicException, OSError, ValueError) as error:
            raise InputError(f"{path}: not a whole Parquet file ({first_line(error)}); write it again") from None

    def _of_memory(self, data: Any, size: int) -> Iterator[Batch]:
        if isinstance(data, list):
            named = (zip(_checked(map(str, row), self.name), row.values(), strict=True) for row in data)
            yield from self._of_rows((_Raw(0, dict(row)) for row in named), size)
            return
        self.header = _checked(map(str, getattr(data, "columns", data)), self.name)
        if isinstance(data, pl.DataFrame):
            yield from self._of_frame(data, size)
            return
        keys = getattr(data, "columns", data)
        columns = [data.iloc[:, i] if hasattr(data, "iloc") else data[key] for i, key in enumerate(keys)]
        for name, own in zip(self.header, columns, strict=True):
            if isinstance(own, str | bytes) or not hasattr(own, "__len__"):
                raise InputError(f"the column {name!r} of the table is a {type(own).__name__}; give a list of values")
            if len(own) != (most := max(map(len, columns))):
                raise InputError(
                    f"{self.name}: the table's column {name!r} has {counted(len(own), 'value')}, others {most:,}; give "
                    "columns of the same length"
                )
        plain = [column_of(name, list(_listed(own))) for name, own in zip(self.header, columns, strict=True)]
        yield from _slices(pl.DataFrame(plain), size)

    def _of_frame(self, frame: pl.DataFrame, size: int, start: int = 0) -> Iterator[Batch]:
        """What another program made; a column of lists is not read, as nothing here needs it and it can be large."""
        for column in frame.iter_columns():
            if column.dtype.is_nested() and column.name not in self.unreadable:
                self.unreadable[column.name] = "it holds lists or objects"
                self.notes.append(f"the column {column.name!r} is not read: it holds lists or objects")
            if column.dtype == pl.String and (column.str.len_bytes() > LONGEST_LINE).any():
                raise InputError(
                    f"{self.name}: the column {column.name!r} has a text of more than {LONGEST_LINE:,} bytes; "
                    "give shorter texts"
                )
        yield from _slices(pl.DataFrame(list(map(_plain, frame.iter_columns()))), size, start)


def _slices(frame: pl.DataFrame, size: int, before: int = 0) -> Iterator[Batch]:
    for start in range(0, len(frame), size):
        part = frame.slice(start, size)
        yield Batch(part, range(before + start + 1, before + start + len(part) + 1), None, ())


_SHEET_HINT = "save the sheet as “CSV UTF-8” and give that file"
# Polars panics at a column of DuckDB's INTERVAL, even an unused one, unless it may take it for something else.
_INTERVALS = json.dumps({"environment": {"POLARS_IMPORT_INTERVAL_AS_STRUCT": "1"}})
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space"}


def in_memory(data: Any) -> Source:
    """A frame of Polars, pandas or Arrow, a list of dictionaries, or a dictionary of columns; else an `InputError`."""
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        data = list(data)
    elif hasattr(data, "__arrow_c_stream__") and not isinstance(data, pl.DataFrame) and not hasattr(data, "iloc"):
        try:
            data = pl.DataFrame(data)
        except (PolarsError, PanicException, TypeError, ValueError, ImportError) as error:
            raise InputError(f"the table cannot be read ({first_line(error)}); give a file or a dictionary") from None
    elif not isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise InputError(f"a table of type {type(data).__name__}; give a file, a frame or a dictionary of columns")
    return Source("the frame", None, data)


def kind_of(path: Path) -> Kind:
    """Which kind of table a file is, by its first bytes, then its name; InputError if it is none."""
    with open_regular(path, _HINT) as stream:
        try:
            first = stream.read(_FIRST)
        except OSError as error:
            raise unreadable(path, error, _HINT) from error
    if not first.strip():
        raise InputError(f"{path}: the file is empty; {_HINT}")
    if found := next((kind for begin, kind in _BY_BYTES.items() if first.startswith(begin)), None):
        return found
    for begin, (what, remedy) in _OTHERS.items():
        if first.startswith(begin):
            raise InputError(f"{path}: this is {what}; {remedy}")
    if first.startswith(GZIP):
        with open_text(path, _HINT) as unpacked:
            first = unpacked.read(_FIRST)
    text = first.removeprefix(BYTE_ORDER_MARK).lstrip()
    kind = _BY_NAME.get(bare(path).suffix.lower()) or (Kind.JSON if text.startswith(b"{") else Kind.CSV)
    if kind in {Kind.PARQUET, Kind.SHEET}:
        raise InputError(f"{path}: not a {kind} file, although its name ends in {path.suffix}; {_HINT}")
    return kind


def as_json(value: Any) -> str:
    """A value as JSON text, whatever it is."""
    return json.dumps(value, ensure_ascii=False, default=str)


_PLAIN = frozenset({str, int, float, bool, type(None)})
_LARGE = 2**53  # whole numbers up to here are the same as fractions


def column_of(name: str, values: list[Any]) -> pl.Series:
    """Values as a column: of texts, of truth values, of numbers; of several kinds as JSON; NaN and such are null."""
    types = set(map(type, values))
    if not types <= _PLAIN:
        values = [value if type(value) in _PLAIN else _value(value) for value in values]
        types = set(map(type, values))
    if float in types and any(value != value for value in values):  # noqa: PLR0124 - NaN
        values = [None if value != value else value for value in values]  # noqa: PLR0124
        types = set(map(type, values))
    types.discard(type(None))
    if not types:
        return pl.Series(name, values, pl.Null)
    if types == {str}:
        return pl.Series(name, values, pl.String)
    if types == {bool}:
        return pl.Series(name, values, pl.Boolean)
    if types == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pl.Series(name, values, pl.Int64)
    if types == {float}:
        return pl.Series(name, values, pl.Float64)
    return pl.Series(name, [None if value is None else as_json(value).encode() for value in values], pl.Binary)


def kinds_of(column: pl.Series) -> set[str]:
    """What the values of a column of a batch are.

    `text`, `truth`, `whole`, `large` (whole), `fraction`, `nested` (lists and objects), or a type.
    """
    if column.dtype == pl.Null or column.null_count() == len(column):
        return set()
    if column.dtype == pl.Binary:
        begins = {b'"': "text", b"[": "nested", b"{": "nested"}
        return {begins.get(value[:1]) or _kind(json.loads(value)) for value in column.drop_nulls()}
    if column.dtype == pl.String:
        return {"text"}
    if column.dtype == pl.Boolean:
        return {"truth"}
    if column.dtype.is_integer():
        least, most = column.min(), column.max()
        return {"whole" if max(abs(int(least)), abs(int(most))) <= _LARGE else "large"}  # type: ignore[arg-type]
    return {"fraction"} if column.dtype.is_float() else {str(column.dtype)}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int):
        return "whole" if abs(value) <= _LARGE else "large" if -(2**63) <= value < 2**63 else "text"
    return "fraction"


def _value(value: Any) -> Any:
    """A value of another library as a plain one; None where it stands for no value."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if type(value) in _PLAIN:
        return value
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    value = _listed(value)
    return value if isinstance(value, Mapping | list | tuple | set) else str(value)


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return str(content)


_FLAT = (pl.String, pl.Boolean, pl.Date, pl.Time, pl.Datetime, pl.Decimal, pl.Null)


def _plain(column: pl.Series) -> pl.Series:
    """The same as a plain column. Categories and spans of time become texts. Lists, maps and the like are left out."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if isinstance(column.dtype, pl.Duration):
        return column.dt.to_string()  # ISO 8601; a cast is not possible
    if isinstance(column.dtype, pl.Object):
        return column_of(column.name, column.to_list())
    if column.dtype.is_float():
        return column.fill_nan(None)
    if column.dtype.is_integer() or isinstance(column.dtype, _FLAT):
        return column
    if column.dtype == pl.Binary:  # some writers do not say that a column holds texts
        return pl.Series(column.name, [None if value is None else _decoded(value) for value in column], pl.String)
    return pl.Series(column.name, [None] * len(column), pl.String)


def _json_row(text: str, line: int) -> _Raw:
    try:
        fields = json_object(text, "")
        if len(fields) > MOST_COLUMNS:
            raise InputError(_many(len(fields)))
        if (text.count('":') + text.count('" :')) > len(fields):
            json.loads(text, object_pairs_hook=_once)
    except InputError as error:
        return _Raw(line, {}, str(error).removeprefix(": "), text.strip())
    return _Raw(line, fields)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f": the key {twice!r} stands there twice; write it once")
    return found


def _cell(value: Any) -> Any:
    """A cell of a spreadsheet, where every number is a fraction, and an empty cell an empty text."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGE:
        return int(value)
    return None if value == "" else value


def _behind_space(text: str, place: int) -> int:
    while text[place : place + 1].isspace():
        place += 1
    return place


def _checked(names: Iterable[str], location: str) -> tuple[str, ...]:
    """The names of columns; `InputError` if there are too many, or two alike."""
    found = tuple(names)
    if len(found) > MOST_COLUMNS:
        raise InputError(f"{location}: {_many(len(found))}")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"{location}: two columns have the name {twice!r}; give each a name of its own")
    return found


def _many(columns: int) -> str:
    return f"{columns:,} columns; a table has at most {MOST_COLUMNS:,}"


def _name(text: str) -> str:
    """The name of a column as it counts."""
    return unicodedata.normalize("NFC", text.strip("\ufeff \t"))


def _holds_a_row(text: str, delimiter: str, fields: int) -> bool:
    """Whether a quoted text goes on over a line that has as many delimiters as a row."""
    return "\n" in text and any(line.count(delimiter) >= fields - 1 for line in text.split("\n"))


def _reader(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
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
