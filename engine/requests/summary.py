"""From the items of an experiment to the rows of summary.parquet.

Items become arrays first: a question to a frame takes a tenth of a millisecond, and a summary has hundreds.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.numerals import fixed
from ..basics.printable import counted
from ..statistics.clusters import (
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
from ..statistics.p_values import holm
from .items import ALL, RANGES, by_split

UNKNOWN = 0
"""The number of an item that has no word in a column, such as no cluster."""
Estimated = tuple[float, float | None, float | None, int, int | None, float | None]
"""value, low, high, n, clusters and design effect: see `estimated`."""
VERSUS = " vs "
DIFFERENCE, P_VALUE, HOLM = "difference", "p", "p_holm"
SCHEMA = {
    **dict.fromkeys(("dataset", "condition", "split", "metric"), pl.String),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    **dict.fromkeys(("n", "clusters"), pl.Int64),
    **dict.fromkeys(("design_effect", "detectable"), pl.Float64),
    "tests": pl.Int64,
}


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


def _splits(items: pl.DataFrame) -> dict[tuple[str, str, str], NDArray[np.int64]]:
    """Data set, condition and split → the positions of its items, in the order of the first item; `all` first."""
    keys = ("dataset", "condition", "splits")
    # Rows with the same splits first: there are few such groups, and each has a list of splits.
    alike = items.select(keys).with_row_index("row").group_by(keys, maintain_order=True).agg("row")
    each = by_split(alike).drop_nulls("splits")
    groups: dict[tuple[str, str, str], list[NDArray[np.uint32]]] = {}
    for (dataset, condition, split), rows in zip(each.select(keys).iter_rows(), each["row"], strict=True):
        groups.setdefault((str(dataset), str(condition), split), []).append(rows.to_numpy())
    found = {key: np.sort(np.concatenate(own)).astype(np.int64) for key, own in groups.items()}
    places = {key: place for place, key in enumerate(dict.fromkeys(key[:2] for key in found))}
    return {key: found[key] for key in sorted(found, key=lambda key: (places[key[:2]], key[2] != ALL))}


def _outcomes(items: pl.DataFrame, metrics: Iterable[str]) -> dict[str, Outcomes]:
    return {metric: Outcomes.of(items[metric]) for metric in metrics}


def numbered(words: pl.Series) -> NDArray[np.int64]:
    """Words as numbers from 1, in the order of the alphabet, int64 [n]; null is `UNKNOWN`."""
    if words.null_count() == len(words):  # such a column may have no type
        return np.full(len(words), UNKNOWN)
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
    value: float  # a fraction, correlation or p, with its 95 % interval
    low: float | None
    high: float | None
    n: int  # of items
    clusters: int | None = None  # null where items are independent draws
    design_effect: float | None = None  # variance of the value, in units of that of independent draws
    detectable: float | None = None  # of a difference: the smallest true one that is found with a power of 80 %
    tests: int | None = None  # of a corrected p: the tests that it is corrected for


def frame(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """Rows as summary.parquet has them: the fields of `Row`, the last ones only where they are known."""
    return pl.DataFrame([Row(*row) for row in rows], schema=SCHEMA, orient="row")


def names_in(split: str) -> tuple[str, ...]:
    """What a split can be named for: its name, or what stands behind the column of groups."""
    return split, split.partition(": ")[2], split.partition("=")[2]


def means(items: pl.DataFrame, metrics: Sequence[str]) -> list[Row]:
    """Every metric in every split, with its 95 % interval, which allows for clusters.

    A split that has the name of its one cluster, such as a relation of LAMA, is about it alone: its items are draws.
    """
    items = items.filter(pl.any_horizontal(pl.col(metrics).is_not_null())) if metrics else items.clear()
    outcomes, clusters, rows = _outcomes(items, metrics), numbered(items["cluster"]), list[Row]()
    names = dict(pl.DataFrame({"name": items["cluster"], "number": clusters}).unique().iter_rows())
    for (dataset, condition, split), places in _splits(items).items():
        for metric, found in outcomes.items():
            own = places[found.known[places]]
            if len(own):
                range_ = None if found.yes_or_no else RANGES.get(metric)
                labels = clusters[own]
                alone = any((labels == names.get(name)).all() for name in names_in(split))
                labels = np.full(len(own), UNKNOWN) if alone else labels
                estimate = _estimated(found.values[own], labels, yes_or_no=found.yes_or_no, range_=range_)
                rows.append(Row(dataset, condition, split, metric, *estimate))
    return rows


def cluster_means(items: pl.DataFrame, metrics: Sequence[str], suffix: str) -> list[Row]:
    """Every metric (with a suffix) in every split of several clusters: the mean of their means; n counts clusters."""
    outcomes, clusters = _outcomes(items, metrics), numbered(items["cluster"])
    rows: list[Row] = []
    for (dataset, condition, split), places in _splits(items).items():
        for metric, found in outcomes.items():
            own = places[found.known[places] & (clusters[places] != UNKNOWN)]
            if not len(own) or (clusters[own] == clusters[own[0]]).all():
                continue
            part = pl.DataFrame({"cluster": clusters[own], "value": found.values[own]})
            by_cluster = part.group_by("cluster", maintain_order=True).agg(pl.col("value").mean())["value"].to_numpy()
            estimate = _independent(by_cluster, (0.0, 1.0) if found.yes_or_no else RANGES.get(metric))
            rows.append(Row(dataset, condition, split, f"{metric}{suffix}", *estimate, len(by_cluster)))
    return rows


def compared(names: Iterable[str], known: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Of the names those that compare two of the known ones, in their order: name → both. A known one may say "vs"."""
    single = dict.fromkeys(known)
    places = {name: [found.start() for found in re.finditer(VERSUS, name)] for name in dict.fromkeys(names)}
    sides = {
        name: (name[:place], name[place + len(VERSUS) :])
        for name, own in places.items()
        for place in own
        if name not in single
    }
    return {name: both for name, both in sides.items() if set(both) <= single.keys()}


