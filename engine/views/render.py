"""Tables as text, in one place for every command: terminal, JSON, CSV, Markdown, LaTeX.

Formats for people (table, markdown, latex) show one cell for each column of the table. Formats for machines (json,
csv) give the frame: every figure in full and in a column of its own, the published ones among them, not scaled and
not rounded.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ..choices import Format
from ..printable import json_safe, printable
from .cells import cells, is_text, with_unit
from .html import to_html
from .table import Column, Table
from .terminal import WIDTH, to_rich, to_terminal

__all__ = ["Format", "flat", "render", "to_documents", "to_html", "to_rich"]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$])")
_PERCENT = {"%", "percentage points"}


def render(tables: Sequence[Table], form: Format, *, width: int = WIDTH) -> str:
    """Tables as text that ends with a line break; empty without tables.

    Args:
        tables: one after the other.
        form: table (frames, for terminals), json (see `to_documents`), csv (see below), markdown (pipe tables) or
            latex (booktabs).
        width: columns of the terminal; for `table` alone.

    Several tables as CSV are one rectangle, as R and pandas read a file in one call: a first column `table` has the
    titles, and a column that a table does not have is empty in its rows. One table is written without that column.
    """
    match form:
        case Format.TABLE:
            return to_terminal(tables, width)
        case Format.JSON:
            return json_safe(json.dumps(to_documents(tables), ensure_ascii=False, indent=2)) + "\n"
        case Format.CSV:
            return _csv(tables)
        case Format.MARKDOWN:
            return "\n".join(map(_markdown, tables))
        case Format.LATEX:
            from .latex import to_latex

            return to_latex(tables) + "\n" if tables else ""


def to_documents(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """The tables as JSON values: title, units (of the frame's columns), rows and notes.

    A fraction that people read as percent is a fraction here, and its unit says so. Figures that are not finite are
    null.
    """
    return [
        {
            "title": table.title,
            "units": _units(table.columns),
            "rows": [_plain(row) for row in table.figures.iter_rows(named=True)],
            "notes": list(table.notes),
        }
        for table in tables
    ]


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without nested columns, so that it can be written as CSV.

    The fields of a struct become columns `column.field`; a list becomes one text, a JSON array.
    """
    while nested := [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]:
        frame = frame.select(*(part for name in frame.columns for part in _fields(frame, name, nested)))
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List | pl.Array)]
    return frame.with_columns(
        pl.Series(name, [_array(value) for value in frame[name].to_list()], dtype=pl.String) for name in lists
    )


def _csv(tables: Sequence[Table]) -> str:
    frames = [flat(table.figures) for table in tables]
    if len(frames) > 1:
        titled = zip(frames, tables, strict=True)
        frames = [frame.select(pl.lit(table.title).alias("table"), pl.all()) for frame, table in titled]
    return pl.concat(frames, how="diagonal_relaxed").write_csv() if frames else ""


def _markdown(table: Table) -> str:
    from tabulate import tabulate

    body = tabulate(
        [[_markdown_text(text) for text in row] for row in cells(table)],
        headers=[_markdown_text(with_unit(column)) for column in table.columns],
        tablefmt="pipe",
        colalign=["left" if is_text(column, table) else "right" for column in table.columns],
        disable_numparse=True,
    )
    notes = [f"\n{_markdown_text(printable(note))}\n" for note in table.notes]
    return "".join([f"**{_markdown_text(printable(table.title))}**\n\n", body, "\n", *notes])


def _markdown_text(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _units(columns: Sequence[Column]) -> dict[str, str]:
    """Column of the frame → unit of its figures as they are in the frame."""
    units = {}
    for column in columns:
        if column.scale == 1:
            unit = column.unit
        else:
            unit = "fraction" if column.scale == 100 and column.unit in _PERCENT else ""
        units.update({name: unit for name in column.figures if unit})
    return units


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _array(value: Any) -> str | None:
    return None if value is None else json.dumps(_plain(value), ensure_ascii=False)


def _fields(frame: pl.DataFrame, name: str, nested: Sequence[str]) -> list[pl.Expr]:
    if name not in nested:
        return [pl.col(name)]
    kind = frame.schema[name]
    fields = kind.fields if isinstance(kind, pl.Struct) else []
    return [pl.col(name).struct.field(field.name).alias(f"{name}.{field.name}") for field in fields]
