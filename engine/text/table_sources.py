"""The ways into a user's table: CSV, TSV, JSON lines and lists, Parquet, Arrow, spreadsheets, or what is in memory.

A way is one function that gives rows, or columns of many rows, once. `Source.parts` makes texts in columns of them.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile, ZipFile

import polars as pl
import regex
from polars.exceptions import PanicException, PolarsError

from ..basics.errors import InputError, first_line, needs_extra
from ..basics.printable import counted
from ..basics.reading import files_below, is_folder, open_regular, parse_json, paths_in
from .table_cells import EXACT, checked_names, column_of, listed, seen_name
from .table_kinds import (
    ARROW,
    CSV,
    HINT,
    IN_FOLDERS,
    JSON,
    LIST,
    MAYBE,
    PARQUET,
    SHEET,
    SHEET_HINT,
    STREAM,
    TSV,
    bare,
    kind_of,
)
from .text_lines import (
    MOST_TABLE,
    BadLineError,
    Lines,
    each_key_once,
    json_object,
    open_text,
    read_text,
)

PLACE = "\0"  # no column of a user has this name
PLACES = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String}
"""Where a row stands: its number from 1, its line (null outside text files); and why it cannot be used."""
_MOST_LIST = 2**26  # bytes of a JSON list, which is held in memory
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space"}
_FRAME = "the frame"  # what messages call what is in memory
_COMMENT = "a line that begins with # is not a row of a table; remove it"
_VECTORS = "it holds lists or objects without texts"
_ON_A_LINE = "; write one object per line, or a list of them"
_NEXT = regex.compile(r"[\s,]*")
_CSV_ERRORS = {
    "field limit": "a text of more than 131,072 characters, or a double quote that is not closed",
    "unexpected end of data": "a double quote that is not closed",
    "new-line character": "a line end in the middle of the line; save the file as CSV with the usual line ends",
}
# Polars panics at a column of DuckDB's INTERVAL, even an unused one, unless it may take it for something else.
_INTERVALS = json.dumps({"environment": {"POLARS_IMPORT_INTERVAL_AS_STRUCT": "1"}})

Record = tuple[int, Sequence[Any], str | None]  # the line where it begins, its fields, and why it cannot be read
Row = tuple[int | None, Mapping[str, Any] | str]  # the line where it begins; its cells, or why it cannot be read
Batch = tuple[Mapping[str, Any], Sequence[int | None], Sequence[str | None]]  # columns, and of each row line and reason


@dataclass(frozen=True)
class Form:
    """How a text file is written where it is not as the usual programs write it."""

    plain: bool = False  # tabs separate the fields, and quotation marks have no meaning
    encoding: str = ""  # of lines that are not UTF-8
    tidy: Callable[[Sequence[str], list[str]], list[str]] | None = None  # header, fields of a row → its fields


AS_USUAL = Form()


@dataclass(eq=False)
class Source:
    """A file; or what is in memory. Once all is read, it knows its columns and notes."""

    name: str
    data: Any  # its path, a frame of Polars, columns, or a list of dictionaries; None once it is read
    form: Form = AS_USUAL
    sha256: str = ""  # in hex: of a file's bytes, or of the names, types and values in memory
    columns: dict[str, None] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)  # column that cannot be read → why
    notes: list[str] = field(default_factory=list)  # what a person may not have meant

    def parts(self, size: int) -> Iterator[pl.DataFrame]:
        """All rows, so many together, as texts (see `table_cells`), with the column `PLACE`."""
        n = 0
        for columns, lines, reasons in _way(self.data)(self, size):
            places = pl.DataFrame([range(n + 1, n + len(lines) + 1), lines, reasons], PLACES)
            yield pl.DataFrame([places.to_struct(PLACE), *(column_of(name, own) for name, own in columns.items())])
            self.columns |= dict.fromkeys(columns)
            n += len(lines)

    def location(self, row: int, line: int | None) -> str:
        """Where a row stands, for a message."""
        return f"{self.name}, row {row}" if line is None else f"{self.name}:{line}"


def _by_rows(rows: Callable[[Source], Iterator[Row]]) -> Callable[[Source, int], Iterator[Batch]]:
    """A way whose rows come one by one."""

    def batches(source: Source, size: int) -> Iterator[Batch]:
        found = rows(source)
        while some := list(islice(found, size)):
            cells = [{} if isinstance(own, str) else own for _, own in some]
            columns = {name: [own.get(name) for own in cells] for name in dict.fromkeys(chain.from_iterable(cells))}
            yield columns, [line for line, _ in some], [own if isinstance(own, str) else None for _, own in some]

    return batches


def _of_delimited(source: Source, usual: str) -> Iterator[Row]:
    with open_text(source.data) as stream:
        form, lines = source.form, Lines(stream, source.name, encoding=source.form.encoding)
        filled = (line for line in lines if line.strip())
        first = next(filled, "")
        said = first[4:] if first[:4].lower() == "sep=" and len(first) == 5 else ""
        if said:  # a spreadsheet's own line about the delimiter
            first = next(filled, "")
        sign = said if said in _DELIMITERS else "\t" if form.plain else _delimiter(first, usual)
        # `map` goes on after a line that cannot be read; a generator would end there. A space before a double quote is
        # layout, and one before another text is not read anyway.
        every = map("{}\n".format, chain([first], lines))
        split = partial(csv.reader, delimiter=sign, strict=True, skipinitialspace=True)
        records = _each(map(_at_tabs, every) if form.plain else split(every), lines)
        _, header, reason = next(records, (0, [], None))
        if reason or first.startswith("# "):
            raise InputError(f"{lines.location}: {reason or _COMMENT}")
        # An unquoted text with a comma too many looks like a row with a name, so that the header must stand in quotes.
        can_be_named = len(header) > 1 and (first.startswith('"') or sign == "\t") and not form.plain
        if form.tidy:
            records = (
                (line, fields if unread else form.tidy(header, fields), unread) for line, fields, unread in records
            )
        yield from _below(source, header, _records(source, lines, records, len(header), sign, can_be_named), lines.line)


def _at_tabs(line: str) -> list[str]:
    return line.removesuffix("\n").split("\t")


def _delimiter(header: str, usual: str) -> str:
    """What is between fields: the sign that a header has most often, as spreadsheets in many countries write `;`.

    In TSV, a comma stands in a name rather than a tab.
    """
    sign = max(",;\t|", key=lambda own: (own == usual == "\t" in header, header.count(own), own == usual))
    return " " if sign not in header and header.startswith('"') else sign  # a space can stand in a name, too


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
            usual = f"{error}; write a double quote within a quoted text twice"
            reason = next((told for begin, told in _CSV_ERRORS.items() if begin in str(error)), usual)
        yield first, found, reason


def _records(
    source: Source, lines: Lines, records: Iterator[Record], width: int, sign: str, can_be_named: bool
) -> Iterator[Record]:
    """The records that are rows, each without its name if R's `write.table` gave it one, for which no header stands."""
    named, swallowed = None if can_be_named else False, list[int]()
    for first, fields, unread in records:
        if unread:
            yield first, (), unread
            continue
        if not any(fields) or (sign == "|" and not "".join(fields).strip("-: ")):
            continue  # spreadsheets write rows of empty cells below a table, Markdown dashes below a header
        if named is None:
            named = len(fields) == width + 1 and fields[0].isdigit() and fields[-1] != ""
        own = fields[1:] if named else fields
        is_ragged, reason = len(own) != width, None
        if own[:1] and own[0].startswith("#" if is_ragged else "# "):
            reason = _COMMENT
        elif is_ragged:
            more = f"; a text that has a {_DELIMITERS[sign]} must stand in double quotes" if len(own) > width else ""
            reason = f"{counted(len(fields), 'field')}, but the header has {width}{more}"
        elif lines.line > first and any(_holds_a_row(text, sign, len(fields)) for text in own):
            swallowed.append(first)
        yield first, own, reason
    if swallowed:
        more = f" ({len(swallowed):,} such rows)" if len(swallowed) > 1 else ""
        source.notes.append(
            f"line {swallowed[0]}: a text in double quotes goes on over a line that looks like a row of its own{more}"
            "; is a double quote missing, or one too many?"
        )


