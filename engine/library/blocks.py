"""The sentences of finished runs in blocks: rows are found by their numbers; few texts are in memory at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from .sentences import TEXTS

NUMBER = "number of the row"
_ROWS = 2**17  # whose texts are in memory at a time
_EACH, _APART = 997, 20  # of so many texts one is drawn; of these, as many stand between the bounds of a range


@dataclass(frozen=True)
class Block:
    """Some of a run's sentences, in their order, as rows that are cheap to read and what makes sentences of them."""

    recorded: pl.LazyFrame
    shown: Callable[[pl.LazyFrame], pl.LazyFrame]  # also of some of these rows: it reads no other row

    @property
    def sentences(self) -> pl.LazyFrame:
        return self.shown(self.recorded)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks one below the other; a column that one of them lacks is null there."""

    blocks: Sequence[Block]

    @cached_property
    def rows(self) -> pl.LazyFrame:
        return pl.concat([block.sentences for block in self.blocks], how="diagonal_relaxed")

    @cached_property
    def schema(self) -> pl.Schema:
        return self.rows.collect_schema()

    @property
    def total(self) -> int:
        return self._starts[-1]

    @cached_property
    def _starts(self) -> list[int]:
        """The number of the first row of each block, and how many rows there are."""
        sizes = [block.recorded.select(pl.len()).collect().item() for block in self.blocks]
        return [sum(sizes[:number]) for number in range(len(sizes) + 1)]

    def _numbered(self) -> Iterator[tuple[int, int, Block]]:
        return zip(self._starts, self._starts[1:], self.blocks, strict=False)

    def _of_all(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return pl.concat([self.schema.to_frame(eager=False), rows], how="diagonal_relaxed")

    def each(self) -> Iterator[tuple[int, pl.LazyFrame]]:
        """All rows, some at a time, and the number of the first of them."""
        for start, stop, block in self._numbered():
            for first in range(start, stop, _ROWS):
                yield first, self._of_all(block.shown(block.recorded.slice(first - start, _ROWS)))

    def found(self, wanted: Sequence[pl.Expr]) -> pl.Series:
        """The numbers (UInt32) of the rows that are all of this, in their order."""
        if not wanted:
            return pl.int_range(self.total, dtype=pl.UInt32, eager=True).alias(NUMBER)
        each = (rows.with_row_index(NUMBER, start).filter(*wanted).select(NUMBER) for start, rows in self.each())
        return pl.concat([rows.collect(engine="streaming") for rows in each]).to_series()

    def at(self, numbers: pl.Series) -> pl.DataFrame:
        """The rows of these numbers (each of them once), in their order."""
        found = [self.schema.to_frame().insert_column(0, numbers.clear().alias(NUMBER))]
        for start, stop, block in self._numbered():
            own = numbers.filter(numbers.is_between(start, stop, closed="left")).sort().alias(NUMBER)
            if len(own):
                near = block.recorded.with_row_index(NUMBER, start).filter(pl.col(NUMBER).is_in(own.implode()))
                found.append(self._of_all(block.shown(near.drop(NUMBER))).collect().insert_column(0, own))
        wanted = numbers.alias(NUMBER).to_frame()
        return wanted.join(pl.concat(found), on=NUMBER, how="left", maintain_order="left").drop(NUMBER)

    def column(self, name: str) -> pl.Series:
        """A column of all rows; words as their places in the alphabet, long texts as the ranges that they lie in."""
        if name in TEXTS:
            return self._ranges(name)
        is_text = self.schema[name] == pl.String
        column = pl.col(name).cast(pl.Categorical) if is_text else pl.col(name)
        found = pl.concat([rows.select(column).collect() for _, rows in self.each()]).to_series()
        return (
            found.cast(pl.Enum(found.unique().drop_nulls().cast(pl.String).sort())).to_physical() if is_text else found
        )

    def _ranges(self, name: str) -> pl.Series:
        """The texts of a range come before those of the next one. So all can be sorted while few are in memory."""
        some = [self._of_all(block.shown(block.recorded.gather_every(_EACH))) for block in self.blocks]
        drawn = pl.concat([rows.select(name).collect() for rows in some]).to_series()
        bounds = drawn.drop_nulls().unique().sort().gather_every(_APART)

        def ranges(texts: pl.Series) -> pl.Series:
            return bounds.search_sorted(texts, side="left").cast(pl.UInt16).set(texts.is_null(), None)

        return pl.concat([ranges(rows.select(name).collect().to_series()) for _, rows in self.each()])


@dataclass(frozen=True, eq=False)
class Order:
    """Some rows in the order of a column, those without a value last; equal ones as they are."""

    blocks: Blocks
    numbers: pl.Series
    column: str
    descending: bool

    @cached_property
    def _keys(self) -> pl.DataFrame:
        keys = self.blocks.column(self.column).gather(self.numbers).alias("key")
        found = pl.DataFrame([self.numbers, keys])
        place = pl.arg_sort_by("key", descending=self.descending, nulls_last=True, maintain_order=True)
        order = found.select(place).to_series()
        return found.select(pl.all() if self.column in TEXTS else NUMBER).select(pl.all().gather(order))

    def page(self, start: int, count: int) -> pl.Series:
        """The numbers of the rows at these places."""
        if self.column not in TEXTS:
            return self._keys[NUMBER].slice(start, count)
        is_near = pl.col("key").is_in(self._keys["key"].slice(start, count).unique().implode(), nulls_equal=True)
        near = self._keys.with_row_index("place").filter(is_near)
        first = int(near["place"][0]) if len(near) else start
        near = near.with_columns(self.blocks.at(near[NUMBER])[self.column].alias("text"))
        near = near.sort("text", descending=self.descending, nulls_last=True, maintain_order=True)
        return near[NUMBER].slice(start - first, count)
