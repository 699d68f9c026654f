"""From the items of an experiment to the rows of summary.parquet.

Items become arrays first: a question to a frame takes a tenth of a millisecond, and a summary has hundreds.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.frames import schema_of
from ..basics.numerals import fixed, significant
from ..basics.printable import counted
from ..statistics.clusters import (
    FEWEST,
    ClusteredMean,
    bounded_interval,
    cluster_sums,
    clustered_mean,
    crossed_mean,
    proportion_interval,
    student_interval,
)
from ..statistics.differences import PairedDifference, paired_difference
from ..statistics.intervals import CONFIDENCE, Ends, mean, proportion, within
from ..statistics.p_values import SMALLEST_P, holm
from .items import ALL, RANGES, by_split

UNKNOWN = 0
"""The number of an item that has no word in a column, such as no cluster."""
Estimated = tuple[float, float | None, float | None, int, int | None, float | None]
"""value, low, high, n, clusters and design effect: see `estimated`."""
COMPARES = pl.col("other_split").is_not_null()
"""Which rows of a summary are differences: of the side that stands first minus the other one."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A metric of items."""

    values: NDArray[np.float64]  # [n]; undefined where it does not apply to an item
    known: NDArray[np.bool_]  # [n], where it applies
    yes_or_no: bool  # whether it is a truth value

    @classmethod
    def of(cls, column: pl.Series) -> "Outcomes":
        values = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        return cls(values, column.is_not_null().to_numpy(), column.dtype == pl.Boolean)


class Cell(NamedTuple):
    """What figures are of: all items of a condition, or a group of them."""

    dataset: str
    condition: str
    split: str = ALL
    column: str | None = None  # that the group comes from; None for the whole


class _Places(NamedTuple):
    rows: NDArray[np.int64]
    in_clusters: bool  # False where the group is itself a cluster


def _splits(items: pl.DataFrame, clustered_by: str | None = None) -> dict[Cell, _Places]:
    """The positions of the items of each cell, in the order of the first item; the whole first."""
    keys = [name for name in ("dataset", "condition", "splits", "columns") if name in items.columns]
    # Rows with the same splits first: there are few such groups, and each has a list of splits.
    alike = items.select(keys).with_row_index("row").group_by(keys, maintain_order=True).agg("row")
    each = by_split(alike.with_columns(cluster=pl.lit(ALL)), clustered_by).drop_nulls("split")
    groups: dict[Cell, list[NDArray[np.uint32]]] = {}
    clustered: dict[Cell, bool] = {}
    for *key, cluster, rows in each.select(*Cell._fields, "cluster", "row").iter_rows():
        dataset, condition, split, column = key
        cell = Cell(str(dataset), str(condition), split, column)
        groups.setdefault(cell, []).append(np.array(rows))
        clustered[cell] = cluster is not None
    found = {cell: np.sort(np.concatenate(own)).astype(np.int64) for cell, own in groups.items()}
    places = {key: place for place, key in enumerate(dict.fromkeys(cell[:2] for cell in found))}
    in_order = sorted(found, key=lambda cell: (places[cell[:2]], cell.column is not None))
    return {cell: _Places(found[cell], clustered[cell]) for cell in in_order}


def _cells(
    items: pl.DataFrame, metrics: Iterable[str], clustered_by: str | None
) -> Iterator[tuple[Cell, str, NDArray[np.float64], NDArray[np.int64], bool]]:
    """Of each metric in each cell the known values, their clusters, and whether they are truth values.

    Where the group is itself a cluster, its values are in none.
    """
    outcomes, clusters = {metric: Outcomes.of(items[metric]) for metric in metrics}, numbered(items["cluster"])
    for cell, (places, in_clusters) in _splits(items, clustered_by).items():
        for metric, found in outcomes.items():
            own = places[found.known[places]]
            yield cell, metric, found.values[own], clusters[own] if in_clusters else 0 * own, found.yes_or_no


def numbered(words: pl.Series) -> NDArray[np.int64]:
    """Words as numbers from 1, in the order of the alphabet, int64 [n]; null is `UNKNOWN`."""
    if words.null_count() == len(words):  # such a column may have no type
        return np.full(len(words), UNKNOWN)
    if words.dtype.is_integer() and not words.null_count():  # numbers already, from 1
        return words.to_numpy().astype(np.int64)
    if words.dtype == pl.Categorical:
        words = words.cast(pl.Enum(words.unique().drop_nulls().cast(pl.String).sort())).to_physical() + 1
        return words.fill_null(UNKNOWN).to_numpy().astype(np.int64)
    return words.rank("dense").fill_null(UNKNOWN).to_numpy().astype(np.int64)


