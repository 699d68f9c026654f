"""The items of some runs as one lazy frame, and what a page asks of it: some rows, groups with counts, one item.

Nothing is kept in memory but the numbers of the rows that were asked for last, in their order: 4 bytes a row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...library.run import Run
from ...library.sentences import FAILED, TEXTS
from ..comparison.estimates import MODEL
from ..comparison.runs import labels, open_alike
from ..report.row_filters import filtered, ordered

MOST_GROUPS = 200
MOST_ALIKE = 100  # rows of one item
_NUMBER = "number of the row"
_PLACE = "the runs"
_FOUND = "found by the search"
_KEYS = ("dataset", "condition", "item", "role", "candidate", "row")
_FIRST = 1_000  # rows of a sort that are found without the whole order


@dataclass(frozen=True)
class Query:
    """Which rows are wanted, and in which order."""

    where: tuple[str, ...] = ()  # as `--where` of `negengine show`
    search: str = ""  # what a sentence, its expected word or its answer holds, in lower or upper case
    sort: str = ""  # a column, or `-COLUMN` for the largest first; without one, as the runs have them

    @classmethod
    def read(cls, document: Any) -> "Query":
        """From a page's JSON; another form is an InputError."""
        match document:
            case {"where": list(where), "search": str(search), "sort": str(sort)} if all(
                isinstance(text, str) for text in where
            ):
                return cls(tuple(where), search, sort)
        raise InputError("a question has `where`, a list of texts, and the texts `search` and `sort`")


