"""Rows in a file, whole or not at all; the name's ending says how: .parquet, .csv, .tsv, .jsonl, .xlsx."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors

from ...basics.atomic import make_place, write_atomically
from ...basics.errors import InputError, did_you_mean, needs_extra
from ...basics.frames import write_frame
from ...runs.record import RUN_FILE
from ...views.formats import batches
from ...views.to_csv import MARK, csv_rows, without_lists
from ...views.to_json import json_lines

_SHEET_ROWS, _CELL = 1_048_576, 32_767  # what a sheet of .xlsx holds, with its header; characters of a cell
_LOOKED_AT, _WIDEST = 1_000, 80  # rows for the width of a column; characters
_PIECES: Mapping[str, Callable[[pl.LazyFrame], Iterator[str]]] = {
    ".csv": csv_rows,
    ".tsv": lambda rows: csv_rows(rows, "\t"),
    ".jsonl": json_lines,
}


@dataclass(frozen=True)
class RowFile:
    """A file to be written.

    Attributes:
        path: Its ending is one of those above.
        option: How messages call it.
        semicolon: CSV with `;` and decimal commas, as spreadsheets of many countries read it.
        mark: CSV begins with a byte order mark, by which Excel knows UTF-8. R keeps it in the name of the first column.

    Raises InputError for another ending, and for a file of a run.
    """

    path: Path
    option: str = "-o"
    semicolon: bool = False
    mark: bool = True

    def __post_init__(self) -> None:
        known, said = (".parquet", *_PIECES, ".xlsx"), f"{self.option} {self.path}"
        if self.path.suffix not in known:
            hint = did_you_mean(self.path.suffix, known)
            raise InputError(f"{said}: {hint}the name must end in {', '.join(known)}")
        if self.path.exists() and (self.path.parent / RUN_FILE).exists():
            raise InputError(f"{said}: this file belongs to a run; choose another name")
        if self.semicolon and self.path.suffix != ".csv":
            raise InputError(f"{said}: only a .csv file can have semicolons")
        if self.path.suffix == ".xlsx":
            with needs_extra("sheets", f"{said}: a spreadsheet"):
                import xlsxwriter  # noqa: F401 - Polars writes sheets with it

    def write(self, rows: pl.LazyFrame) -> int:
        """Write the rows, batch by batch; returns how many."""
        total: int = rows.select(pl.len()).collect().item()
        if self.path.suffix == ".xlsx" and total >= _SHEET_ROWS:
            most = f"a sheet holds {_SHEET_ROWS - 1:,} rows, and these are {total:,}"
            raise InputError(f"{self.option} {self.path}: {most}; write .csv, or fewer rows with --where")
        make_place(self.path)
        if self.path.suffix == ".parquet":
            write_frame(self.path, rows)
        else:
            write_atomically(self.path, lambda temporary: self._put(rows, temporary))
        return total

    def _put(self, rows: pl.LazyFrame, path: Path) -> None:
        if self.path.suffix == ".xlsx":
            _write_sheet(without_lists(rows), path)
            return
        pieces = csv_rows(rows, ";") if self.semicolon else _PIECES[self.path.suffix](rows)
        with path.open("w", encoding="utf-8", newline="") as stream:
            stream.write(MARK * (self.path.suffix == ".csv" and self.mark))
            stream.writelines(pieces)


def _write_sheet(rows: pl.LazyFrame, path: Path) -> None:
    """Texts stay texts: none is a formula, a number or a link. Longer ones than a cell holds are cut, with `…`."""
    text, number = pl.col(pl.String), selectors.float()
    cut = pl.when(text.str.len_chars() > _CELL).then(text.str.slice(0, _CELL - 1) + "…").otherwise(text)
    rows = rows.with_columns(cut, pl.when(number.is_finite()).then(number))  # a sheet has no other numbers
    import xlsxwriter

    with path.open("wb") as stream, xlsxwriter.Workbook(stream, {"constant_memory": True}) as book:
        book.set_properties({"created": datetime(1980, 1, 1)})  # the same rows have the same bytes
        sheet, schema, n = book.add_worksheet("rows"), rows.collect_schema(), 0
        puts: dict[Any, Callable[..., int]] = {pl.String: sheet.write_string, pl.Boolean: sheet.write_boolean}
        columns = [(at, puts.get(kind, sheet.write_number)) for at, kind in enumerate(schema.dtypes())]
        bold = book.add_format({"bold": True})
        for at, name in enumerate(schema):
            sheet.write_string(0, at, name, bold)
        for n, row in enumerate(chain.from_iterable(batch.iter_rows() for batch in batches(rows)), 1):
            for (at, put), value in zip(columns, row, strict=True):
                if value is not None:
                    put(n, at, value)
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, n, len(schema) - 1)
        for at, width in enumerate(_widths(rows.head(_LOOKED_AT).collect())):
            sheet.set_column(at, at, width)


def _widths(frame: pl.DataFrame) -> list[int]:
    """The widths of columns in characters: of their longest text, within bounds."""
    each = ([len(own.name), *own.drop_nulls().cast(pl.String).str.len_chars()] for own in frame)
    return [min(_WIDEST, 4 + max(lengths)) for lengths in each]  # 4: the button of a heading
