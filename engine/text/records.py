"""The rows of a data set of other authors, one by one, each with its place."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.errors import InputError
from .table import open_table, part_file
from .table_cells import NOT_TEXT
from .table_text import AS_USUAL, PLACE, Form, location
from .text_lines import MISSING, checked_length


class Row(dict[str, Any]):
    """A row as column → value, which is a text or another JSON value; None for an empty cell."""

    def __init__(self, values: Mapping[str, Any], location: str) -> None:
        super().__init__(values)
        self.location = location  # file and line


def records(
    path: Path, texts: Sequence[str] = (), optional: Sequence[str] = (), form: Form = AS_USUAL
) -> Iterator[Row]:
    """The rows of a table. Columns `texts` must hold a text in each row; columns `optional` may, or may be absent.

    The texts of these columns have no white space at their ends.

    Raises InputError if a row cannot be read, or if a text is missing or too long for any model.
    """
    table = open_table(path, form=form)
    named = [*texts, *(name for name in optional if name in table.columns)]
    if named:
        table = table.scan(texts, optional=named[len(texts) :])
    for number, (file, _) in enumerate(table.parts):
        stored = pl.read_parquet(part_file(table.folder, number), glob=False)
        places, cells = stored[PLACE].struct.unnest(), stored.drop(PLACE)
        for (row, line, reason), values in zip(places.iter_rows(), cells.iter_rows(named=True), strict=True):
            found = Row(values, location(table.files[file].name, row, line))
            if reason:
                raise InputError(f"{found.location}: {reason}")
            for name, cell in values.items():
                if cell is None:
                    continue
                if name in named:
                    text = checked_length(cell.strip(), f"{found.location}: {name}")
                    found[name] = None if text in MISSING else text
                elif cell.startswith(NOT_TEXT):
                    found[name] = json.loads(cell[1:])
            yield found