class Row(NamedTuple):
    """A row of summary.parquet."""

    dataset: str
    condition: str
    split: str
    metric: str
    value: float  # a fraction, or any number, with its 95 % interval
    low: float | None
    high: float | None
    n: int  # of items
    clusters: int | None = None  # null where items are independent draws
    design_effect: float | None = None  # variance of the value, in units of that of independent draws
    detectable: float | None = None  # of a difference: the smallest true one that is found with a power of 80 %
    column: str | None = None  # that the group `split` comes from; null for all items
    other_condition: str | None = None  # of a difference: the second side; null for all other figures
    other_split: str | None = None
    other_column: str | None = None
    p: float | None = None  # of a difference with a test
    least_p: float | None = None  # the smallest p that the test can give
    p_holm: float | None = None  # p after Holm's correction
    tests: int | None = None  # those that it is corrected for
    test: Hashable = None  # the same for tests of the same differences, see `same_test`; the file does not have it

    @classmethod
    def of(cls, cell: Cell, metric: str, *figures: Any, **further: Any) -> "Row":
        """A row of a cell; `figures` are value, low, high, n …."""
        dataset, condition, split, column = cell
        return cls(dataset, condition, split, metric, *figures, **{"column": column, **further})


SCHEMA = {name: kind for name, kind in schema_of(Row).items() if name != "test"}


