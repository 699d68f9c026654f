"""The rows of a data set of other authors, one by one, each with its place."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.errors import InputError
from .table import open_table, part_file
from .table_cells import NOT_TEXT
from .table_sources import AS_USUAL, PLACE, Form
from .text_lines import MISSING, checked_length

_NUMBER = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Row:
    """A row of a table: texts, JSON values where they are not, and None where nothing stands."""

    fields: dict[str, Any]
    location: str

    def text(self, name: str) -> str:
        """A field without outer white space; InputError if it is missing, no text, or too long for any model."""
        value = self.fields.get(name)
        if not isinstance(value, str) or self.lacks(name):
            found = "is missing" if value is None else f"is {value!r}"
            found += ", a missing value" if isinstance(value, str) and value.strip() else ""
            raise InputError(f"{self.location}: {name} {found}; a text is needed")
        return checked_length(value.strip(), f"{self.location}: {name}")

    def lacks(self, name: str) -> bool:
        """Whether no value stands in a field."""
        value = self.fields.get(name)
        return value is None or (isinstance(value, str) and value.strip() in MISSING)

    def number(self, name: str) -> float:
        text = self.text(name)
        if not _NUMBER.fullmatch(text):
            raise InputError(f"{self.location}: {name} is {self.fields[name]!r}; a number is needed")
        return float(text)


def records(path: Path, texts: Sequence[str] = (), form: Form = AS_USUAL) -> Iterator[Row]:
    """The rows of a table, of which the columns `texts` hold a text in each; InputError: one does not."""
    table = open_table(path, form=form).scan(texts)
    for number, (file, _) in enumerate(table.parts):
        stored = pl.read_parquet(part_file(table.folder, number), glob=False)
        places, cells = stored[PLACE].struct.unnest(), stored.drop(PLACE)
        for (row, line, _), values in zip(places.iter_rows(), cells.iter_rows(named=True), strict=True):
            fields = {name: _value(cell) for name, cell in values.items()}
            yield Row(fields, table.files[file].location(row, line))


def _value(cell: str | None) -> Any:
    return json.loads(cell[1:]) if cell and cell.startswith(NOT_TEXT) else cell
