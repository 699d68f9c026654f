"""Rows in the order of a column, of which no more than numbers are kept in memory.

All rows are sorted by one number each: that of the column, or the first bytes of a text. Whole texts are compared among
the rows that have these bytes in common with the first or the last row that is wanted, and among those between.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...library.sentences import NUMBER

_BYTES = 7  # of a text, which are one number with how many of them there are
_LONGER = 60  # bytes that are compared before whole texts, where very many begin alike
_MANY = 2**18  # rows
_LAST = 2**64 - 1


@dataclass(frozen=True, eq=False)
class Order:
    """The order of some rows: those without a value last, equal ones as they are."""

    pieces: Callable[[pl.Series], Iterator[pl.LazyFrame]]  # the rows of some numbers, which they have as `NUMBER`
    key: pl.Expr
    descending: bool
    numbers: NDArray[np.uint32]  # of the rows in the order of a number each
    changes: NDArray[np.int64]  # the places where another number begins, and the end; none of numbers that are exact

    @classmethod
    def of(
        cls,
        wanted: pl.Series,
        pieces: Callable[[pl.Series], Iterator[pl.LazyFrame]],
        key: pl.Expr,
        *,
        kind: pl.DataType,
        descending: bool,
    ) -> "Order":
        if kind == pl.String:
            letters, none = key.cast(pl.Binary), b"\0"  # UTF-8 has the order of its bytes
            first = (letters + none * _BYTES).bin.head(_BYTES) + none
            code = first.bin.reinterpret(dtype=pl.UInt64, endianness="big") + letters.bin.size().clip(0, _BYTES + 1)
            by = (_LAST - 1 - code if descending else code).fill_null(_LAST)
        else:
            number = key.cast(pl.Float64)
            by = (-number if descending else number).fill_null(math.nan)  # which comes last
        codes = pl.concat(rows.select(by).collect(engine="streaming").to_series() for rows in pieces(wanted)).to_numpy()
        order = np.argsort(codes, kind="stable").astype(np.uint32)
        changes = np.empty(0, np.int64) if kind.is_float() else _changes(codes[order])
        return cls(pieces, key, descending, wanted.to_numpy()[order], changes)

    def part(self, start: int, count: int) -> pl.Series:
        """The numbers of rows from a place on; there are as many behind it."""
        found, changes = self.numbers, self.changes
        for size in (_LONGER, None) if len(changes) else ():
            low = changes[np.searchsorted(changes, start, "right") - 1]
            high = changes[np.searchsorted(changes, start + count - 1, "right")]
            if size is None or high - low > _MANY:
                found, changes = self._sorted(np.sort(found[low:high]), size)
                start -= low
        return pl.Series(found[start : start + count], dtype=pl.UInt32)

    def _sorted(self, numbers: NDArray[np.uint32], size: int | None) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        key = self.key if size is None else self.key.cast(pl.Binary, strict=False).bin.head(size)
        each = (rows.select(NUMBER, key=key).collect(engine="streaming") for rows in self.pieces(pl.Series(numbers)))
        rows = pl.concat(each).sort("key", descending=self.descending, nulls_last=True, maintain_order=True)
        return rows[NUMBER].to_numpy(), _changes(rows["key"].rle_id().to_numpy())


def _changes(values: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1, [len(values)]])
