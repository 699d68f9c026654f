"""Two sides of the same items, such as two conditions, patterns or models: the difference, its interval and its test.

Contrasts are rows of a summary; their sides may also be groups that share nothing. `paired_differences` are a frame.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.numerals import FRACTION
from ..statistics.differences import unpaired_difference
from ..statistics.intervals import within
from ..statistics.p_values import holm
from .items import ALL, RANGES, by_split, range_of_difference
from .summary import Cell, Row, estimated, numbered, paired, same_test

_FIGURES = {
    **dict.fromkeys(("n", "clusters"), pl.Int64),
    **dict.fromkeys(("difference", "low", "high"), pl.Float64),
    "crossed": pl.Int64,
    "unit": pl.String,
    **dict.fromkeys(("detectable", "p", "least_p"), pl.Float64),
    **dict.fromkeys(("both", "only_first", "only_second", "neither"), pl.Int64),
}


@dataclass(frozen=True)
class Contrast:
    """A metric on two sides, in rows that share a value of the column `by`."""

    metric: str
    first: Cell
    second: Cell
    by: str = "pair"  # where its values are null on a side, the sides are groups of other rows
    preferred: str = ""  # a metric of the summary: the share of rows in which the first side has the larger value


def contrast_rows(rows: pl.DataFrame, wanted: Sequence[Contrast], clustered_by: str | None = None) -> Iterator[Row]:
    """For each contrast the difference (first - second) with its p; both allow for clusters.

    `rows` have the keys of requests and the metrics; `clustered_by` is as in `by_split`. A contrast with an empty side
    has no row.
    """
    if not wanted:
        return
    metrics = list(dict.fromkeys(own.metric for own in wanted))
    keys = ("dataset", "condition", "splits", "columns", "cluster", *(own.by for own in wanted))
    used = rows.select(*(name for name in dict.fromkeys(keys) if name in rows.columns), *metrics)
    each = by_split(used.filter(pl.any_horizontal(pl.col(metrics).is_not_null())), clustered_by)
    cells = each.partition_by(*Cell._fields, as_dict=True)
    for own in wanted:
        first, second = (
            cells.get(tuple(side), each.clear()).drop_nulls(own.metric) for side in (own.first, own.second)
        )
        if first.is_empty() or second.is_empty():
            continue
        _, *side = own.second
        sides = dict(zip(("other_condition", "other_split", "other_column"), side, strict=True))
        one, other = (_by(side, own.by, own.metric) for side in (first, second))
        if one[own.metric].dtype != other[own.metric].dtype:
            one, other = one.cast({own.metric: pl.Float64}), other.cast({own.metric: pl.Float64})
        both = one.join(other.select(own.by, second=own.metric), on=own.by, maintain_order="left")
        range_ = range_of_difference(own.metric, yes_or_no=rows[own.metric].dtype == pl.Boolean)
        if both.is_empty():
            yield Row.of(own.first, own.metric, *_unpaired(own.metric, first, second, range_), **sides)
            continue
        if own.preferred:
            larger = both.select(pl.col(own.metric) > pl.col("second")).to_series()
            yield Row.of(own.first, own.preferred, *estimated(larger, both["cluster"]), **sides)
        found = paired(both[own.metric], both["second"], both["cluster"], range_=range_)
        clusters = found.clusters if found.clusters < found.n else None
        figures = (found.value, found.low, found.high, found.n, clusters)
        same = same_test(both.select(own.by, "cluster"), both[own.metric], both["second"])
        test = (*own.first[:2], own.second.condition, same)
        told = {"detectable": found.detectable, "p": found.p, "least_p": found.least, "test": test}
        yield Row.of(own.first, own.metric, *figures, **told, **sides)


def _by(side: pl.DataFrame, by: str, metric: str) -> pl.DataFrame:
    """One row for each value of `by`; of several rows the mean."""
    known = side.drop_nulls(by)
    if not known[by].is_duplicated().any():
        return known.select(by, "cluster", metric)
    mean = pl.col(metric).cast(pl.Float64).mean()
    return known.group_by(by, maintain_order=True).agg(pl.col("cluster").first(), mean)


def _unpaired(
    metric: str, first: pl.DataFrame, second: pl.DataFrame, range_: tuple[float, float]
) -> tuple[float, float | None, float | None, int, int | None]:
    clusters, numbers = pl.concat([first["cluster"], second["cluster"]]), None
    if not clusters.null_count() and clusters.n_unique() < len(clusters):
        dense = numbered(clusters) - 1
        numbers = dense[: len(first)], dense[len(first) :]
    kind = np.bool_ if first[metric].dtype == pl.Boolean else np.float64
    sides: list[NDArray[Any]] = [own[metric].to_numpy().astype(kind) for own in (first, second)]
    found = unpaired_difference(sides[0], sides[1], numbers)
    return found.value, *within((found.low, found.high), *range_), found.n, None if numbers is None else found.clusters


def between_groups(rows: pl.DataFrame, metrics: Sequence[str], most: int) -> Iterator[Contrast]:
    """Each two groups of each column with at most so many, in each condition."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in _seen(rows):
        if cell.column is not None:
            groups.setdefault((cell.dataset, cell.condition, cell.column), []).append(cell)
    for own in groups.values():
        for one, other in combinations(own if len(own) <= most else (), 2):
            yield from (Contrast(metric, one, other) for metric in metrics)