def difference_rows(key: tuple[str, str, str], name: str, outcome: str, found: PairedDifference) -> list[Row]:
    """The row of a difference and that of its p; `name` is the metric of the difference, `outcome` the compared one."""
    clusters = found.clusters if found.clusters < found.n else None
    difference = Row(*key, name, found.value, found.low, found.high, found.n, clusters, detectable=found.detectable)
    return [difference, Row(*key, f"{P_VALUE}:{outcome}", found.p, None, None, found.n, clusters)]


def paired(
    first: pl.Series,
    second: pl.Series,
    clusters: pl.Series,
    crossed: pl.Series | None = None,
    range_: tuple[float, float] = (-inf, inf),
) -> PairedDifference:
    """Two outcomes of the same items; `range_` is what the difference of numbers can be."""
    one, other = Outcomes.of(first), Outcomes.of(second)
    second_kind = None if crossed is None else numbered(crossed)
    return _paired(one.values, other.values, numbered(clusters), second_kind, range_, yes_or_no=one.yes_or_no)


def _paired(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    clusters: NDArray[np.int64],
    crossed: NDArray[np.int64] | None = None,
    range_: tuple[float, float] = (-inf, inf),
    *,
    yes_or_no: bool,
) -> PairedDifference:
    """As `paired`, with clusters as `numbered` gives them."""
    kind = np.bool_ if yes_or_no else np.float64
    known = (clusters != UNKNOWN).all()
    return paired_difference(
        first.astype(kind), second.astype(kind), clusters if known else None, crossed, range_=range_
    )


def with_holm(summary: pl.DataFrame) -> pl.DataFrame:
    """A summary with a row of metric `p_holm:…` after each of `p:…`, adjusted over all of them; `tests` counts them."""
    tested = summary["metric"].str.starts_with(f"{P_VALUE}:")
    p = summary.filter(tested)["value"].to_numpy()
    adjusted = summary.with_row_index("order").filter(tested)
    adjusted = adjusted.with_columns(
        value=pl.Series(holm(p)),
        tests=pl.lit(len(p), pl.Int64),
        metric=pl.col("metric").str.replace(f"{P_VALUE}:", f"{HOLM}:", literal=True),
    )
    both = pl.concat([summary.with_row_index("order"), adjusted])
    return both.sort("order", maintain_order=True).drop("order")


def correction_note(adjusted: Mapping[str, Any], test: str) -> str:
    """What stands below a table with corrected p-values; `adjusted` is any row of the summary with such a p."""
    return f"p: {test}; p (Holm): corrected for the {adjusted['tests']:,} tests of this run"


def detectable_note(differences: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the run can find, as a line below a table of differences of fractions; none where that cannot be told."""
    known = [100 * row["detectable"] for row in differences if row.get("detectable") is not None]
    if not known:
        return []
    points = " to ".join(dict.fromkeys((fixed(min(known), 1, (0,)), fixed(max(known), 1, (0,)))))
    return [f"true differences from {points} points on are found with a power of 80 %"]


def differences_in(summary: pl.DataFrame) -> pl.DataFrame:
    """The differences of a summary with a test: dataset, condition, split, of, value, low, high, p, p_holm."""
    kind, keys = pl.col("metric").str.splitn(":", 2).struct, ("dataset", "condition", "split", "of")
    long = summary.with_columns(metric=kind[0], of=kind[1])
    found = long.filter(metric=DIFFERENCE).select(*keys, "value", "low", "high")
    for name in (P_VALUE, HOLM):
        found = found.join(long.filter(metric=name).select(*keys, pl.col("value").alias(name)), on=keys)
    return found


def disagreements(found: pl.DataFrame) -> list[str]:
    """Why intervals and tests of the same differences disagree, as lines below a table; none where they agree."""
    excludes = (pl.col("low") > 0) | (pl.col("high") < 0)
    small, smaller = (pl.col(name) < 1 - CONFIDENCE for name in (P_VALUE, HOLM))
    why = {
        "an interval without 0, but p is 0.05 or more: the interval is an approximation, and where few clusters "
        "differ p cannot be small; p decides": excludes & ~small,
        "an interval with 0, but p is below 0.05: p asks only whether there is a difference, and is exact where the "
        "interval is rather too wide; p decides": ~excludes & small,
        "an interval without 0, but p (Holm) is 0.05 or more: an interval is about its row alone, p (Holm) about all "
        "tests": excludes & small & ~smaller,
    }
    known = found.drop_nulls(["low", "high", P_VALUE])
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
        ends = proportion_interval(both) if own.yes_or_no else student_interval(both)
        return both.value, *ends, both.n, clusters.n_unique(), both.design_effect if own.yes_or_no else None
    numbers = np.full(len(values), UNKNOWN) if clusters is None or clusters.null_count() else numbered(clusters)
    return _estimated(own.values, numbers, yes_or_no=own.yes_or_no, range_=RANGES.get(metric))


def _estimated(
    values: NDArray[np.float64],
    clusters: NDArray[np.int64],
    *,
    yes_or_no: bool,
    range_: tuple[float, float] | None = None,
) -> Estimated:
    """As `estimated`, with clusters as `numbered` gives them."""
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
