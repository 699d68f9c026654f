"""The items of some runs, and what a page asks of it: some rows, groups with counts, one item.

Nothing is kept but the numbers of the rows that were asked for last, in their order: 4 bytes a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import polars as pl

from ...basics.errors import InputError
from ...library.blocks import Block, Blocks, Order
from ...library.run import Run
from ...library.sentences import FAILED, TEXTS
from ..comparison.estimates import MODEL
from ..comparison.runs import labels, open_alike
from ..report.chosen_sentences import first_columns
from ..report.row_filters import Filter, Sorting, conditions, known, ordered

MOST_GROUPS = 200
MOST_ALIKE = 100  # rows of one item
_PLACE = "the runs"
_SEARCHED = (*TEXTS, "expected", "answer")
_FIRST = 1_000  # rows that tell which columns have values


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
        return cls(open_alike(runs))

    @cached_property
    def blocks(self) -> Blocks:
        """The columns of `Run.sentences`; those of several runs have the model's name before them."""
        names = labels(self.runs) if len(self.runs) > 1 else [""]
        each = zip(self.runs, names, strict=True)
        return Blocks([_for_people(block, run, name) for run, name in each for block in run.sentence_blocks()])

    @property
    def rows(self) -> pl.LazyFrame:
        return self.blocks.rows

    @property
    def total(self) -> int:
        return self.blocks.total

    @cached_property
    def columns(self) -> list[dict[str, str]]:
        """Name and kind (text, number, truth) of each column that has values; the sentence and the answer are first."""
        some = self.blocks.at(pl.int_range(min(self.total, _FIRST), dtype=pl.UInt32, eager=True))
        known = {name for name in self.blocks.schema if some[name].count()}
        rest = self.rows.select(name for name in self.blocks.schema if name not in known)  # few columns, if any
        known |= {own.name for own in rest.select(pl.all().is_not_null().any()).collect() if own.item()}
        first = (MODEL, *first_columns(self.runs[0]), "condition", *TEXTS, "expected", "answer", FAILED, "logprob")
        names = dict.fromkeys([*(name for name in first if name in self.blocks.schema), *self.blocks.schema])
        return [{"name": name, "kind": _kind(self.blocks.schema[name])} for name in names if name in known]

    def conditions(self, query: Query) -> list[pl.Expr]:
        found = conditions(self.blocks.schema, query.where, _PLACE, "filter")
        if query.search:
            texts = pl.col(name for name in _SEARCHED if self.blocks.schema.get(name) == pl.String)
            found.append(pl.any_horizontal(texts.str.to_lowercase().str.contains(query.search.lower(), literal=True)))
        return found

    def wanted(self, query: Query) -> pl.LazyFrame:
        """The rows that a question lets through, in their order."""
        rows = self.rows.filter(*self.conditions(query), True)
        return ordered(rows, query.sort, _PLACE, "sort") if query.sort else rows

    def page(self, query: Query, start: int, count: int) -> dict[str, Any]:
        """Some of the wanted rows, how many are wanted, and how many there are."""
        numbers, order = _asked(self, query)
        rows = self.blocks.at(order.page(start, count) if order else numbers.slice(start, count))
        return {"rows": values(rows), "wanted": len(numbers), "total": self.total}

    def groups(self, query: Query, column: str) -> dict[str, Any]:
        """For each value of a column, the most frequent first: wanted rows, those that are judged, those that fail."""
        if column not in self.blocks.schema:
            raise InputError(f"the runs have no column {column!r}")
        wanted, by, of = self.conditions(query), pl.col(column), None
        if column in TEXTS:  # nearly as many as rows: only those that are shown are built whole
            hashes = (
                rows.filter(*wanted, True).select(by.hash()).collect(engine="streaming")
                for _, rows in self.blocks.each()
            )
            found, n = np.unique(pl.concat(hashes).to_series(), return_counts=True)
            frequent = pl.Series(found[np.argsort(-n, kind="stable")[:MOST_GROUPS]])
            wanted, of = [*wanted, by.hash().is_in(frequent.implode())], len(n)
        counts = [pl.len().alias("n"), pl.col(FAILED).count().alias("judged"), pl.col(FAILED).sum().alias(FAILED)]
        each = (rows.filter(*wanted, True).group_by(by.alias("value")).agg(counts) for _, rows in self.blocks.each())
        counted = pl.concat([rows.collect(engine="streaming") for rows in each]).group_by("value").sum()
        counted = counted.sort("n", "value", descending=[True, False])
        return {"groups": counted.head(MOST_GROUPS).to_dicts(), "of": of or len(counted)}

    def alike(self, query: Query, number: int) -> dict[str, Any]:
        """Of one of the wanted rows: the rows of all models and conditions that belong to the same item."""
        if not (rows := self.page(query, number, 1)["rows"]):
            raise InputError(f"there is no row {number:,}")
        same = [pl.col(key).eq_missing(rows[0][key]) for key in self.keys]
        return {"rows": values(self.rows.filter(same).head(MOST_ALIKE).collect(engine="streaming"))}

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
def _asked(items: Items, query: Query) -> tuple[pl.Series, Order | None]:
    """The numbers of the wanted rows, and their order."""
    numbers = items.blocks.found(items.conditions(query))
    if query.sort is None:
        return numbers, None
    known(query.sort.column, items.blocks.schema.names(), f"sort {query.sort.column}", _PLACE)
    return numbers, Order(items.blocks, numbers, *query.sort)


def _for_people(block: Block, run: Run, model: str) -> Block:
    def shown(rows: pl.LazyFrame) -> pl.LazyFrame:
        found = run.for_people(block.shown(rows))
        return found.select(pl.lit(model).alias(MODEL), pl.all()) if model else found

    return Block(block.recorded, shown)


def _kind(dtype: pl.DataType) -> str:
    return "truth" if dtype == pl.Boolean else "number" if dtype.is_numeric() else "text"


def values(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which has no number that is not finite."""
    floats = pl.col(pl.Float32, pl.Float64)
    return rows.with_columns(pl.when(floats.is_finite()).then(floats)).to_dicts()
