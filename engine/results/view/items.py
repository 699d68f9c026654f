"""The items of some runs, and what a page asks of them: some rows, groups with counts.

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
from ..report.row_filters import holds
from .order import Order
from .query import Query

MOST_ROWS, MOST_GROUPS = 500, 200
SEARCHED = (*TEXTS, "expected", "answer")
_FIRST = 1_000  # rows that tell which columns have values
_ROWS = 2**15  # whose texts are in memory at a time
_RANGES = 200  # of rows that are read for these


@dataclass(frozen=True, eq=False)
class Items:
    """All items of some runs of one kind."""

    runs: Sequence[Run]

    @classmethod
    def open(cls, runs: Sequence[Any]) -> "Items":
        pl.Config.set_streaming_chunk_size(2**14)  # rows that a core has at a time
        return cls(open_alike(runs))

    @cached_property
    def recorded(self) -> list[tuple[Run, str, Block]]:
        """The blocks of all runs, with the model's name where there are several runs."""
        names = labels(self.runs) if len(self.runs) > 1 else [""]
        each = zip(self.runs, names, strict=True)
        return [(run, name, block) for run, name in each for block in run.sentence_blocks()]

    @cached_property
    def blocks(self) -> list[Block]:
        """The columns of `Run.sentences`; those of several runs have the model's name before them."""
        return [_for_people(*own) for own in self.recorded]

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first row of each block, and of the first one behind the last."""
        sizes = (block.recorded.select(pl.len()).collect().item() for block in self.blocks)
        return list(accumulate(sizes, initial=0))

    @cached_property
    def all_rows(self) -> pl.LazyFrame:
        """All rows; a column that some runs lack is null there."""
        return pl.concat([block.sentences for block in self.blocks], how="diagonal_relaxed")

    @cached_property
    def schema(self) -> pl.Schema:
        return self.all_rows.collect_schema()

    @cached_property
    def total(self) -> int:
        return len(_numbers(self, Query()))

    @cached_property
    def names(self) -> list[str]:
        """The columns that have values; the sentence and the answer are first."""
        some = pl.concat([block.shown(block.recorded.head(_FIRST)) for block in self.blocks], how="diagonal_relaxed")
        has = some.select(pl.all().is_not_null().any()).collect()
        known = {own.name for own in has if own.item()}
        rest = self.all_rows.select(name for name in self.schema if name not in known)  # few columns, if any
        known |= {own.name for own in rest.select(pl.all().is_not_null().any()).collect() if own.item()}
        first = (MODEL, *first_columns(self.runs[0]), "condition", *TEXTS, "expected", "answer", FAILED, "logprob")
        return [name for name in dict.fromkeys([*first, *self.schema]) if name in known]

    @cached_property
    def columns(self) -> list[pl.Expr]:
        """The columns as the page has them, which knows numbers and texts."""
        return [_on_page(name, self.schema[name]) for name in self.names]

    def rows(self, numbers: pl.Series) -> Iterator[pl.LazyFrame]:
        """The rows of these numbers, the smallest first, with their numbers: some at a time, so few texts are kept."""
        for start, stop, block in zip(self.starts, self.starts[1:], self.blocks, strict=False):
            own = numbers.filter(numbers.is_between(start, stop, closed="left")).sort().to_frame(NUMBER)
            for some in own.iter_slices(_ROWS):
                first, last = some[0, 0], some[-1, 0]
                far = pl.col(NUMBER).diff().fill_null(0) > (last - first) // _RANGES + 1  # rows between are not read
                ends = pl.min(NUMBER).alias("first"), pl.max(NUMBER).alias("last")
                ranges = some.group_by(far.cum_sum(), maintain_order=True).agg(ends).select("first", "last").rows()
                near = [block.recorded.slice(a - start, z - a + 1).with_row_index(NUMBER, a) for a, z in ranges]
                rows = pl.concat(near)
                if len(some) <= last - first:
                    rows = rows.filter(pl.col(NUMBER).is_in(some[NUMBER].implode()))
                yield pl.concat([self.schema.to_frame(eager=False), block.shown(rows)], how="diagonal_relaxed")

    def at(self, numbers: pl.Series, columns: Sequence[pl.Expr]) -> pl.DataFrame:
        """The rows of these numbers, in their order."""
        kinds = self.schema.to_frame().select(columns).schema
        # Behind a filter Polars keeps the texts of all rows in memory; of texts that it makes, those alone.
        own = [
            pl.concat_str(one, pl.lit("")) if kind == pl.String else one
            for one, kind in zip(columns, kinds.dtypes(), strict=True)
        ]
        found = [rows.select(own).collect(engine="streaming") for rows in self.rows(numbers)]
        return pl.concat([kinds.to_frame(), *found])[numbers.arg_sort().arg_sort()]

    def numbers(self, query: Query, start: int, count: int) -> pl.Series:
        """The numbers of wanted rows in their order: those without a value last, equal ones as they are."""
        wanted = _numbers(self, _unordered(query))
        if query.order and start < len(wanted) and count:
            return _order(self, replace(query, start=0, length=0, draw=0)).part(start, min(count, len(wanted) - start))
        return wanted.slice(start, count)

    def wanted(self, query: Query) -> pl.LazyFrame:
        """The rows that a question lets through in their order, with all columns as the run has them."""

        def rows(columns: Sequence[str] | None, *_: object) -> Iterator[pl.DataFrame]:
            own = [pl.col(name) for name in (self.schema if columns is None else columns)]
            step = _ROWS if query.order else _ROWS // 4  # rows in an order are looked for everywhere
            for start in range(0, max(1, len(_numbers(self, _unordered(query)))), step):
                yield self.at(self.numbers(query, start, step), own)

        return register_io_source(rows, schema=self.schema)

    def page(self, query: Query) -> dict[str, Any]:
        """Some of the wanted rows, how many are wanted, and how many there are, as DataTables reads them."""
        rows = self.at(self.numbers(query, query.start, min(query.length, MOST_ROWS)), self.columns)
        wanted = len(_numbers(self, _unordered(query)))
        return {"draw": query.draw, "data": cells(rows), "recordsTotal": self.total, "recordsFiltered": wanted}

    def groups(self, query: Query, column: int) -> dict[str, Any]:
        """For each value of a column, the most frequent first: value, wanted rows, those judged, those that fail."""
        by, failed = self.columns[column], pl.col(FAILED)
        own = [pl.col(NUMBER), failed, by.hash().alias("hash")]
        none = self.schema.to_frame(eager=False).with_row_index(NUMBER)
        each = (rows.select(own) for rows in (none, *self.rows(_numbers(self, _unordered(query)))))
        found = pl.concat([rows.collect(engine="streaming") for rows in each])
        counts = [pl.len().alias("n"), failed.count().alias("judged"), failed.sum().alias("wrong")]
        every = found["hash"].sort().rle().struct.unnest()
        frequent = every.top_k(MOST_GROUPS, by="len")["value"].implode()
        most = found.filter(pl.col("hash").is_in(frequent)).group_by("hash").agg(pl.min(NUMBER), *counts)
        values = self.at(most[NUMBER], [by]).to_series().alias("value")
        groups = most.select(values, "n", "judged", "wrong").sort("n", "value", descending=[True, False])
        return {"groups": cells(groups), "of": len(every)}

    @cached_property
    def keys(self) -> list[int]:
        """Of the columns, those that all rows of an item share."""
        run, _, block = self.recorded[0]
        named = run.named_for_people(block.sentences.collect_schema().names())
        shared, apart = run.minimal_pairs
        known = [name for name in run.sentence_keys if name not in apart and name in named]
        is_number = len(self.runs) == 1 and shared == "item"  # which is found faster than words
        keys = [named[name] for name in ([] if is_number else known) or [shared]]
        return [number for number, name in enumerate(self.names) if name in keys]

    def sample(self, most: int) -> pl.LazyFrame:
        """All rows, or those of items that are drawn at random, with seed 0, so that about so many rows remain."""
        if self.total <= most:
            return self.all_rows
        keys = [self.names[number] for number in self.keys]
        known = self.all_rows.select(keys).unique(maintain_order=True).collect(engine="streaming")
        drawn = known.sample(max(1, len(known) * most // self.total), seed=0)
        return self.all_rows.join(drawn.lazy(), on=keys, how="semi", nulls_equal=True, maintain_order="left")


def cells(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Rows for JSON, which has no number that is not finite."""
    floats = pl.col(pl.Float32, pl.Float64)
    return rows.with_columns(pl.when(floats.is_finite()).then(floats)).rows()


