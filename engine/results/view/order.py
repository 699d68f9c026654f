"""Rows in the order of a column, of which no more than numbers are kept in memory.

Numbers are sorted as they are, and texts by one number each: their places among all texts, if these are few, or else
their first bytes. Whole texts are then compared among the rows that have these bytes in common with the first or the
last row that is wanted, and among those between.
"""

from dataclasses import dataclass

import polars as pl

NUMBER = "\0number"
"""The number of a row. No column of a table is named so."""
_BYTES = 8  # of a text, which are one number
_FEW = 2**16  # texts
_LONGER = 60  # bytes that are compared before whole texts, where very many begin alike
_MANY = 2**18  # rows


@dataclass(frozen=True, eq=False)
class Order:
    """The order of some rows: those without a value last, equal ones as they are."""

    rows: pl.LazyFrame  # with their `NUMBER`
    key: pl.Expr
    descending: bool
    numbers: pl.Series  # of the rows in the order of a number each
    changes: pl.Series  # of texts: the places where another number begins, and the end

    @classmethod
    def of(cls, rows: pl.LazyFrame, key: pl.Expr, *, descending: bool) -> "Order":
        [kind] = rows.select(key).collect_schema().dtypes()
        if kind == pl.String:
            if rows.select(key.approx_n_unique()).collect(engine="streaming").item() > _FEW:
                found = _sorted(rows, _beginning(key), descending)
                return cls(rows, key, descending, found[NUMBER], _changes(found["key"]))
            texts = rows.select(key).unique().collect(engine="streaming").to_series().drop_nulls().sort()
            key = key.cast(pl.Enum(texts)).to_physical()
        found = _sorted(rows, key.fill_nan(None) if kind.is_float() else key, descending)
        return cls(rows, key, descending, found[NUMBER], pl.Series(dtype=pl.UInt32))

    def part(self, start: int, count: int) -> pl.Series:
        """The numbers of at most so many rows from a place on."""
        numbers, changes = self.numbers, self.changes
        count = min(count, len(numbers) - start)
        for size in (_LONGER, None) if len(changes) and count > 0 else ():
            low = changes[int(changes.search_sorted(start, "right")) - 1]
            high = changes[int(changes.search_sorted(start + count - 1, "right"))]
            if size is None or high - low > _MANY:
                key = self.key if size is None else self.key.cast(pl.Binary).bin.head(size)
                alike = pl.col(NUMBER).is_in(numbers[low:high].sort().implode())
                found = _sorted(self.rows.filter(alike), key, self.descending)
                numbers, changes = found[NUMBER], _changes(found["key"])
                start -= low
        return numbers.slice(start, max(0, count))


def _beginning(text: pl.Expr) -> pl.Expr:
    """The first bytes as a number; UTF-8 has the order of its bytes."""
    first = (text.cast(pl.Binary).bin.head(_BYTES) + b"\0" * _BYTES).bin.head(_BYTES)
    return first.bin.reinterpret(dtype=pl.UInt64, endianness="big")


def _sorted(rows: pl.LazyFrame, key: pl.Expr, descending: bool) -> pl.DataFrame:
    found = rows.select(NUMBER, key=key).collect(engine="streaming")
    return found[found["key"].arg_sort(descending=descending, nulls_last=True)]  # equal ones keep their order


def _changes(keys: pl.Series) -> pl.Series:
    begins = keys.rle().struct.field("len").cum_sum().shift(fill_value=0)
    return begins.append(pl.Series([len(keys)], dtype=begins.dtype))
