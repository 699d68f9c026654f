"""The items of some runs, and what a page asks of them: some rows, groups with counts.

A run has its items in the order in which they were decided, and builds the sentences of many. All rows are written
once into a temporary file, in small groups that Polars reads apart; in memory are numbers of rows alone.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from polars.exceptions import PolarsError
from polars.io.plugins import register_io_source

from ...basics.errors import InputError, first_line
from ...library.run import Run
from ...library.sentences import FAILED, TEXTS
from ..comparison.estimates import MODEL
from ..comparison.runs import labels, open_alike
from ..report.chosen_sentences import first_columns
from .order import NUMBER, Order
from .query import Query, find

MOST_ROWS, MOST_GROUPS = 500, 200
_FIRST = 1_000  # rows that tell which columns have values
_GROUP = 2**13  # rows of the file that are read together
_ROWS = 2**14  # that are read together to be saved


@dataclass(frozen=True, eq=False)
class Items:
    """All items of some runs of one kind."""

    runs: Sequence[Run]

    @classmethod
    def open(cls, runs: Sequence[Any]) -> "Items":
        pl.Config.set_streaming_chunk_size(2**14)  # rows that a core has at a time
        return cls(open_alike(runs))

    @cached_property
    def models(self) -> list[str]:
        """The name that tells a run from the others, if there are several."""
        return labels(self.runs) if len(self.runs) > 1 else [""]

    @cached_property
    def all_rows(self) -> pl.LazyFrame:
        """The columns of `Run.sentences`, and the model where there are several; what some runs lack is null there."""
        each = zip(self.runs, self.models, strict=True)
        return pl.concat([_for_people(run.sentence_rows(), run, name) for run, name in each], how="diagonal_relaxed")

    @property
    def pieces(self) -> Iterator[pl.LazyFrame]:
        """`all_rows`, piece by piece."""
        for run, name in zip(self.runs, self.models, strict=True):
            for rows in run.sentence_pieces():
                yield pl.concat(
                    [self.schema.to_frame(eager=False), _for_people(rows, run, name)], how="diagonal_relaxed"
                )

    @cached_property
    def schema(self) -> pl.Schema:
        return self.all_rows.collect_schema()

    @cached_property
    def total(self) -> int:
        n: int = self.all_rows.select(pl.len()).collect(engine="streaming").item()
        return n

    @cached_property
    def folder(self) -> TemporaryDirectory[str]:
        """Where files are for as long as the items are looked at."""
        return TemporaryDirectory(prefix="negengine-view-")

    @cached_property
    def file(self) -> Future[pl.LazyFrame]:
        """All rows with their numbers in a temporary file, which another thread begins to write."""
        path = Path(self.folder.name) / "rows.parquet"

        def rows(*_: object) -> Iterator[pl.DataFrame]:
            for piece in self.pieces:
                yield piece.collect(engine="streaming")

        def write() -> pl.LazyFrame:
            numbered = register_io_source(rows, schema=self.schema).with_row_index(NUMBER)
            try:
                numbered.sink_parquet(path, compression="lz4", row_group_size=_GROUP)
            except (OSError, PolarsError) as error:
                said = f"{path.parent}: the items cannot be kept there ({first_line(error)})"
                raise InputError(
                    f"{said}; name a folder with more space in TMPDIR, and start the program again"
                ) from None
            return pl.scan_parquet(path)

        return ThreadPoolExecutor(1).submit(write)

    @property
    def rows(self) -> pl.LazyFrame:
        return self.file.result()

    @cached_property
    def names(self) -> list[str]:
        """The columns that have values; the sentence and the answer are first."""
        some = next(self.pieces).head(_FIRST).select(pl.all().is_not_null().any()).collect()
        known = {own.name for own in some if own.item()}
        rest = self.all_rows.select(name for name in self.schema if name not in known)  # few columns, if any
        known |= {own.name for own in rest.select(pl.all().is_not_null().any()).collect() if own.item()}
        first = (MODEL, *first_columns(self.runs[0]), "condition", *TEXTS, "expected", "answer", FAILED, "logprob")
        return [name for name in dict.fromkeys([*first, *self.schema]) if name in known]

    @cached_property
    def columns(self) -> list[pl.Expr]:
        """The columns as the page has them, which knows numbers and texts."""
        return [_on_page(name, self.schema[name]) for name in self.names]

    def at(self, numbers: pl.Series, columns: Sequence[pl.Expr]) -> pl.DataFrame:
        """The rows of these numbers, in their order."""
        if numbers.is_empty():
            return self.schema.to_frame().select(columns)
        near = pl.col(NUMBER).is_between(numbers.min(), numbers.max())  # other groups of the file are not read
        rows = self.rows.filter(near & pl.col(NUMBER).is_in(numbers.implode())).select(columns)
        return rows.collect(engine="streaming")[numbers.arg_sort().arg_sort()]

    def numbers(self, query: Query, start: int, count: int) -> pl.Series:
        """The numbers of wanted rows in their order: those without a value last, equal ones as they are."""
        if query.order:
            return _order(self, replace(query, start=0, length=0, draw=0)).part(start, count)
        return _numbers(self, _unordered(query)).slice(start, count)

    def wanted(self, query: Query) -> pl.LazyFrame:
        """The rows that a question lets through in their order, with all columns as the run has them."""

        def rows(columns: Sequence[str] | None, *_: object) -> Iterator[pl.DataFrame]:
            own = [pl.col(name) for name in (self.schema if columns is None else columns)]
            step = 2 * _ROWS if query.order else _ROWS  # rows in an order are looked for everywhere
            for start in range(0, max(1, len(_numbers(self, _unordered(query)))), step):
                yield from self.at(self.numbers(query, start, step), own).iter_slices(_GROUP)

        return register_io_source(rows, schema=self.schema)

    def page(self, query: Query) -> dict[str, Any]:
        """Some of the wanted rows, how many are wanted, and how many there are, as DataTables reads them."""
        length, wanted = min(query.length, MOST_ROWS), self.total
        is_plain = not query.order and query.filters.expression(self.columns, self.schema) is None
        if is_plain and not self.file.done():
            rows = self._from_pieces(query.start, length)
        else:
            rows = self.at(self.numbers(query, query.start, length), self.columns)
            wanted = len(_numbers(self, _unordered(query)))
        return {"draw": query.draw, "data": rows.rows(), "recordsTotal": self.total, "recordsFiltered": wanted}

    def _from_pieces(self, start: int, count: int) -> pl.DataFrame:
        """Rows as the runs have them, for which nobody waits until the file is written."""
        found = self.schema.to_frame().select(self.columns)
        for piece in self.pieces:
            rows: int = piece.select(pl.len()).collect().item()
            if start < rows:
                some = piece.select(self.columns).slice(start, count - len(found))
                found = pl.concat([found, some.collect(engine="streaming")])
            start = max(0, start - rows)
            if len(found) == count:
                break
        return found

    def groups(self, query: Query, number: int | str) -> dict[str, Any]:
        """For each value of a column, the most frequent first: value, wanted rows, those judged, those that fail."""
        by, failed = find(self.columns, str(number)), pl.col(FAILED)
        # Values are counted by their hashes: few of many texts are in memory at a time.
        rows = _filtered(self, query).with_columns(hash=by.hash())
        frequent, of = _frequent(rows.select("hash").collect(engine="streaming").to_series())
        counts = [pl.len().alias("n"), failed.count().alias("judged"), failed.sum().alias("wrong")]
        counted = rows.filter(pl.col("hash").is_in(frequent.implode())).group_by("hash").agg(pl.min(NUMBER), *counts)
        most = counted.collect(engine="streaming")
        values = self.at(most[NUMBER], [by]).to_series().alias("value")
        groups = most.select(values, "n", "judged", "wrong").sort("n", "value", descending=[True, False])
        return {"groups": groups.rows(), "of": of}

    @cached_property
    def keys(self) -> list[int]:
        """Of the columns, those that all rows of an item share."""
        run = self.runs[0]
        named = run.named_for_people(run.sentence_rows().collect_schema().names())
        shared, apart = run.minimal_pairs
        known = [name for name in run.sentence_keys if name not in apart and name in named]
        is_number = len(self.runs) == 1 and shared == "item"  # which is found faster than words
        keys = [named[name] for name in ([] if is_number else known) or [shared]]
        return [number for number, name in enumerate(self.names) if name in keys]

    def sample(self, most: int) -> pl.LazyFrame:
        """All rows, or those of items that are drawn at random, with seed 0, so that about so many rows remain."""
        rows = self.rows.drop(NUMBER)
        if self.total <= most:
            return rows
        keys = [self.names[number] for number in self.keys]
        known = rows.select(keys).unique(maintain_order=True).collect(engine="streaming")
        drawn = known.sample(max(1, len(known) * most // self.total), seed=0)
        return rows.join(drawn.lazy(), on=keys, how="semi", nulls_equal=True, maintain_order="left")


def _frequent(values: pl.Series) -> tuple[pl.Series, int]:
    """The `MOST_GROUPS` most frequent values, and how many different ones there are."""
    found = values.sort().rle().struct.unnest()
    return found.top_k(MOST_GROUPS, by="len")["value"], len(found)


def _unordered(query: Query) -> Query:
    return replace(query, order=(), start=0, length=0, draw=0)


def _filtered(items: Items, query: Query) -> pl.LazyFrame:
    wanted = query.filters.expression(items.columns, items.schema)
    return items.rows if wanted is None else items.rows.filter(wanted)


@lru_cache(maxsize=2)  # of the last question, whose pages are asked for one by one, and of all rows
def _numbers(items: Items, query: Query) -> pl.Series:
    """The numbers of the wanted rows, as the runs have them."""
    return _filtered(items, query).select(NUMBER).collect(engine="streaming").to_series()


@lru_cache(maxsize=1)
def _order(items: Items, query: Query) -> Order:
    column, way = query.order[0]
    by = find(items.columns, str(column))
    _order.cache_clear()  # two orders are never in memory
    return Order.of(_filtered(items, query), by, descending=way == "desc")


def _for_people(rows: pl.LazyFrame, run: Run, model: str) -> pl.LazyFrame:
    found = run.for_people(rows)
    return found.with_columns(pl.lit(model).alias(MODEL)) if model else found


def _on_page(name: str, kind: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if kind == pl.List:
        return column.list.join(", ").alias(name)
    if kind == pl.Boolean:
        return pl.when(column).then(pl.lit("yes")).when(~column).then(pl.lit("no")).alias(name)
    return column
