"""Rows in a file, whole or not at all; the name's ending says how: .parquet, .csv, .tsv, .jsonl, .xlsx."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl
from polars import selectors

from ...basics.atomic import make_place, write_atomically
from ...basics.errors import InputError, did_you_mean, needs_extra
from ...basics.frames import write_frame
from ...runs.record import RUN_FILE
from ...views.to_csv import MARK, csv_rows, without_lists
from ...views.to_json import json_lines

_SHEET_ROWS, _CELL = 1_048_576, 32_767  # what a sheet of .xlsx holds, with its header; characters of a cell
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
        """Write the rows, batch by batch but for sheets; returns how many."""
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
            _write_sheet(without_lists(rows).collect(engine="streaming"), path)
            return
        pieces = csv_rows(rows, ";") if self.semicolon else _PIECES[self.path.suffix](rows)
        with path.open("w", encoding="utf-8", newline="") as stream:
            stream.write(MARK * (self.path.suffix == ".csv" and self.mark))
            stream.writelines(pieces)


def _write_sheet(frame: pl.DataFrame, path: Path) -> None:
    """Texts stay texts: none is a formula, a number or a link. Longer ones than a cell holds are cut, with `…`."""
    long = pl.col(pl.String).str.len_chars() > _CELL
    cut = frame.with_columns(
        pl.when(long).then(pl.col(pl.String).str.slice(0, _CELL - 1) + "…").otherwise(pl.col(pl.String))
    )
    import xlsxwriter

    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with path.open("wb") as stream, xlsxwriter.Workbook(stream, options) as book:
        book.set_properties({"created": datetime(1980, 1, 1)})  # the same rows have the same bytes
        cut.write_excel(book, "rows", autofit=len(cut) <= 1_000, column_formats={selectors.numeric(): "General"})
