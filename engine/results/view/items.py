"""The items of some runs, and what a page asks of them: some rows, groups with counts, one item.

Nothing is kept but the numbers of the rows that were asked for last, and their order: 4 bytes a row for each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from ...basics.errors import InputError
from ...library.run import Run
from ...library.sentences import FAILED, NUMBER, TEXTS, Block
from ..comparison.estimates import MODEL
from ..comparison.runs import labels, open_alike
from ..report.chosen_sentences import first_columns
from ..report.row_filters import Filter, Sorting, conditions, holds, known
from .order import Order

MOST_GROUPS = 200
MOST_ALIKE = 100  # rows of one item
_PLACE = "the runs"
_SEARCHED = (*TEXTS, "expected", "answer")
_FIRST = 1_000  # rows that tell which columns have values
_ROWS = 2**17  # whose texts are in memory at a time: a group of rows in the file
_FEW = 100  # rows that are read alone


@dataclass(frozen=True)
class Query:
    """Which rows are wanted, and in which order."""

    where: tuple[Filter, ...] = ()  # each as [column, sign, value]
    search: str = ""  # what a sentence, its expected word or its answer holds, in lower or upper case
    sort: Sorting | None = None  # as [column, whether the largest comes first]; without one, as the runs have them


@dataclass(frozen=True, eq=False)
class Items:
    """All items of some runs of one kind."""

    runs: Sequence[Run]

    @classmethod
    def open(cls, runs: Sequence[Any]) -> "Items":
        pl.Config.set_streaming_chunk_size(2**14)  # rows that a core has at a time
        return cls(open_alike(runs))

    @cached_property
    def blocks(self) -> list[Block]:
        """The columns of `Run.sentences`; those of several runs have the model's name before them."""
        names = labels(self.runs) if len(self.runs) > 1 else [""]
        each = zip(self.runs, names, strict=True)
        return [_for_people(block, run, name) for run, name in each for block in run.sentence_blocks()]

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first row of each block, and of the first one behind the last."""
        sizes = (block.recorded.select(pl.len()).collect().item() for block in self.blocks)
        return list(accumulate(sizes, initial=0))

    @cached_property
    def rows(self) -> pl.LazyFrame:
        """All rows; a column that some runs lack is null there."""
        return pl.concat([block.sentences for block in self.blocks], how="diagonal_relaxed")

    @cached_property
    def schema(self) -> pl.Schema:
        return self.rows.collect_schema()

    @cached_property
    def total(self) -> int:
        return len(_numbers(self, Query()))

    def pieces(self, numbers: pl.Series | None = None) -> Iterator[pl.LazyFrame]:
        """Rows with their numbers, all or some, a piece at a time: few texts are in memory."""
        for start, stop, block in zip(self.starts, self.starts[1:], self.blocks, strict=False):
            for first in range(start, stop, _ROWS):
                rows = block.recorded.slice(first - start, _ROWS).with_row_index(NUMBER, first)
                if numbers is not None:
                    after = min(first + _ROWS, stop)
                    own = numbers.filter(numbers.is_between(first, after, closed="left"))
                    if own.is_empty():
                        continue
                    if len(own) < after - first:
                        rows = rows.filter(pl.col(NUMBER).is_in(own.implode()))
                yield self._of_all(block.shown(rows))

    def _of_all(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return pl.concat([self.schema.to_frame(eager=False), rows], how="diagonal_relaxed")

    def at(self, numbers: pl.Series, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows of these numbers, in their order."""
        names = self.schema.names() if columns is None else columns
        # Behind a filter Polars keeps the texts of all rows in memory; of texts that it makes, those alone.
        own = [pl.concat_str(name, pl.lit("")) if self.schema[name] == pl.String else pl.col(name) for name in names]
        pieces = self.pieces(numbers) if len(numbers) > _FEW else self._in_ranges(numbers)
        found = [rows.select(own).collect(engine="streaming") for rows in pieces]
        return pl.concat([self.schema.to_frame().select(names), *found])[numbers.arg_sort().arg_sort()]

    def _in_ranges(self, numbers: pl.Series) -> Iterator[pl.LazyFrame]:
        """The rows of a few numbers, the smallest first; no other row is read."""
        for start, stop, block in zip(self.starts, self.starts[1:], self.blocks, strict=False):
            own = numbers.filter(numbers.is_between(start, stop, closed="left")).sort().to_frame("first")
            beside = pl.col("first") - pl.int_range(pl.len())  # the same for all of one range
            ranges = own.group_by(beside.alias("range"), maintain_order=True).agg(pl.min("first"), pl.len())
            if near := [block.recorded.slice(first - start, n).collect() for _, first, n in ranges.iter_rows()]:
                yield self._of_all(block.shown(pl.concat(near).lazy()))

    @cached_property
    def columns(self) -> list[dict[str, str]]:
        """Name and kind (text, number, truth) of each column that has values; the sentence and the answer are first."""
        some = pl.concat([block.shown(block.recorded.head(_FIRST)) for block in self.blocks], how="diagonal_relaxed")
        has = some.select(pl.all().is_not_null().any()).collect()
        known = {own.name for own in has if own.item()}
        rest = self.rows.select(name for name in self.schema if name not in known)  # few columns, if any
        known |= {own.name for own in rest.select(pl.all().is_not_null().any()).collect() if own.item()}
        first = (MODEL, *first_columns(self.runs[0]), "condition", *TEXTS, "expected", "answer", FAILED, "logprob")
        names = dict.fromkeys([*(name for name in first if name in self.schema), *self.schema])
        return [{"name": name, "kind": _kind(self.schema[name])} for name in names if name in known]

    def conditions(self, query: Query) -> list[pl.Expr]:
        found = conditions(self.schema, query.where, _PLACE, "filter")
        if query.search:
            texts = pl.col(name for name in _SEARCHED if self.schema.get(name) == pl.String)
            found.append(pl.any_horizontal(holds(texts, query.search)))
        return found

    def numbers(self, query: Query, start: int = 0, count: int | None = None) -> pl.Series:
        """The numbers of wanted rows in their order: those without a value last, equal ones as they are."""
        wanted = _numbers(self, replace(query, sort=None))
        left = max(0, len(wanted) - start)
        count = left if count is None else min(count, left)
        if query.sort is None or not count:
            return wanted.slice(start, count)
        column = query.sort.column
        known(column, self.schema.names(), f"sort {column}", _PLACE)
        return _order(self, query).part(start, count)

    def wanted(self, query: Query) -> pl.LazyFrame:
        """The rows that a question lets through in their order, read a piece at a time."""

        def rows(columns: Sequence[str] | None, *_: object) -> Iterator[pl.DataFrame]:
            for start in range(0, max(1, len(_numbers(self, replace(query, sort=None)))), _ROWS // 2):
                yield self.at(self.numbers(query, start, _ROWS // 2), columns)

        return register_io_source(rows, schema=self.schema)

    def page(self, query: Query, start: int, count: int) -> dict[str, Any]:
        """Some of the wanted rows, how many are wanted, and how many there are."""
        rows = values(self.at(self.numbers(query, start, count)))
        return {"rows": rows, "wanted": len(_numbers(self, replace(query, sort=None))), "total": self.total}

    def groups(self, query: Query, column: str) -> dict[str, Any]:
        """For each value of a column, the most frequent first: wanted rows, those that are judged, those that fail."""
        known(column, self.schema.names(), f"count by {column}", _PLACE)
        numbers, by = _numbers(self, replace(query, sort=None)), pl.col(column)
        each = (rows.select(by.hash()) for rows in self.pieces(numbers))
        hashes = pl.concat([rows.collect(engine="streaming") for rows in each]).to_series()
        every = hashes.sort().rle().struct.unnest()
        frequent = every.top_k(MOST_GROUPS, by="len")["value"]
        numbers = numbers.filter(hashes.is_in(frequent.implode()))  # of texts, few are built again
        counts = [pl.len().alias("n"), pl.col(FAILED).count().alias("judged"), pl.col(FAILED).sum().alias(FAILED)]
        each = (rows.group_by(by.alias("value")).agg(counts) for rows in self.pieces(numbers))
        groups = pl.concat([rows.collect(engine="streaming") for rows in each]).group_by("value").sum()
        return {"groups": values(groups.sort("n", "value", descending=[True, False])), "of": len(every)}

    def alike(self, query: Query, number: int) -> dict[str, Any]:
        """Of one of the wanted rows: the rows of all models and conditions that belong to the same item."""
        if not (rows := self.page(query, number, 1)["rows"]):
            raise InputError(f"there is no row {number:,}")
        found = _found(self, [pl.col(key).eq_missing(rows[0][key]) for key in self.keys])
        return {"rows": values(self.at(found.head(MOST_ALIKE)))}

    @cached_property
    def keys(self) -> list[str]:
        """The columns that all rows of an item share."""
        run = self.runs[0]
        named = run.named_for_people(run.sentence_rows().collect_schema().names())
        shared, apart = run.minimal_pairs
        known = [name for name in run.sentence_keys if name not in apart and name in named]
        is_number = len(self.runs) == 1 and shared == "item"  # which is found faster than words
        return [named[name] for name in ([] if is_number else known) or [shared]]

    def sample(self, most: int) -> pl.LazyFrame:
        """All rows, or those of items that are drawn at random, with seed 0, so that about so many rows remain."""
        if self.total <= most:
            return self.rows
        known = self.rows.select(self.keys).unique(maintain_order=True).collect(engine="streaming")
        drawn = known.sample(max(1, len(known) * most // self.total), seed=0)
        return self.rows.join(drawn.lazy(), on=self.keys, how="semi", nulls_equal=True, maintain_order="left")


@lru_cache(maxsize=1)  # of the last question, whose pages are asked for one by one
def _numbers(items: Items, query: Query) -> pl.Series:
    return _found(items, items.conditions(query))


def _found(items: Items, wanted: Sequence[pl.Expr]) -> pl.Series:
    """The numbers of the wanted rows, as the runs have them."""
    each = (rows.filter(*wanted, True).select(NUMBER) for rows in items.pieces())
    return pl.concat([rows.collect(engine="streaming") for rows in each]).to_series()


@lru_cache(maxsize=1)
def _order(items: Items, query: Query) -> Order:
    column, descending = query.sort or Sorting("")
    wanted = _numbers(items, replace(query, sort=None))
    return Order.of(wanted, items.pieces, column, items.schema[column], descending=descending)


def _for_people(block: Block, run: Run, model: str) -> Block:
    def shown(rows: pl.LazyFrame) -> pl.LazyFrame:
        found = run.for_people(block.shown(rows))
        return found.with_columns(pl.lit(model).alias(MODEL)) if model else found

    return Block(block.recorded, shown)


def _kind(dtype: pl.DataType) -> str:
    return "truth" if dtype == pl.Boolean else "number" if dtype.is_numeric() else "text"


def values(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which has no number that is not finite."""
    floats = pl.col(pl.Float32, pl.Float64)
    return rows.with_columns(pl.when(floats.is_finite()).then(floats)).to_dicts()
