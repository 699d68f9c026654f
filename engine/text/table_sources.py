"""The ways into a user's table: CSV, TSV, JSON lines and lists, Parquet, Arrow, spreadsheets, or what is in memory.

A file has a kind by its first bytes, then by its name. A way is one function that gives rows, or columns of many rows,
once. `parts_of` makes columns of texts of them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile, ZipFile

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ..basics.errors import InputError, first_line, needs_extra
from ..basics.reading import files_below, is_folder, open_regular, paths_in
from .table_cells import EXACT, checked_names, column_of, listed
from .table_text import HINT, PLACE, PLACES, Form, Row, Source, below, location, of_delimited, of_json, of_list, row_of
from .text_lines import BYTE_ORDER_MARK, MOST_TABLE, open_text

SHEET_HINT = "save the sheet as “CSV UTF-8” and give that file"
DIGESTS = "digests.json"  # of the files of a data set: ours, beside them
_FIRST = 4096  # bytes that show what a file is
_ZEROS = 20  # a file with more than one zero byte in so many is not a text
_DOCUMENT = "copy its table into a spreadsheet, and " + SHEET_HINT
_BY_R = 'write.csv({}, "table.csv", row.names = FALSE) makes a CSV of it'
_BY_PANDAS = 'in Python, pandas.{}("FILE").to_parquet("table.parquet") makes a Parquet file of it'
_NO_TABLES: Mapping[tuple[bytes | str, ...], tuple[str, str]] = {
    (b"BZh",): ("packed with bzip2", "unpack it with `bunzip2`"),
    (b"\xfd7zXZ\x00",): ("packed with xz", "unpack it with `unxz`"),
    (b"\x28\xb5\x2f\xfd",): ("packed with Zstandard", "unpack it with `unzstd`"),
    (b"7z\xbc\xaf", b"Rar!"): ("packed with 7-Zip or RAR", "unpack it"),
    (".tar",): ("an archive (tar)", "unpack it, and give its folder"),
    (b"\xff\xfe", b"\xfe\xff"): ("UTF-16 text", "save it as UTF-8"),
    (b"<html", b"<!doctype", b"<table"): ("a page of the web", SHEET_HINT),
    (b"<?xml",): ("XML", SHEET_HINT),
    (b"%PDF",): ("a PDF", _DOCUMENT),
    (b"{\\rtf", ".docx", ".doc", ".odt", ".pages", ".pptx"): ("a document", _DOCUMENT),
    (".numbers",): ("a spreadsheet of Numbers", "export it there as CSV (UTF-8) or as Excel"),
    (b"RDX2\n", b"RDX3\n", b"RDA2\n", b"RDA3\n"): ("data of R", 'in R, load("FILE"); then ' + _BY_R.format("TABLE")),
    (b"X\n\0\0",): ("an object of R", "in R, " + _BY_R.format('readRDS("FILE")')),
    (b"$FL2", b"$FL3"): (
        "a file of SPSS",
        "save it there as CSV in UTF-8, or in R: " + _BY_R.format('haven::read_sav("FILE")'),
    ),
    (b"<stata_dta>", b"r\x01\x01", b"r\x02\x01", b"s\x01\x01", b"s\x02\x01"): (
        "a file of Stata",
        "in Stata, `export delimited` makes a CSV of it; in pandas, read_stata and then to_csv",
    ),
    (".sas7bdat",): ("a file of SAS", _BY_PANDAS.format("read_sas")),
    (b"MATLAB 5.0",): ("data of MATLAB", 'in MATLAB, writetable(TABLE, "table.csv") makes a CSV of a table'),
    (b"\x89HDF",): ("a file of HDF5", _BY_PANDAS.format("read_hdf")),
    (b"FEA1",): ("the first version of Feather", _BY_PANDAS.format("read_feather")),
    (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"): (
        "a pickle of Python, which can run code",
        _BY_PANDAS.format("read_pickle"),
    ),
    (b"\x93NUMPY", ".npz"): (
        "a file of NumPy",
        'in Python, give them names: pandas.DataFrame({"sentence": …}).to_parquet("table.parquet")',
    ),
    (b"SQLite format 3",): ("a database of SQLite", "write the table of it as CSV, as with `sqlite3 -csv -header`"),
    (".yaml", ".yml"): (
        "YAML",
        'in Python, pandas.DataFrame(yaml.safe_load(open("FILE"))).to_csv("table.csv") makes a CSV of a list',
    ),
}
"""First bytes, those of texts in small letters, and endings of names → what else a file is; what its user does."""


class Kind(StrEnum):
    """The kinds of tables, as messages call them."""

    CSV = "CSV"
    TSV = "TSV"
    JSON = "JSON"
    LIST = "JSON list"
    PARQUET = "Parquet"
    ARROW = "Arrow"
    STREAM = "Arrow stream"
    SHEET = "spreadsheet"


_BY_BYTES = {b"PAR1": Kind.PARQUET, b"ARROW1\0": Kind.ARROW, b"\xff\xff\xff\xff": Kind.STREAM}
_BY_BYTES |= {b"PK\x03\x04": Kind.SHEET, b"\xd0\xcf\x11\xe0": Kind.SHEET}
IN_FOLDERS = {".csv": Kind.CSV, ".tsv": Kind.TSV, ".jsonl": Kind.JSON, ".ndjson": Kind.JSON, ".parquet": Kind.PARQUET}
IN_FOLDERS |= {".arrow": Kind.ARROW, ".feather": Kind.ARROW, ".xlsx": Kind.SHEET, ".ods": Kind.SHEET}
_BY_NAME = {**IN_FOLDERS, ".tab": Kind.TSV, ".json": Kind.JSON}
# What can be a table, too; in a folder, other files have such names more often.
MAYBE = {*_BY_NAME, ".txt", ".xls", ".zip", ".rds", ".rdata", ".sav", ".dta", ".pkl", ".numbers"}
_FRAME = "the frame"  # what messages call what is in memory
_VECTORS = "it holds lists or objects without texts"
# Polars panics at a column of DuckDB's INTERVAL, even an unused one, unless it may take it for something else.
_INTERVALS = json.dumps({"environment": {"POLARS_IMPORT_INTERVAL_AS_STRUCT": "1"}})

Batch = tuple[Mapping[str, Any], Sequence[int | None], Sequence[str | None]]  # columns, and of each row line and reason


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
        shown = [own for own in paths if not own.name.startswith((".", "~$")) and own.name != DIGESTS]
        found = [own for own in shown if _is_table(own)]
        ending = f"the name of a table in it ends in {', '.join(IN_FOLDERS)}"
        if not found:
            inner = " or ".join(str(own) for own in shown if kind == "folder" and _holds_tables(own))
            raise InputError(f"{path}: this {kind} does not hold a table; {f'give {inner}' if inner else ending}")
        if twice := [own.name for own, other in pairwise(found) if own.name == other.name]:
            raise InputError(f"{path}: two files have the name {twice[0]!r}; unpack it and give one folder")
        sources = [Source(str(path / own.name), own, form) for own in found]
        left = [own for own in shown if own not in found and (is_folder(own) or bare(own).suffix.lower() in MAYBE)]
        if left:
            sources[0].notes.append(f"not read: {', '.join(own.name for own in left)}; {ending}")
        yield sources


def _is_table(path: Path) -> bool:
    return path.name[0] != "." and bare(path).suffix.lower() in IN_FOLDERS


def _holds_tables(path: Path) -> bool:
    """Whether a path is an archive, or a folder with a table."""
    return path.suffix.lower() == ".zip" or (is_folder(path) and any(map(_is_table, paths_in(path))))


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


def kind_of(path: Path) -> Kind:
    """Which kind of table a file is; InputError if it is none."""
    with open_text(path, HINT) as stream:
        first = stream.read(_FIRST)
    text, ending = first.removeprefix(BYTE_ORDER_MARK).lstrip(), bare(path).suffix.lower()
    if not text:
        raise InputError(f"{path}: the file is empty; {HINT}")
    for signs, (what, remedy) in _NO_TABLES.items():
        begins = tuple(sign for sign in signs if isinstance(sign, bytes))
        if ending in signs or first.startswith(begins) or text.lower().startswith(begins):
            raise InputError(f"{path}: this is {what}; {remedy.replace('FILE', path.name)}")
    found = next((kind for begin, kind in _BY_BYTES.items() if first.startswith(begin)), None)
    if not found and first.count(0) * _ZEROS > len(first):
        raise InputError(f"{path}: this is no text; {HINT}")
    kind = found or _BY_NAME.get(ending, Kind.JSON if text.startswith(b"{") else Kind.CSV)
    if not found and kind in {Kind.PARQUET, Kind.ARROW, Kind.SHEET}:
        raise InputError(f"{path}: no {kind} file, although its name ends in {path.suffix}; {HINT}")
    return Kind.LIST if kind == Kind.JSON and text.startswith(b"[") else kind


def bare(path: Path) -> Path:
    """The name of a file without the ending of its packing."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def parts_of(source: Source, size: int) -> Iterator[pl.DataFrame]:
    """All rows, so many together, as texts (see `table_cells`), with the column `PLACE`; InputError without any."""
    n, refusals = 0, list[str]()
    for columns, lines, reasons in _batches(source, size):
        places = pl.DataFrame([range(n + 1, n + len(lines) + 1), lines, reasons], PLACES)
        yield pl.DataFrame([places.to_struct(PLACE), *(column_of(name, own) for name, own in columns.items())])
        if not columns:  # no row of them can be read
            refusals += [f"{location(source.name, *own)}: {reason}" for *own, reason in places.rows() if reason][:1]
        source.columns |= dict.fromkeys(columns)
        n += len(lines)
    if not source.columns:
        raise InputError(next(iter(refusals), f"{source.name}: there is no row below the names of the columns"))


