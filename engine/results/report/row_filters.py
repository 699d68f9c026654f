"""Which rows are wanted, and in which order: `--where COLUMN=VALUE`, `--where 'rank>5'`, `--sort COLUMN`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...basics.errors import InputError, did_you_mean

_MOST_LISTED = 12
_COMPARED: Mapping[str, Callable[[pl.Expr, Any], pl.Expr]] = {
    "!=": lambda column, value: column.ne_missing(value),
    ">=": pl.Expr.ge,
    "<=": pl.Expr.le,
    ">": pl.Expr.gt,
    "<": pl.Expr.lt,
    "~": lambda column, value: column.str.to_lowercase().str.contains(value.lower(), literal=True),
}
_SIGNS = re.compile(r"!=|>=|<=|=|>|<|~")


@dataclass(frozen=True)
class Filter:
    """What the rows must have in one column.

    Attributes:
        column: Its name.
        sign: `=`, `!=`, `<`, `<=`, `>`, `>=`, or `~`: the text holds the value, in lower or upper case.
        values: A row must have one of them; several for `=` alone.
        option: How messages name it.
    """

    column: str
    sign: str
    values: Sequence[str]
    option: str = "--where"

    @classmethod
    def parse(cls, texts: Sequence[str], columns: Sequence[str], option: str = "--where") -> "list[Filter]":
        """The filters of `--where`; of several values of one column, a row must have one.

        A sign may stand in the name of a column: the longest name that is a column counts.
        """
        equal: dict[str, list[str]] = {}
        others = []
        for text in texts:
            splits = [(text[: at.start()], at[0], text[at.end() :]) for at in _SIGNS.finditer(text) if at.start()]
            if not splits:
                raise InputError(f"{option} {text}: give COLUMN=VALUE, such as gender=f, or 'rank>5'")
            column, sign, value = max(
                (own for own in splits if own[0] in columns), key=lambda own: len(own[0]), default=splits[0]
            )
            if sign == "=":
                equal.setdefault(column, []).append(value)
            else:
                others.append(cls(column, sign, [value], option))
        return [*(cls(column, "=", values, option) for column, values in equal.items()), *others]

    def said(self, value: str) -> str:
        return f"{self.option} {self.column}{self.sign}{value}"


def filtered(rows: pl.LazyFrame, wanted: Sequence[str], place: object, option: str = "--where") -> pl.LazyFrame:
    """The rows that all filters let through; `place` is what messages say of them, such as the run's folder.

    Raises InputError for a column or a value that the rows do not have.
    """
    schema = rows.collect_schema()
    found = conditions(schema, wanted, place, option)
    for one in Filter.parse(wanted, schema.names(), option):
        if one.sign == "=" and schema[one.column] in (pl.String, pl.List(pl.String)):
            _known_values(rows, one, place)
    return rows.filter(*found) if found else rows


def conditions(schema: pl.Schema, wanted: Sequence[str], place: object, option: str = "--where") -> list[pl.Expr]:
    """What rows of these columns must be; InputError for a column that they do not have, or a value of another type."""
    return [_condition(schema, one, place) for one in Filter.parse(wanted, schema.names(), option)]


def ordered(rows: pl.LazyFrame, column: str, place: object, option: str = "--sort") -> pl.LazyFrame:
    """The rows by a column, the smallest first; the largest first with `-COLUMN`. Rows without a value are the last."""
    name, descending = sorted_by(column, rows.collect_schema().names(), place, option)
    return rows.sort(name, descending=descending, nulls_last=True, maintain_order=True)


def sorted_by(column: str, names: Sequence[str], place: object, option: str = "--sort") -> tuple[str, bool]:
    """The column that `COLUMN` or `-COLUMN` means, and whether the largest is first; InputError without such a one."""
    descending = column not in names and column.startswith("-")
    name = column.removeprefix("-") if descending else column
    _known(name, names, f"{option} {column}", place)
    return name, descending


def _known(name: str, names: Sequence[str], said: str, place: object) -> None:
    if name not in names:
        hint = did_you_mean(name, names) or f"its columns are {', '.join(names)}"
        raise InputError(f"{said}: the sentences of {place} have no such column: {hint}".rstrip())


def _known_values(rows: pl.LazyFrame, wanted: Filter, place: object) -> None:
    words = pl.col(wanted.column).explode() if rows.collect_schema()[wanted.column] == pl.List else wanted.column
    known = rows.select(words).unique(maintain_order=True).drop_nulls().collect().to_series().to_list()
    for value in wanted.values:
        if value not in known:
            near = did_you_mean(value, known)
            few, more = known[:_MOST_LISTED], ", …" * (len(known) > _MOST_LISTED)
            hint = near if near and more else f"{near}It has {', '.join(few)}{more}"
            raise InputError(f"{wanted.said(value)}: {place} does not have it: {hint}".rstrip())


def _condition(schema: pl.Schema, wanted: Filter, place: object) -> pl.Expr:
    _known(wanted.column, schema.names(), wanted.said(wanted.values[0]), place)
    column, kind = pl.col(wanted.column), schema[wanted.column]
    if wanted.sign == "~":
        if kind != pl.String:
            raise InputError(f"{wanted.said(wanted.values[0])}: {wanted.column} is not a text; give =, <, or >")
        return _COMPARED["~"](column, wanted.values[0])
    if kind == pl.Boolean:
        if wrong := [value for value in wanted.values if value not in {"true", "false"}]:
            raise InputError(f"{wanted.said(wrong[0])}: give true or false")
        values: list[Any] = [value == "true" for value in wanted.values]
    elif kind.is_numeric():
        column, values = column.cast(pl.Float64), [_number(wanted, value) for value in wanted.values]
    else:
        values = list(wanted.values)
    if wanted.sign != "=":
        return _COMPARED[wanted.sign](column, values[0])
    if kind == pl.List(pl.String):  # several words in one cell
        return pl.any_horizontal(column.list.contains(value) for value in values)
    return column.is_in(values)


def _number(wanted: Filter, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{wanted.said(value)}: give a number") from None
