"""Tables as CSV; several are one rectangle, as R and pandas read it, with the titles in a first column `table`."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from .formats import ROWS_AT_ONCE, Format, batches
from .labels import numbered
from .table import Table
from .to_json import json_text

MARK = "\ufeff"  # by which a spreadsheet knows that a CSV file is UTF-8


def csv_rows(rows: pl.LazyFrame, separator: str = ",", *, at_once: int = ROWS_AT_ONCE) -> Iterator[str]:
    """The rows with a header, in pieces of at most so many rows; with `;` numbers have a decimal comma."""
    how: dict[str, Any] = {"separator": separator, "decimal_comma": separator == ";"}
    rows = without_lists(rows)
    yield pl.DataFrame(schema=rows.collect_schema()).write_csv(**how)
    for batch in batches(rows, at_once):
        yield batch.write_csv(**how, include_header=False)


def without_lists(rows: pl.LazyFrame) -> pl.LazyFrame:
    r"""Lists of words as one text each, with `|` between the words; in a word, `|` and `\` have `\` before them."""
    lists = [name for name, kind in rows.collect_schema().items() if kind == pl.List(pl.String)]
    words = pl.element().str.replace_all(r"([\\|])", r"\$1")
    return rows.with_columns(pl.col(name).list.eval(words).list.join("|", ignore_nulls=True) for name in lists)


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """No nested columns, for CSV: fields of a struct are columns `column.field`, a list is one text, a JSON array."""
    while nested := [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]:
        frame = frame.with_columns(pl.col(name).name.prefix_fields(f"{name}.") for name in nested).unnest(nested)
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List | pl.Array)]
    return frame.with_columns(
        pl.Series(name, [json_text(value) for value in frame[name].to_list()], dtype=pl.String) for name in lists
    )


def _with_remarks(table: Table) -> pl.DataFrame:
    """The figures, with the remarks in the first row of a last column, if there are any."""
    frame = flat(table.figures)
    if not table.remarks or frame.is_empty():
        return frame
    name = numbered([*frame.columns, "remarks"])[-1]
    said = pl.Series(name, [" ".join(table.remarks), *[None] * (len(frame) - 1)], dtype=pl.String)
    return frame.with_columns(said)


def _csv(tables: Sequence[Table], _: int) -> str:
    frames = [_with_remarks(table) for table in tables]
    if len(frames) > 1:
        name = numbered([*dict.fromkeys(own for frame in frames for own in frame.columns), "table"])[-1]
        titled = zip(frames, tables, strict=True)
        frames = [frame.select(pl.lit(table.title).alias(name), pl.all()) for frame, table in titled]
    return pl.concat(frames, how="diagonal_relaxed").write_csv() if frames else ""


FORMAT = Format(_csv, lambda _, rows: csv_rows(rows))