def frame(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """Rows as summary.parquet has them: the fields of `Row`, the last ones only where they are known."""
    return pl.DataFrame([Row(*row)[:-1] for row in rows], schema=SCHEMA, orient="row")


def means(items: pl.DataFrame, metrics: Sequence[str], clustered_by: str | None = None) -> list[Row]:
    """Every metric in every split, with its 95 % interval, which allows for clusters.

    `clustered_by` is as in `by_split`.
    """
    items = items.filter(pl.any_horizontal(pl.col(metrics).is_not_null())) if metrics else items.clear()
    return [
        Row.of(cell, metric, *_estimated(values, clusters, metric, yes_or_no=yes_or_no))
        for cell, metric, values, clusters, yes_or_no in _cells(items, metrics, clustered_by)
        if len(values)
    ]


def cluster_means(
    items: pl.DataFrame, metrics: Sequence[str], suffix: str, clustered_by: str | None = None
) -> list[Row]:
    """Every metric (with a suffix) in every split of several clusters: the mean of their means; n counts clusters.

    Fewer than `FEWEST` have no interval.
    """
    rows: list[Row] = []
    for cell, metric, values, clusters, yes_or_no in _cells(items, metrics, clustered_by):
        known = pl.DataFrame({"cluster": clusters, "value": values}).filter(pl.col("cluster") != UNKNOWN)
        each = known.group_by("cluster", maintain_order=True).agg(pl.col("value").mean())["value"].to_numpy()
        if len(each) > 1:
            range_ = (0.0, 1.0) if yes_or_no else RANGES.get(metric)
            estimate = _independent(each, range_) if len(each) >= FEWEST else (float(each.mean()), None, None)
            rows.append(Row.of(cell, f"{metric}{suffix}", *estimate, len(each)))
    return rows


def paired(
    first: pl.Series,
    second: pl.Series,
    clusters: pl.Series,
    crossed: pl.Series | None = None,
    range_: tuple[float, float] = (-inf, inf),
) -> PairedDifference:
    """Two outcomes of the same items; `range_` is what the difference of numbers can be."""
    one, other, of = Outcomes.of(first), Outcomes.of(second), numbered(clusters)
    kind = np.bool_ if one.yes_or_no else np.float64
    crossing = None if crossed is None else numbered(crossed)
    kinds = of if (of != UNKNOWN).all() else None, crossing
    return paired_difference(one.values.astype(kind), other.values.astype(kind), *kinds, range_=range_)


def same_test(keys: pl.DataFrame, first: pl.Series, second: pl.Series) -> Hashable:
    """A value that two tests share if the same rows, with these keys, have the same differences, or all turned round.

    So it is with right answers and first choices where every word is wanted, and with a group of all rows.
    """
    differences = first.cast(pl.Float64).to_numpy() - second.cast(pl.Float64).to_numpy()
    if (differences[differences != 0][:1] < 0).any():
        differences = -differences
    return keys.hash_rows().to_numpy().tobytes(), (differences + 0.0).tobytes()


def with_holm(rows: Iterable[Row]) -> list[Row]:
    """The rows with p corrected over all of their tests, and the number of these: see `holm`."""
    found = list(rows)
    tested = [place for place, row in enumerate(found) if row.p is not None]
    p, least = (np.array([getattr(found[place], field) for place in tested], np.float64) for field in ("p", "least_p"))
    adjusted, tests = holm(p, least, [found[place].test for place in tested])
    for place, p_holm in zip(tested, adjusted.tolist(), strict=True):
        found[place] = found[place]._replace(p_holm=p_holm, tests=tests)
    return found


def correction_note(tested: pl.DataFrame, test: str, of: str = " of this run") -> str:
    """What was tested and corrected, and what p can be; `tested` has p, least_p, n and tests."""
    # The same test may stand in several rows, and different ones may look alike here: so it is never called out of
    # reach by mistake.
    least = tested.unique(["p", "least_p", "n"])["least_p"].sort()
    least = least.filter(least < 1)
    if least.is_empty():
        return f"p: {test}; no item differs, so p is 1"
    ends = dict.fromkeys(significant(max(float(end), SMALLEST_P), 2) for end in (least[0], least[-1]))
    said = f"corrected for {counted(int(tested['tests'][0]), 'test')}{of} that can differ, each once"
    corrected = (own * (least <= own).sum() for own in least)
    never = "; too few clusters differ for a p (Holm) below 0.05" * (min(corrected) >= 1 - CONFIDENCE)
    return f"p: {test}; p (Holm): {said}; the least p that a test can give is {' to '.join(ends)}{never}"


def detectable_note(differences: pl.DataFrame) -> list[str]:
    """What the run can find, as a line below a table of differences of fractions; none where that cannot be told."""
    known = [100 * own for own in differences["detectable"].drop_nulls()]
    if not known:
        return []
    points = " to ".join(dict.fromkeys((fixed(min(known), 1, (0,)), fixed(max(known), 1, (0,)))))
    return [f"true differences of {points} points or more are found with 80 % power"]


def disagreements(found: pl.DataFrame) -> list[str]:
    """Why intervals and tests of the same differences disagree, as lines below a table; none where they agree."""
    excludes = (pl.col("low") > 0) | (pl.col("high") < 0)
    small, smaller = (pl.col(name) < 1 - CONFIDENCE for name in ("p", "p_holm"))
    why = {
        "an interval without 0, but p is 0.05 or more: the interval is an approximation, and where few clusters "
        "differ p cannot be small; p decides": excludes & ~small,
        "an interval with 0, but p is below 0.05: p asks only whether there is a difference, and is exact where the "
        "interval is rather too wide; p decides": ~excludes & small,
        "an interval without 0, but p (Holm) is 0.05 or more: an interval is about its row alone, p (Holm) about all "
        "tests": excludes & small & ~smaller,
    }
    known = found.drop_nulls(["low", "high", "p"])
    return [
        f"{counted(n, 'row has', 'rows have')} {text}" for text, which in why.items() if (n := len(known.filter(which)))
    ]


def estimated(
    values: pl.Series,
    clusters: pl.Series | None,
    metric: str = "",
    crossed: pl.Series | None = None,
) -> Estimated:
    """The mean of outcomes, without nulls, with its 95 % interval; `crossed` are clusters of a second kind.

    Items are independent draws without clusters, or where one is null.
    """
    own = Outcomes.of(values)
    if clusters is not None and crossed is not None:
        both = crossed_mean(own.values, numbered(clusters), numbered(crossed))
        ends = proportion_interval(both) if own.yes_or_no else _of_numbers(both, RANGES.get(metric))
        return both.value, *ends, both.n, clusters.n_unique(), both.design_effect if own.yes_or_no else None
    numbers = np.full(len(values), UNKNOWN) if clusters is None or clusters.null_count() else numbered(clusters)
    return _estimated(own.values, numbers, metric, yes_or_no=own.yes_or_no)


def _estimated(values: NDArray[np.float64], clusters: NDArray[np.int64], metric: str, *, yes_or_no: bool) -> Estimated:
    """As `estimated`, with clusters as `numbered` gives them."""
    range_ = None if yes_or_no else RANGES.get(metric)
    n, n_clusters = len(values), len(np.unique(clusters))
    if n_clusters == n or (clusters == UNKNOWN).any():
        return *(proportion(int(values.sum()), n) if yes_or_no else _independent(values, range_)), n, None, None
    found = clustered_mean(*cluster_sums(values, clusters), range_ or (0, 1))
    low, high = proportion_interval(found) if yes_or_no else _of_numbers(found, range_)
    return found.value, low, high, n, found.clusters, found.design_effect if yes_or_no else None


def _independent(
    values: NDArray[np.float64], range_: tuple[float, float] | None
) -> tuple[float, float | None, float | None]:
    if range_ is None:
        return mean(values)
    found = clustered_mean(values, np.ones(len(values), np.int64), range_)
    return found.value, *_of_numbers(found, range_)


def _of_numbers(found: ClusteredMean, range_: tuple[float, float] | None) -> Ends:
    if range_ is not None and all(map(isfinite, range_)):
        return bounded_interval(found, *range_)
    return within(student_interval(found), *(range_ or (-inf, inf)))