def _holds_a_row(text: str, sign: str, fields: int) -> bool:
    """Whether a quoted text goes on over a line that has as many delimiters as a row."""
    return "\n" in text and any(line.count(sign) >= fields - 1 for line in text.split("\n"))


def _below(source: Source, header: Sequence[Any], records: Iterable[Record], line: int) -> Iterator[Row]:
    """The rows below a header. R and pandas write a first column without a name, which its position names."""
    seen = [seen_name(own) for own in header]
    names = checked_names([own or f"column {i}" for i, own in enumerate(seen, 1)], f"{source.name}:{line}")
    for place, fields, reason in records:
        if not reason and str(fields[0]).startswith('{"ImportId":'):
            told = "below the names of the columns, Qualtrics has two lines more; remove them"
            raise InputError(f"{source.name}: {told}")
        again = not reason and is_header(seen, fields) and "this row is the header again; remove it"
        yield place, reason or again or dict(zip(names, fields, strict=True))


def is_header(header: Sequence[str], fields: Sequence[Any]) -> bool:
    """Whether a row is the header again, also in other letters, such as capitals."""
    return all(seen_name(cell).lower() == name.lower() for name, cell in zip(header, fields, strict=True))


def _of_json(source: Source) -> Iterator[Row]:
    """One object per line."""
    with open_text(source.data) as stream:
        lines = Lines(stream, source.name, encoding=source.form.encoding)
        for line, text, reason in _each(lines, lines):
            if reason or text.strip():
                yield (line, reason) if reason else _row(text.strip(), line)