@dataclass(frozen=True, eq=False)
class Items:
    """All items of some runs of one kind."""

    runs: Sequence[Run]

    @classmethod
    def open(cls, runs: Sequence[Any]) -> "Items":
        return cls(open_alike(runs))

    @cached_property
    def rows(self) -> pl.LazyFrame:
        """The columns of `Run.sentences`; those of several runs have the model's name before them."""
        return self._rows(lambda _: [])

    def _rows(self, more: Callable[[Run], Sequence[pl.Expr]]) -> pl.LazyFrame:
        frames = [run.for_people(run.sentence_rows().with_columns(more(run))) for run in self.runs]
        if len(frames) > 1:
            named = zip(frames, labels(self.runs), strict=True)
            frames = [frame.select(pl.lit(name).alias(MODEL), pl.all()) for frame, name in named]
        return pl.concat(frames, how="diagonal_relaxed")

    @cached_property
    def schema(self) -> pl.Schema:
        return self.rows.collect_schema()

    @cached_property
    def columns(self) -> list[dict[str, str]]:
        """Name and kind (text, number, truth) of each column that has values; the sentence and the answer are first."""
        some = self._at(self.rows.select(self._places).head(_FIRST).collect(engine="streaming"))
        known = {name for name in self.schema if some is not None and some[name].count()}
        rest = self.rows.select(name for name in self.schema if name not in known)  # few columns, if any
        known |= {own.name for own in rest.select(pl.all().is_not_null().any()).collect() if own.item()}
        own = self.runs[0].own_columns.values()
        first = (MODEL, *own, "condition", *TEXTS, "expected", "answer", FAILED, "logprob")
        names = dict.fromkeys([*(name for name in first if name in self.schema), *self.schema])
        return [{"name": name, "kind": _kind(self.schema[name])} for name in names if name in known]

    @cached_property
    def total(self) -> int:
        return int(self.rows.select(pl.len()).collect().item())

    def wanted(self, query: Query, *, numbered: bool = False) -> pl.LazyFrame:
        """The rows that a question lets through, in their order."""
        rows = self._rows(lambda run: [run.holds(query.search).alias(_FOUND)]) if query.search else self.rows
        rows = filtered(rows.with_row_index(_NUMBER) if numbered else rows, query.where, _PLACE, "filter")
        rows = rows.filter(_FOUND).drop(_FOUND) if query.search else rows
        return ordered(rows, query.sort, _PLACE, "sort") if query.sort else rows

    def page(self, query: Query, start: int, count: int) -> dict[str, Any]:
        """Some of the wanted rows, how many are wanted, and how many there are."""
        if not (query.where or query.search or (query.sort and start + count > _FIRST)):
            places, wanted = self.wanted(query).select(self._places).slice(start, count), self.total
        else:
            numbers = _numbers(self, query)
            places, wanted = self.rows.select(pl.col(self._places).gather(numbers.slice(start, count))), len(numbers)
        if (found := self._at(places.collect(engine="streaming"))) is None:
            found = self.wanted(query).slice(start, count).collect(engine="streaming")
        return {"rows": values(found), "wanted": wanted, "total": self.total}

    def _at(self, places: pl.DataFrame) -> pl.DataFrame | None:
        """The rows of these places, in their order; None if nothing tells two of them apart."""
        # A filter composes these rows alone, a slice of a union all rows.
        same = [pl.col(name).is_in(places[name].unique().implode(), nulls_equal=True) for name in places.columns]
        rows = self.rows.filter(same).collect(engine="streaming")
        found = places.join(rows, on=places.columns, how="left", nulls_equal=True, maintain_order="left")
        return found.select(rows.columns) if len(found) == len(places) else None

    @cached_property
    def _named(self) -> dict[str, str]:
        return self.runs[0].named_for_people(self.runs[0].sentence_rows().collect_schema().names())

    @cached_property
    def _places(self) -> list[str]:
        """The columns that tell rows apart."""
        return [*([MODEL] if len(self.runs) > 1 else []), *(self._named[name] for name in _KEYS if name in self._named)]

    def groups(self, query: Query, column: str) -> dict[str, Any]:
        """For each value of a column, the most frequent first: wanted rows, those that are judged, those that fail."""
        if column not in self.schema:
            raise InputError(f"the runs have no column {column!r}")
        counts = [pl.len().alias("n"), pl.col(FAILED).count().alias("judged"), pl.col(FAILED).sum().alias(FAILED)]
        rows = self.wanted(Query(query.where, query.search)).group_by(pl.col(column).alias("value")).agg(counts)
        found = rows.sort("n", "value", descending=[True, False]).collect(engine="streaming")
        return {"groups": found.head(MOST_GROUPS).to_dicts(), "of": len(found)}

    def alike(self, query: Query, number: int) -> dict[str, Any]:
        """Of one of the wanted rows: the rows of all models and conditions that belong to the same item."""
        if not (rows := self.page(query, number, 1)["rows"]):
            raise InputError(f"there is no row {number:,}")
        same = [pl.col(key).eq_missing(rows[0][key]) for key in self.keys]
        return {"rows": values(self.rows.filter(same).head(MOST_ALIKE).collect(engine="streaming"))}

    @cached_property
    def keys(self) -> list[str]:
        """The columns that all rows of an item share."""
        shared, apart = self.runs[0].minimal_pairs
        known = [name for name in self.runs[0].sentence_keys if name not in apart and name in self._named]
        is_number = len(self.runs) == 1 and shared == "item"  # which is found faster than words
        return [self._named[name] for name in ([] if is_number else known) or [shared]]

    def sample(self, most: int) -> pl.LazyFrame:
        """All rows, or those of items that are drawn at random, with seed 0, so that about so many rows remain."""
        if self.total <= most:
            return self.rows
        known = self.rows.select(self.keys).unique(maintain_order=True).collect(engine="streaming")
        drawn = known.sample(max(1, len(known) * most // self.total), seed=0)
        return self.rows.join(drawn.lazy(), on=self.keys, how="semi", nulls_equal=True, maintain_order="left")


@lru_cache(maxsize=1)  # of the last question, whose pages are asked for one by one
def _numbers(items: Items, query: Query) -> pl.Series:
    """The numbers of the wanted rows, in their order."""
    return items.wanted(query, numbered=True).select(_NUMBER).collect(engine="streaming").to_series()


def _kind(dtype: pl.DataType) -> str:
    return "truth" if dtype == pl.Boolean else "number" if dtype.is_numeric() else "text"


def values(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which has no number that is not finite."""
    floats = pl.col(pl.Float32, pl.Float64)
    return rows.with_columns(pl.when(floats.is_finite()).then(floats)).to_dicts()