def between_conditions(
    rows: pl.DataFrame, metrics: Sequence[str], preferred: Mapping[str, str], by: str = "item"
) -> Iterator[Contrast]:
    """Each two conditions of a data set, in each split; `preferred`: metric → `Contrast.preferred`."""
    seen = _seen(rows)
    for dataset in dict.fromkeys(cell.dataset for cell in seen):
        own = [cell for cell in seen if cell.dataset == dataset]
        for one, other in combinations(dict.fromkeys(cell.condition for cell in own), 2):
            for group in dict.fromkeys(cell[2:] for cell in own if cell.condition in {one, other}):
                for metric in metrics:
                    sides = Cell(dataset, one, *group), Cell(dataset, other, *group)
                    yield Contrast(metric, *sides, by, preferred.get(metric, ""))


def _seen(rows: pl.DataFrame) -> list[Cell]:
    """The cells of the rows, in their order."""
    keys = [name for name in ("dataset", "condition", "splits", "columns") if name in rows.columns]
    each = by_split(rows.select(keys).unique(maintain_order=True)).select(Cell._fields).unique(maintain_order=True)
    return [Cell(*own) for own in each.cast(pl.String).iter_rows()]


def paired_differences(sides: Mapping[tuple[Any, ...], Sequence[pl.DataFrame]], keys: Sequence[str]) -> pl.DataFrame:
    """A row for each two sides with common items.

    Columns: the keys, n, clusters, difference (first - second), its 95 % interval (low, high), crossed (how many
    clusters of a second kind interval and p allow for, too; null where there is one kind), unit (fraction where all
    outcomes are 0 or 1, else empty), detectable (the smallest true difference that is found with a power of 80 %), p,
    least_p (the smallest one that the test can give), both, only_first, only_second, neither (how many items are 1 in
    which of the two sides; null for other numbers),
    p_holm, tests (the number of tests that p_holm is corrected for).
    """
    rows, tests = [], list[Hashable]()
    for key, (first, second) in sides.items():
        other = second.select("item", other="value")
        both = first.select("item", "value", "cluster", "crossed").join(other, on="item", validate="1:1")
        if not both.is_empty():
            named = dict(zip(keys, key, strict=True))
            rows.append((*key, *_difference(both, named.get("metric", ""))))
            # One item is in several metrics, and in groups of several columns.
            one_of = {"metric", "column"} | ({"split"} if named.get("column") or named.get("split") == ALL else set())
            about = tuple(value for name, value in named.items() if name not in one_of)
            tests.append((about, same_test(both.select("item", "cluster"), both["value"], both["other"])))
    frame = pl.DataFrame(rows, schema={**dict.fromkeys(keys, pl.String), **_FIGURES}, orient="row")
    p, least = (frame[name].to_numpy().astype(np.float64) for name in ("p", "least_p"))
    adjusted, number = holm(p, least, tests)
    return frame.with_columns(p_holm=pl.Series(adjusted, dtype=pl.Float64), tests=pl.lit(number, pl.Int64))


def _difference(both: pl.DataFrame, metric: str) -> tuple[int | float | str | None, ...]:
    one, other = both["value"], both["other"]
    counts: list[int] | list[None] = [None] * 4
    yes_or_no = metric not in RANGES and all(set(value.unique()) <= {0.0, 1.0} for value in (one, other))
    if yes_or_no:
        one, other = one.cast(pl.Boolean), other.cast(pl.Boolean)
        counts = [int(which.sum()) for which in (one & other, one & ~other, ~one & other, ~one & ~other)]
    crossed = both["crossed"] if both["crossed"].null_count() == 0 else None
    range_ = range_of_difference(metric, yes_or_no=yes_or_no)
    found = paired(one, other, both["cluster"], crossed, range_)
    ends, tested = (found.low, found.high), (found.detectable, found.p, found.least)
    unit = FRACTION if yes_or_no else ""
    return found.n, found.clusters, found.value, *ends, found.crossed, unit, *tested, *counts