def _of_list(source: Source) -> Iterator[Row]:
    """The objects of a JSON list, each with the line where it begins."""
    text, decoder = read_text(source.data, HINT, _MOST_LIST).removesuffix("\n"), json.JSONDecoder()
    place, line = text.index("[") + 1, text.count("\n", 0, text.index("[")) + 1
    for _ in parse_json(text, source.name):  # which refuses a list that is not whole
        begin = _NEXT.match(text, place).end()
        line, (_, place) = line + text.count("\n", place, begin), decoder.raw_decode(text, begin)
        yield _row(text[begin:place], line)
        line += text.count("\n", begin, place)


def _row(given: str | Mapping[Any, Any], line: int | None = None) -> Row:
    """A JSON object or a dictionary, with the names that a person sees, of which no two may be alike."""
    try:
        own = json_object(given, "") if isinstance(given, str) else given
        return line, each_key_once([(seen_name(name), cell) for name, cell in own.items()])
    except InputError as error:
        reason = str(error).removeprefix(": ")
        return line, f"{reason}{_ON_A_LINE if reason.startswith('not JSON') else ''}"


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
        raise InputError(f"{source.name}: not a whole spreadsheet ({first_line(error)}); {SHEET_HINT}") from None
    cells = [[None if cell == "" else _exact(cell) for cell in row] for row in rows]
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
    yield from _below(source, header, ((line, row, None) for line, row in below), line)