def _unordered(query: Query) -> Query:
    return replace(query, order=(), start=0, length=0, draw=0)


@lru_cache(maxsize=2)  # of the last question, whose pages are asked for one by one, and of all rows
def _numbers(items: Items, query: Query) -> pl.Series:
    """The numbers of the wanted rows, as the runs have them."""
    where = query.searchBuilder.expression(items.columns, items.schema)
    wanted = [] if where is None else [where]
    if query.search.value:
        texts = pl.col(name for name in SEARCHED if items.schema.get(name) == pl.String)
        wanted.append(pl.any_horizontal(holds(texts, query.search.value)))
    every = pl.int_range(items.starts[-1], dtype=pl.UInt32, eager=True)
    each = (rows.filter(*wanted, True).select(NUMBER) for rows in items.rows(every))
    return pl.concat([every.head(0).to_frame(NUMBER), *(rows.collect(engine="streaming") for rows in each)]).to_series()


@lru_cache(maxsize=1)
def _order(items: Items, query: Query) -> Order:
    by = query.order[0]
    if by.column >= len(items.columns):
        raise InputError(f"no column {by.column}")
    key, wanted = items.columns[by.column], _numbers(items, _unordered(query))
    kind = items.schema.to_frame().select(key).dtypes[0]
    return Order.of(wanted, items.rows, key, kind=kind, descending=by.dir == "desc")


def _for_people(run: Run, model: str, block: Block) -> Block:
    def shown(rows: pl.LazyFrame) -> pl.LazyFrame:
        found = run.for_people(block.shown(rows))
        return found.with_columns(pl.lit(model).alias(MODEL)) if model else found

    return Block(block.recorded, shown)


def _on_page(name: str, kind: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if kind == pl.List:
        return column.list.join(", ").alias(name)
    if kind == pl.Boolean:
        return pl.when(column).then(pl.lit("yes")).when(~column).then(pl.lit("no")).alias(name)
    return column
