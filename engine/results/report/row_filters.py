"""Which rows are wanted, and in which order: `--where COLUMN=VALUE`, `--where 'rank>5'`, `--sort COLUMN`."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import polars as pl

from ...basics.errors import InputError, did_you_mean
from ...basics.frames import literal

_MOST_LISTED = 12


def holds(column: pl.Expr, text: str) -> pl.Expr:
    """Whether texts hold another one, in lower or upper case."""
    return column.str.contains(f"(?i){pl.escape_regex(text)}")


_COMPARED: Mapping[str, Callable[[pl.Expr, Any], pl.Expr]] = {
    "=": pl.Expr.eq,
    "!=": pl.Expr.ne_missing,
    ">=": pl.Expr.ge,
    "<=": pl.Expr.le,
    ">": pl.Expr.gt,
    "<": pl.Expr.lt,
    "~": holds,
}
_SIGNS = re.compile("|".join(sorted(_COMPARED, key=len, reverse=True)))


class Filter(NamedTuple):
    """What the rows must have in one column: `~` for a text that holds the value, in lower or upper case."""

    column: str
    sign: str
    value: str

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> "Filter":
        """What a person writes as COLUMN=VALUE. A sign may be in a column's name: the longest known name counts."""
        signs = (at for at in _SIGNS.finditer(text) if at.start())
        found = [cls(literal(text[: at.start()]), at[0], text[at.end() :]) for at in signs]
        if not found:
            raise InputError(f"--where {text}: give COLUMN=VALUE, such as gender=f, or 'rank>5'")
        return max((own for own in found if own.column in columns), key=lambda own: len(own.column), default=found[0])

    def __str__(self) -> str:
        return f"--where {self.column}{self.sign}{self.value}"

    def condition(self, kind: pl.DataType) -> pl.Expr:
        """For a column of this type; a value of another type is an `InputError`."""
        column, value = pl.col(self.column), cast("Any", self.value)
        if self.sign == "~" and kind != pl.String:
            raise InputError(f"{self}: {self.column} is not a text; give =, <, or >")
        if kind == pl.Boolean:
            if value not in {"true", "false"}:
                raise InputError(f"{self}: give true or false")
            value = value == "true"
        elif kind.is_numeric():
            try:
                column, value = column.cast(pl.Float64), float(value)
            except ValueError:
                raise InputError(f"{self}: give a number") from None
        if kind == pl.List(pl.String):  # several words in one cell
            if self.sign not in {"=", "!="}:
                raise InputError(f"{self}: {self.column} is a list; give = or !=")
            has = column.list.contains(value)
            return has if self.sign == "=" else ~has.fill_null(value=False)
        return _COMPARED[self.sign](column, value)


def filtered(rows: pl.LazyFrame, where: Sequence[str], place: object) -> pl.LazyFrame:
    """The rows that all filters let through: of several values of one column with `=`, they must have one.

    `place` is what messages say of the rows, such as the run's folder. Raises InputError for a column or a value that
    the rows do not have.
    """
    schema = rows.collect_schema()
    equal: dict[str, list[pl.Expr]] = {}
    others = list[pl.Expr]()
    for text in where:
        one = Filter.parse(text, schema.names())
        _refuse_unknown(one.column, schema, str(one), place)
        condition = one.condition(schema[one.column])
        (equal.setdefault(one.column, []) if one.sign == "=" else others).append(condition)
        if one.sign == "=" and schema[one.column] in (pl.String, pl.List(pl.String)):
            _refuse_unknown_value(rows, one, place)
    return rows.filter(*map(pl.any_horizontal, equal.values()), *others) if where else rows


def sorting(text: str, columns: Sequence[str]) -> tuple[str, bool]:
    """The column that a person writes as COLUMN, or as -COLUMN for the largest first, and whether these come first."""
    descends = text.startswith("-") and text not in columns  # a column's own name counts before
    return literal(text[descends:]), descends


def ordered(rows: pl.LazyFrame, by: str, place: object) -> pl.LazyFrame:
    """The rows in an order; those without a value in its column are the last."""
    schema = rows.collect_schema()
    column, descends = sorting(by, schema.names())
    _refuse_unknown(column, schema, f"--sort {column}", place)
    return rows.sort(column, descending=descends, nulls_last=True, maintain_order=True)


def _refuse_unknown(column: str, schema: pl.Schema, said: str, place: object) -> None:
    if column not in schema:
        hint = did_you_mean(column, schema.names()) or f"its columns are {', '.join(schema)}"
        raise InputError(f"{said}: the sentences of {place} have no such column: {hint}".rstrip())


def _refuse_unknown_value(rows: pl.LazyFrame, wanted: Filter, place: object) -> None:
    words = pl.col(wanted.column).explode() if rows.collect_schema()[wanted.column] == pl.List else wanted.column
    known = rows.select(words).unique(maintain_order=True).drop_nulls().collect().to_series().to_list()
    if wanted.value not in known:
        near = did_you_mean(wanted.value, known)
        few, more = known[:_MOST_LISTED], ", …" * (len(known) > _MOST_LISTED)
        hint = near if near and more else f"{near}It has {', '.join(few)}{more}"
        raise InputError(f"{wanted}: {place} does not have it: {hint}".rstrip())
