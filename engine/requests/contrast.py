"""Contrasts: a metric on two sides of an experiment, such as two conditions of the same items.

The one maker of paired differences, with their tests; sides that share nothing are compared as two groups.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..statistics.differences import unpaired_difference
from .summary import DIFFERENCE, VERSUS, Row, difference_rows, estimated, names_in, numbered, paired

Side = tuple[str, str, str]  # data set, condition, split


@dataclass(frozen=True)
class Contrast:
    """A metric on two sides, in rows that share a value of the column `by`."""

    metric: str
    first: Side
    second: Side
    by: str = "pair"  # where its values are null on a side, the sides are groups of other rows
    preferred: str = ""  # a metric of the summary: the share of rows in which the first side has the larger value


def contrast_rows(rows: pl.DataFrame, wanted: Sequence[Contrast]) -> Iterator[Row]:
    """For each contrast the difference (first - second) and its p; both allow for clusters, also for `crossed` ones.

    `rows` have the keys of requests, `splits` as lists, and the metrics. A contrast with an empty side has no rows.
    """
    if not wanted:
        return
    metrics = list(dict.fromkeys(own.metric for own in wanted))
    keys = ["dataset", "condition", "splits", "cluster", *(["crossed"] if "crossed" in rows.columns else [])]
    used = rows.select(*dict.fromkeys([*keys, *(own.by for own in wanted)]), *metrics)
    each = used.filter(pl.any_horizontal(pl.col(metrics).is_not_null())).explode("splits")
    cells = each.partition_by("dataset", "condition", "splits", as_dict=True)
    for own in wanted:
        first, second = (
            _draws(cells.get(side, each.clear()).drop_nulls(own.metric), side[2]) for side in (own.first, own.second)
        )
        condition, split = (
            one if one == other else f"{one}{VERSUS}{other}"
            for one, other in zip(own.first[1:], own.second[1:], strict=True)
        )
        key, name = (own.first[0], condition, split), f"{DIFFERENCE}:{own.metric}"
        if first.is_empty() or second.is_empty():
            continue
        one, other = (_by(side, own.by, own.metric) for side in (first, second))
        if one[own.metric].dtype != other[own.metric].dtype:
            one, other = one.cast({own.metric: pl.Float64}), other.cast({own.metric: pl.Float64})
        both = one.join(other.select(own.by, second=own.metric), on=own.by, maintain_order="left")
        if both.is_empty():
            yield _unpaired(key, name, own.metric, first, second)
            continue
        if own.preferred:
            larger = both.select(pl.col(own.metric) > pl.col("second")).to_series()
            yield Row(own.first[0], condition, split, own.preferred, *estimated(larger, both["cluster"]))
        crossed = both["crossed"] if "crossed" in both.columns else None
        range_ = (-1.0, 1.0) if rows[own.metric].dtype == pl.Boolean else (-inf, inf)
        found = paired(both[own.metric], both["second"], both["cluster"], crossed, range_)
        yield from difference_rows(key, name, own.metric, found)


def _draws(side: pl.DataFrame, split: str) -> pl.DataFrame:
    """A side that has the name of its one cluster is about it alone: its rows are draws."""
    clusters = side["cluster"]
    alone = len(side) > 0 and clusters.n_unique() == 1 and str(clusters[0]) in names_in(split)
    return side.with_columns(cluster=pl.lit(None, pl.String)) if alone else side


def _by(side: pl.DataFrame, by: str, metric: str) -> pl.DataFrame:
    """One row for each value of `by`; of several rows the mean."""
    known = side.drop_nulls(by)
    others = [name for name in ("cluster", "crossed") if name in side.columns]
    if not known[by].is_duplicated().any():
        return known.select(by, *others, metric)
    mean = pl.col(metric).cast(pl.Float64).mean()
    return known.group_by(by, maintain_order=True).agg(pl.col(others).first(), mean)


def _unpaired(key: Side, name: str, metric: str, first: pl.DataFrame, second: pl.DataFrame) -> Row:
    clusters, numbers = pl.concat([first["cluster"], second["cluster"]]), None
    if not clusters.null_count() and clusters.n_unique() < len(clusters):
        dense = numbered(clusters) - 1
        numbers = dense[: len(first)], dense[len(first) :]
    kind = np.bool_ if first[metric].dtype == pl.Boolean else np.float64
    sides: list[NDArray[Any]] = [own[metric].to_numpy().astype(kind) for own in (first, second)]
    found = unpaired_difference(sides[0], sides[1], numbers)
    count = None if numbers is None else found.clusters
    return Row(*key, name, found.value, found.low, found.high, found.n, count)


def between_groups(rows: pl.DataFrame, columns: Iterable[str], metrics: Sequence[str], most: int) -> Iterator[Contrast]:
    """Each two of the splits `COLUMN=VALUE` of each column with at most so many, in each condition."""
    for (dataset, condition), splits in _seen(rows).items():
        for column in columns:
            groups = [split for split in splits if split.startswith(f"{column}=")]
            for one, other in combinations(groups if len(groups) <= most else (), 2):
                yield from (Contrast(m, (dataset, condition, one), (dataset, condition, other)) for m in metrics)


def between_conditions(
    rows: pl.DataFrame, metrics: Sequence[str], preferred: Mapping[str, str], by: str = "item"
) -> Iterator[Contrast]:
    """Each two conditions of a data set, in each split; `preferred`: metric → `Contrast.preferred`."""
    seen = _seen(rows)
    for dataset in dict.fromkeys(dataset for dataset, _ in seen):
        own = {condition: splits for (name, condition), splits in seen.items() if name == dataset}
        for one, other in combinations(own, 2):
            for split in dict.fromkeys([*own[one], *own[other]]):
                for metric in metrics:
                    sides = (dataset, one, split), (dataset, other, split)
                    yield Contrast(metric, *sides, by, preferred.get(metric, ""))


def _seen(rows: pl.DataFrame) -> dict[tuple[str, str], list[str]]:
    """Data set and condition → their splits, in the order of the rows."""
    each = rows.select("dataset", "condition", "splits").unique(maintain_order=True).explode("splits")
    grouped = each.group_by("dataset", "condition", maintain_order=True).agg(
        pl.col("splits").unique(maintain_order=True)
    )
    return {(dataset, condition): splits for dataset, condition, splits in grouped.iter_rows()}