def _exact(cell: Any) -> Any:
    """A cell of a spreadsheet, where every number is a fraction, with whole numbers where they are meant."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) <= EXACT else cell


def _of_frame(source: Source, size: int, kind: str = PARQUET) -> Iterator[Batch]:
    """Of Polars, Parquet or Arrow. Vectors are not read: nothing here needs them, and they can be large."""
    try:
        pl.Config.load(_INTERVALS)
        frame = _SCANS[kind](source.data) if isinstance(source.data, Path) else source.data.lazy()
        schema, n = frame.collect_schema(), frame.select(pl.len()).collect().item()
        names = dict(zip(schema, checked_names(schema, source.name), strict=True))
        vectors = [name for name, dtype in schema.items() if dtype.is_nested() and "String" not in str(dtype)]
        source.unreadable |= {names[name]: _VECTORS for name in vectors}
        source.notes.extend(f"the column {names[name]!r} is not read: {_VECTORS}" for name in vectors)
        for start in range(0, n, size):
            part = frame.slice(start, size).with_columns(pl.lit(None).alias(name) for name in vectors).collect()
            yield {own: part[name] for name, own in names.items()}, [None] * len(part), [None] * len(part)
    except (PolarsError, PanicException, OSError, ValueError) as error:
        raise InputError(f"{source.name}: not a whole {kind} file ({first_line(error)}); write it again") from None


def _of_columns(source: Source, size: int) -> Iterator[Batch]:
    for start in range(0, n := max(map(len, source.data.values()), default=0), size):
        nothing = [None] * min(size, n - start)
        yield {name: own[start : start + size] for name, own in source.data.items()}, nothing, nothing


def in_memory(data: Any) -> Source:
    """A frame of Polars, or of a library that makes one; a list of dictionaries, or a dictionary of columns.

    Raises InputError if it is nothing of these.
    """
    if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
        return Source(_FRAME, list(data))
    try:
        if isinstance(data, pl.LazyFrame):
            return Source(_FRAME, data.collect())
        if hasattr(data, "to_polars"):  # such as a data set of the hub
            return Source(_FRAME, data.to_polars())
        if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "iloc"):
            return Source(_FRAME, pl.DataFrame(data))
        if isinstance(data, Mapping) or hasattr(data, "columns"):
            return Source(_FRAME, _columns(data))
    except (PolarsError, PanicException, TypeError, ValueError, ImportError) as error:
        raise InputError(f"the table cannot be read ({first_line(error)}); give a file or a dictionary") from None
    raise InputError(f"a table of type {type(data).__name__}; give a file, a frame or a dictionary of columns")


def _columns(data: Any) -> dict[str, Any]:
    """A dictionary of columns, or a frame of another library."""
    named = [own for own in getattr(getattr(data, "index", None), "names", ()) if own not in {None, *data.columns}]
    data = data.reset_index(level=named) if named else data  # as in the files that pandas writes
    keys = list(getattr(data, "columns", data))
    columns = [data.iloc[:, i] if hasattr(data, "iloc") else data[key] for i, key in enumerate(keys)]
    names = checked_names(keys, _FRAME)
    for name, own in zip(names, columns, strict=True):
        if isinstance(own, str | bytes | set | Mapping) or not hasattr(own, "__len__"):
            raise InputError(f"the column {name!r} of the table is a {type(own).__name__}; give a list of values")
        if len(own) != len(columns[0]):
            more = f"{len(own):,} values, and the first one {len(columns[0]):,}; give one value a row"
            raise InputError(f"the column {name!r} of the table has {more}")
    return {name: own if isinstance(own, pl.Series) else listed(own) for name, own in zip(names, columns, strict=True)}


@contextmanager
def sources_of(path: Path, form: Form) -> Iterator[list[Source]]:
    """A file, or the tables of a folder or of an archive (zip) in the order of their names.

    Hidden files are left out. Raises InputError if no file is a table.
    """
    kind = "folder" if is_folder(path) else "archive" if path.suffix.lower() == ".zip" else ""
    if not kind:
        yield [Source(str(path), path, form)]
        return
    with TemporaryDirectory(prefix="negengine-zip-") as unpacked:
        paths = paths_in(path) if kind == "folder" else _unpacked(path, Path(unpacked))
        shown = [own for own in paths if own.name[0] != "." and not own.name.startswith("~$")]
        found = [own for own in shown if bare(own).suffix.lower() in IN_FOLDERS]
        ending = f"the name of a table in it ends in {', '.join(IN_FOLDERS)}"
        if not found:
            raise InputError(f"{path}: this {kind} does not hold a table; {ending}")
        if twice := [own.name for own, other in pairwise(found) if own.name == other.name]:
            raise InputError(f"{path}: two files have the name {twice[0]!r}; unpack it and give one folder")
        sources = [Source(str(path / own.name), own, form) for own in found]
        left = [own for own in shown if own not in found and (is_folder(own) or bare(own).suffix.lower() in MAYBE)]
        if left:
            sources[0].notes.append(f"not read: {', '.join(own.name for own in left)}; {ending}")
        yield sources


def _unpacked(path: Path, folder: Path) -> list[Path]:
    """The files of an archive, in all its folders, by their names."""
    try:
        with open_regular(path, HINT) as stream, ZipFile(stream) as archive:
            if sum(own.file_size for own in archive.infolist()) > MOST_TABLE:
                raise InputError(f"{path}: more than {MOST_TABLE:,} bytes when it is unpacked; give a smaller archive")
            archive.extractall(folder)
    except (BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise InputError(f"{path}: the archive cannot be unpacked ({first_line(error)}); unpack it yourself") from None
    return sorted(files_below(folder), key=lambda own: own.name)


_SCANS: Mapping[str, Callable[[Path], pl.LazyFrame]] = {
    PARQUET: partial(pl.scan_parquet, glob=False, hive_partitioning=False),
    ARROW: pl.scan_ipc,
    STREAM: lambda path: pl.read_ipc_stream(path, use_pyarrow=False).lazy(),
}
_WAYS: Mapping[str, Callable[[Source, int], Iterator[Batch]]] = {
    CSV: _by_rows(lambda source: _of_delimited(source, ",")),
    TSV: _by_rows(lambda source: _of_delimited(source, "\t")),
    JSON: _by_rows(_of_json),
    LIST: _by_rows(_of_list),
    SHEET: _by_rows(_of_sheet),
    **{kind: partial(_of_frame, kind=kind) for kind in _SCANS},
}


def _way(data: Any) -> Callable[[Source, int], Iterator[Batch]]:
    """How a table is read: by its kind as a file, by its type in memory; `InputError` if it is none."""
    if isinstance(data, Path):
        return _WAYS[kind_of(data)]
    rows = _by_rows(lambda source: map(_row, source.data))
    return rows if isinstance(data, list) else _of_columns if isinstance(data, dict) else _of_frame