def _batches(source: Source, size: int) -> Iterator[Batch]:
    """A file by its kind, what is in memory by its type; `InputError` if it is no table."""
    kind = kind_of(source.data) if isinstance(source.data, Path) else None
    if isinstance(source.data, dict):
        for start in range(0, n := max(map(len, source.data.values()), default=0), size):
            nothing = [None] * min(size, n - start)
            yield {name: own[start : start + size] for name, own in source.data.items()}, nothing, nothing
    elif kind in _SCANS or isinstance(source.data, pl.DataFrame):
        yield from _of_frame(source, size, kind)
    else:
        rows = map(row_of, source.data) if kind is None else _ROWS[kind](source)
        while some := list(islice(rows, size)):
            cells = [{} if isinstance(own, str) else own for _, own in some]
            columns = {name: [own.get(name) for own in cells] for name in dict.fromkeys(chain.from_iterable(cells))}
            yield columns, [line for line, _ in some], [own if isinstance(own, str) else None for _, own in some]


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
    (line, header), *others = [(line, [row[place] for place in kept]) for line, row in filled]
    yield from below(source, header, ((line, row, None) for line, row in others), line)


def _exact(cell: Any) -> Any:
    """A cell of a spreadsheet, where every number is a fraction, with whole numbers where they are meant."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) <= EXACT else cell


def _of_frame(source: Source, size: int, kind: Kind | None) -> Iterator[Batch]:
    """Of Polars, Parquet or Arrow. Vectors are not read: nothing here needs them, and they can be large."""
    try:
        pl.Config.load(_INTERVALS)
        frame = _SCANS[kind](source.data) if kind else source.data.lazy()
        schema, n = frame.collect_schema(), frame.select(pl.len()).collect().item()
        names = dict(zip(schema, checked_names(schema, source.name), strict=True))
        vectors = [name for name, dtype in schema.items() if dtype.is_nested() and "String" not in str(dtype)]
        source.unreadable |= {names[name]: _VECTORS for name in vectors}
        source.notes.extend(f"the column {names[name]!r} is not read: {_VECTORS}" for name in vectors)
        for start in range(0, n, size):
            part = frame.slice(start, size).with_columns(pl.lit(None).alias(name) for name in vectors).collect()
            yield {own: part[name] for name, own in names.items()}, [None] * len(part), [None] * len(part)
    except (PolarsError, PanicException, OSError, ValueError) as error:
        what = f"{kind} file" if kind else "frame"
        raise InputError(f"{source.name}: not a whole {what} ({first_line(error)}); write it again") from None


def in_memory(data: Any) -> Source:
    """A source of a frame, of what becomes one, of dictionaries, or of columns; InputError for any other type."""
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


_SCANS: Mapping[Kind | None, Callable[[Path], pl.LazyFrame]] = {
    Kind.PARQUET: partial(pl.scan_parquet, glob=False, hive_partitioning=False),
    Kind.ARROW: pl.scan_ipc,
    Kind.STREAM: lambda path: pl.read_ipc_stream(path, use_pyarrow=False).lazy(),
}
_ROWS: Mapping[Kind, Callable[[Source], Iterator[Row]]] = {
    Kind.CSV: partial(of_delimited, usual=","),
    Kind.TSV: partial(of_delimited, usual="\t"),
    Kind.JSON: of_json,
    Kind.LIST: of_list,
    Kind.SHEET: _of_sheet,
}
