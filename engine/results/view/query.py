"""What the page asks, as JSON, and which rows of a frame are meant."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Literal

import polars as pl
from msgspec import Meta

from ...basics.errors import InputError
from ..report.row_filters import holds

_Count = Annotated[int, Meta(ge=0)]
_Signs = Mapping[str, Callable[..., pl.Expr]]
_OF_ALL: _Signs = {"=": pl.Expr.eq, "null": lambda own: own.cast(pl.String).fill_null("") == ""}
_OF_NUMBERS: _Signs = {
    "<": pl.Expr.lt,
    "<=": pl.Expr.le,
    ">": pl.Expr.gt,
    ">=": pl.Expr.ge,
    "between": lambda own, one, other: own.is_between(min(one, other), max(one, other)),
}
_OF_TEXTS: _Signs = {
    "contains": holds,
    "starts": lambda own, text: own.str.contains(f"(?i)^{pl.escape_regex(text)}"),
    "ends": lambda own, text: own.str.contains(f"(?i){pl.escape_regex(text)}$"),
}
_VALUES = {"null": 0, "between": 2}  # and one of the others


@dataclass(frozen=True)
class Criterion:
    """A condition of SearchBuilder, whose column is a number, or a group of conditions."""

    criteria: tuple["Criterion", ...] = ()
    logic: Literal["AND", "OR"] = "AND"
    origData: str = ""  # noqa: N815 - SearchBuilder's name for a column
    condition: str | None = None
    value: tuple[str, ...] = ()

    def expression(self, columns: Sequence[pl.Expr], schema: pl.Schema) -> pl.Expr | None:
        """Whether a row is meant; None while the condition is not written to its end."""
        if self.condition is None:
            found = [own for one in self.criteria if (own := one.expression(columns, schema)) is not None]
            return reduce(operator.and_ if self.logic == "AND" else operator.or_, found) if found else None
        column, sign = find(columns, self.origData), self.condition.removeprefix("!")
        name, values = column.meta.output_name(), list[Any](self.value)
        is_number = schema[name].is_numeric()
        if sign not in (signs := {**_OF_ALL, **(_OF_NUMBERS if is_number else _OF_TEXTS)}):
            raise InputError(f"{name} has {'numbers' if is_number else 'texts'}, and no condition {self.condition}")
        if len(values) != _VALUES.get(sign, 1) or "" in values:
            return None
        if is_number:
            try:
                column, values = column.cast(pl.Float64), [float(value) for value in values]
            except ValueError:
                raise InputError(f"{name}: {' '.join(values)} is not a number") from None
        holds_true = signs[sign](column, *values).fill_null(value=False)
        return holds_true if sign == self.condition else ~holds_true


@dataclass(frozen=True)
class Query:
    """Which rows are wanted, in which order (a column, and its direction), and which of them are shown."""

    filters: Criterion = Criterion()
    order: tuple[tuple[_Count, Literal["asc", "desc"]], ...] = ()
    start: _Count = 0
    length: _Count = 0
    draw: int = 0


def find(columns: Sequence[pl.Expr], number: str) -> pl.Expr:
    """The column of this number; InputError if there is none."""
    if number not in map(str, range(len(columns))):
        raise InputError(f"no column {number}")
    return columns[int(number)]
