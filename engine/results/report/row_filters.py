"""Which rows are wanted, and in which order: `--where COLUMN=VALUE`, `--where 'rank>5'`, `--sort COLUMN`."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import polars as pl

from ...basics.errors import InputError, did_you_mean
from ...basics.frames import literal

_MOST_LISTED = 12


def holds(column: pl.Expr, text: str) -> pl.Expr:
    """Whether texts hold another one, in lower or upper case."""
    return column.str.contains(f"(?i){pl.escape_regex(text)}")


_COMPARED: Mapping[str, Callable[[pl.Expr, Any], pl.Expr]] = {
    "!=": lambda column, value: column.ne_missing(value),
    ">=": pl.Expr.ge,
    "<=": pl.Expr.le,
    ">": pl.Expr.gt,
    "<": pl.Expr.lt,
    "~": holds,
}
SIGNS = ("=", *_COMPARED)
_SIGNS = re.compile("|".join(sorted(SIGNS, key=len, reverse=True)))


class Filter(NamedTuple):
    """What the rows must have in one column: `~` for a text that holds the value, in lower or upper case."""

    column: str
    sign: Literal["=", "!=", "<", "<=", ">", ">=", "~"]
    value: str

    @classmethod
    def parse(cls, text: str, columns: Sequence[str], option: str = "--where") -> "Filter":
        """What a person writes as COLUMN=VALUE. A sign may be in a column's name: the longest known name counts."""
        found = [(literal(text[: at.start()]), at[0], text[at.end() :]) for at in _SIGNS.finditer(text) if at.start()]
        if not found:
            raise InputError(f"{option} {text}: give COLUMN=VALUE, such as gender=f, or 'rank>5'")
        return cls(*max((own for own in found if own[0] in columns), key=lambda own: len(own[0]), default=found[0]))  # type: ignore[arg-type]  # a sign


class Sorting(NamedTuple):
    """By which column rows are sorted, the smallest first, or the largest."""

    column: str
    descending: bool = False

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> "Sorting":
        """What a person writes as COLUMN, or as -COLUMN for the largest first; a column's own name comes before."""
        descends = text.startswith("-") and text not in columns
        return cls(literal(text[descends:]), descends)


def filtered(rows: pl.LazyFrame, wanted: Sequence[Filter], place: object, option: str = "--where") -> pl.LazyFrame:
    """The rows that all filters let through; `place` is what messages say of them, such as the run's folder.

    Raises InputError for a column or a value that the rows do not have.
    """
    schema = rows.collect_schema()
    found = conditions(schema, wanted, place, option)
    for one in wanted:
        if one.sign == "=" and schema[one.column] in (pl.String, pl.List(pl.String)):
            _known_value(rows, one, place, option)
    return rows.filter(*found) if found else rows


def conditions(schema: pl.Schema, wanted: Sequence[Filter], place: object, option: str = "--where") -> list[pl.Expr]:
    """What rows of these columns must be: of several values of one column with `=`, they must have one.

    Raises InputError for a column that they do not have, or a value of another type.
    """
    equal: dict[str, list[pl.Expr]] = {}
    others = list[pl.Expr]()
    for one in wanted:
        own = _condition(schema, one, place, option)
        (equal.setdefault(one.column, []) if one.sign == "=" else others).append(own)
    return [*map(pl.any_horizontal, equal.values()), *others]


def ordered(rows: pl.LazyFrame, by: Sorting, place: object, option: str = "--sort") -> pl.LazyFrame:
    """The rows in an order; those without a value in its column are the last."""
    known(by.column, rows.collect_schema().names(), f"{option} {by.column}", place)
    return rows.sort(by.column, descending=by.descending, nulls_last=True, maintain_order=True)


def known(name: str, names: Sequence[str], said: str, place: object) -> None:
    """Raises InputError if rows with these columns do not have this one; `said` is what asks for it."""
    if name not in names:
        hint = did_you_mean(name, names) or f"its columns are {', '.join(names)}"
        raise InputError(f"{said}: the sentences of {place} have no such column: {hint}".rstrip())


def _known_value(rows: pl.LazyFrame, wanted: Filter, place: object, option: str) -> None:
    words = pl.col(wanted.column).explode() if rows.collect_schema()[wanted.column] == pl.List else wanted.column
    known = rows.select(words).unique(maintain_order=True).drop_nulls().collect().to_series().to_list()
    if wanted.value not in known:
        near = did_you_mean(wanted.value, known)
        few, more = known[:_MOST_LISTED], ", …" * (len(known) > _MOST_LISTED)
        hint = near if near and more else f"{near}It has {', '.join(few)}{more}"
        raise InputError(f"{option} {''.join(wanted)}: {place} does not have it: {hint}".rstrip())


def _condition(schema: pl.Schema, wanted: Filter, place: object, option: str) -> pl.Expr:
    name, sign, text = wanted
    said, value = f"{option} {''.join(wanted)}", cast("Any", text)
    known(name, schema.names(), said, place)
    column, kind = pl.col(name), schema[name]
    if sign == "~":
        if kind != pl.String:
            raise InputError(f"{said}: {name} is not a text; give =, <, or >")
        return _COMPARED["~"](column, value)
    if kind == pl.Boolean:
        if text not in {"true", "false"}:
            raise InputError(f"{said}: give true or false")
        value = text == "true"
    elif kind.is_numeric():
        try:
            column, value = column.cast(pl.Float64), float(text)
        except ValueError:
            raise InputError(f"{said}: give a number") from None
    if kind == pl.List(pl.String):  # several words in one cell
        if sign not in {"=", "!="}:
            raise InputError(f"{said}: {name} is a list; give = or !=")
        has = column.list.contains(value)
        return has if sign == "=" else ~has.fill_null(value=False)
    return column == value if sign == "=" else _COMPARED[sign](column, value)
