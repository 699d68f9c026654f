"""Contrasts: a metric on two sides of an experiment, such as two conditions of the same items.

The one maker of paired differences, with their tests; sides that share nothing are compared as two groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..statistics.differences import unpaired_difference
from ..statistics.intervals import within
from .items import by_split, range_of_difference
from .summary import Cell, Row, estimated, numbered, paired, same_test


@dataclass(frozen=True)
class Contrast:
    """A metric on two sides, in rows that share a value of the column `by`."""

    metric: str
    first: Cell
    second: Cell
    by: str = "pair"  # where its values are null on a side, the sides are groups of other rows
    preferred: str = ""  # a metric of the summary: the share of rows in which the first side has the larger value


def contrast_rows(rows: pl.DataFrame, wanted: Sequence[Contrast], clustered_by: str | None = None) -> Iterator[Row]:
    """For each contrast the difference (first - second) with its p; both allow for clusters, also for `crossed` ones.

    `rows` have the keys of requests and the metrics; `clustered_by` is as in `by_split`. A contrast with an empty side
    has no row.
    """
    if not wanted:
        return
    metrics = list(dict.fromkeys(own.metric for own in wanted))
    keys = ("dataset", "condition", "splits", "columns", "cluster", "crossed", *(own.by for own in wanted))
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
        crossed = both["crossed"] if "crossed" in both.columns else None
        found = paired(both[own.metric], both["second"], both["cluster"], crossed, range_)
        clusters = found.clusters if found.clusters < found.n else None
        figures = (found.value, found.low, found.high, found.n, clusters)
        same = same_test(both.select(own.by, "cluster"), both[own.metric], both["second"])
        test = (*own.first[:2], own.second.condition, same)
        told = {"detectable": found.detectable, "p": found.p, "least_p": found.least, "test": test}
        yield Row.of(own.first, own.metric, *figures, **told, **sides)


def _by(side: pl.DataFrame, by: str, metric: str) -> pl.DataFrame:
    """One row for each value of `by`; of several rows the mean."""
    known = side.drop_nulls(by)
    others = [name for name in ("cluster", "crossed") if name in side.columns]
    if not known[by].is_duplicated().any():
        return known.select(by, *others, metric)
    mean = pl.col(metric).cast(pl.Float64).mean()
    return known.group_by(by, maintain_order=True).agg(pl.col(others).first(), mean)


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
