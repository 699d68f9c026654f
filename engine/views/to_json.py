"""Tables as JSON: title, units, rows and notes; percent are fractions, and figures that are not finite are null."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from ..basics.numerals import FRACTION, PERCENT, POINTS
from ..basics.printable import json_safe
from .formats import ROWS_AT_ONCE, Format, batches
from .table import Table


def json_lines(rows: pl.LazyFrame, *, at_once: int = ROWS_AT_ONCE) -> Iterator[str]:
    """The rows, one line each, in pieces of at most so many rows."""
    for batch in batches(rows, at_once):
        yield batch.write_ndjson()


def json_array(rows: pl.LazyFrame, *, at_once: int = ROWS_AT_ONCE) -> Iterator[str]:
    """The rows as one array, in pieces of at most so many rows; safe to print."""
    before = "[\n"
    for lines in json_lines(rows, at_once=at_once):
        yield json_safe(before + lines.rstrip("\n").replace("\n", ",\n"))
        before = ",\n"
    yield "\n]" if before == ",\n" else "[]"


def json_text(value: Any) -> str | None:
    """A value of a frame as JSON; None for a null."""
    return None if value is None else json.dumps(_plain(value), ensure_ascii=False)


def _json(tables: Sequence[Table], _: int) -> str:
    documents = []
    for table in tables:
        units = {}  # of the frame's columns, as the figures are there
        for column in table.columns:
            unit = column.unit
            if column.scale != 1:
                unit = FRACTION if column.unit in {PERCENT, POINTS} else ""
            units.update({name: unit for name in column.figures if unit})
        rows = [_plain(row) for row in table.figures.iter_rows(named=True)]
        documents.append({"title": table.title, "units": units, "rows": rows, "notes": table.sentences})
    return json_safe(json.dumps(documents, ensure_ascii=False, indent=2)) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # a zero has no sign
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _stream(title: str, rows: pl.LazyFrame) -> Iterator[str]:
    """One table with these rows, as `_json` writes it."""
    yield f'[{{"title": {json.dumps(title)}, "units": {{}}, "rows": '
    yield from json_array(rows)
    yield ', "notes": []}]\n'


FORMAT = Format(_json, _stream)
