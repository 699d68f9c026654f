"""The text of one cell of a table: figures with their digits, intervals and signs."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from ..basics.numerals import HUNDREDTHS, NAMED, fixed, significant
from ..basics.printable import printable
from .table import Column, Table


def cells(table: Table) -> list[list[str]]:
    """The text of every cell, row by row, without line breaks or characters that control a terminal."""
    return [[" ".join(parts) for parts in row] for row in cell_parts(table)]


def cell_parts(table: Table) -> list[list[list[str]]]:
    """The figures of every cell, row by row: those that stand beside each other, such as a value and its interval."""
    return [
        [[printable(part) for part in _parts(column, row, table.texts)] for column in table.columns]
        for row in table.frame.iter_rows(named=True)
    ]


def is_text(column: Column, table: Table) -> bool:
    """Whether the column holds words, which stand at its left; figures stand at its right."""
    if column.value is None:
        return False
    kind = table.frame.schema[column.value]
    return not (kind.is_numeric() or kind == pl.Null)


def section_ends(table: Table) -> list[bool]:
    """For every row, whether a line is drawn below it; never below the last row."""
    if table.section is None or table.frame.is_empty():
        return [False] * len(table.frame)
    values = table.frame[table.section].to_list()
    return [*(one != other for one, other in pairwise(values)), False]


def with_unit(column: Column) -> str:
    """The heading, with the unit in brackets where no heading, figure or value beside an interval has it."""
    heading, unit = printable(column.heading), column.unit if column.value else ""
    return heading if unit in heading or unit == column.suffix else f"{heading} ({unit})".strip()


def _parts(column: Column, row: Mapping[str, Any], texts: Mapping[str, str]) -> list[str]:
    def figure(name: str | None) -> str:
        return "" if name is None else _figure(column, row, name, texts)

    value, low, high, beside = (figure(name) for name in (column.value, column.low, column.high, column.beside))
    parts = []
    if value:
        about = "≈ " if column.approximate is not None and row[column.approximate] else ""
        parts.append(f"{about}{value}{column.suffix}")
    if spread := figure(column.spread):
        parts.append(f"± {spread}")
    if low and high:
        form = column.interval or ("{low} to {high}" if column.value is None else "[{low}, {high}]")
        parts.append(form.format(low=low, high=high))
    if beside:
        parts.append(f"({beside})")
    if column.p is not None and (p := row[column.p]) is not None:
        parts.append("p < 0.001" if p < 0.001 else f"p = {fixed(p, 3, [NAMED])}")
    return parts


def _figure(column: Column, row: Mapping[str, Any], name: str, texts: Mapping[str, str]) -> str:
    if name in texts and (instead := row[texts[name]]) is not None:
        return str(instead)
    value = row[name]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return column.truths[0 if value else 1]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    if not isinstance(value, int | float):
        return str(value)
    scale = row[column.scale] if isinstance(column.scale, str) else column.scale
    value = value if scale == 1 else scale * value
    sign = "+" if column.signed else ""
    if column.significant is not None:
        return significant(value, column.significant, sign=sign)
    decimals = row[column.decimals] if isinstance(column.decimals, str) else column.decimals
    if decimals is None:
        return f"{value + 0:{sign},}"  # no negative zero
    limits = (-100, 0, 100) if column.unit in HUNDREDTHS or scale == 100 else (0,) if column.signed else ()
    return fixed(value, decimals, limits, sign)
