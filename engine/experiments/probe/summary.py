"""From the items of a user's stimuli to the rows of summary.parquet.

    condition   split                 metric
    TARGET      all, GROUP=VALUE      is_top1, logprob, repeats_word: rates and means
    TARGET      GROUP=V vs GROUP=W    difference:is_top1, difference:logprob; p:… where the rows are minimal pairs
    T vs U      all, GROUP=VALUE      preferred: the share of rows where T is more probable than U; differences and p

TARGET is the name of a column of targets, and GROUP that of a column of groups. Rows are minimal pairs if they share an
item: a row of one group is then compared with a row of the other group, and several rows of one item and group count
by their mean. Other groups are compared without a test. Clusters are the values of the column `cluster`, else items.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...statistics import unpaired_difference
from ..items import ALL
from ..summary import DIFFERENCE, VERSUS, Row, difference_rows, estimated, frame, paired, with_holm
from .columns import IS_TOP1, LOGPROB, REPEATS, ROW, TARGET_COLUMN, Columns

DATASET = "stimuli"
PREFERRED = "preferred"
METRICS = (IS_TOP1, LOGPROB, REPEATS)
TESTED = (IS_TOP1, LOGPROB)
MOST_COMPARED = 8
"""Groups of one column: more are not compared with each other."""

_CLUSTER, _ITEM, _SECOND = "cluster of a row", "item of a row", "second"


def used(columns: Columns) -> list[str]:
    """The columns of the items that a summary needs."""
    optional = [columns.cluster, columns.item]
    named = [ROW, TARGET_COLUMN, *METRICS, *columns.groups, *(name for name in optional if name)]
    return list(dict.fromkeys(named))


def summarise(items: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The summary of a run's items.

    Args:
        items: Columns as in `used`.
        columns: The table's columns.
    """
    items = items.with_columns(
        **{
            _CLUSTER: pl.col(columns.clustered).cast(pl.String) if columns.clustered else pl.lit(None, pl.String),
            _ITEM: pl.col(columns.item).cast(pl.String) if columns.item else pl.lit(None, pl.String),
        }
    )
    by_target = {column: items.filter(pl.col(TARGET_COLUMN) == column) for column in columns.targets}
    rows: list[Row] = []
    for column, own in by_target.items():
        rows += _means(own, columns, column)
        rows += _group_differences(own, columns, column)
    for one, other in combinations(by_target, 2):
        rows += _target_differences(by_target[one], by_target[other], columns, f"{one}{VERSUS}{other}")
    return with_holm(frame(rows))


def splits(items: pl.DataFrame, columns: Columns) -> Iterator[tuple[str, pl.DataFrame]]:
    """The name and the items of each split: all, then each group."""
    yield ALL, items
    for column in columns.groups:
        for value, own in _groups(items, column):
            yield f"{column}={value}", own


def _groups(items: pl.DataFrame, column: str) -> list[tuple[str, pl.DataFrame]]:
    """The groups of a column in the order of their first row; rows without a value are in none."""
    known = items.filter(pl.col(column).is_not_null())
    parts = known.group_by(pl.col(column).cast(pl.String).alias(_SECOND), maintain_order=True)
    return [(str(value), own) for (value,), own in parts]


def _means(items: pl.DataFrame, columns: Columns, target: str) -> Iterator[Row]:
    for name, own in splits(items, columns):
        for metric in METRICS:
            if not own.is_empty():
                yield Row(DATASET, target, name, metric, *estimated(own[metric], own[_CLUSTER]))


def _target_differences(first: pl.DataFrame, second: pl.DataFrame, columns: Columns, target: str) -> Iterator[Row]:
    """Two targets of the same rows."""
    other = second.select(ROW, *(pl.col(name).alias(f"{name} {_SECOND}") for name in TESTED))
    both = first.join(other, on=ROW, maintain_order="left").with_columns(
        (pl.col(LOGPROB) > pl.col(f"{LOGPROB} {_SECOND}")).alias(PREFERRED)
    )
    for name, own in splits(both, columns):
        if own.is_empty():
            continue
        yield Row(DATASET, target, name, PREFERRED, *estimated(own[PREFERRED], own[_CLUSTER]))
        for metric in TESTED:
            found = paired(own[metric], own[f"{metric} {_SECOND}"], own[_CLUSTER])
            yield from difference_rows((DATASET, target, name), f"{DIFFERENCE}:{metric}", metric, found)


def _group_differences(items: pl.DataFrame, columns: Columns, target: str) -> Iterator[Row]:
    """Every two groups of a column."""
    for column in columns.groups:
        groups = _groups(items, column)
        if len(groups) > MOST_COMPARED:
            continue
        for (one, first), (other, second) in combinations(groups, 2):
            key = (DATASET, target, f"{column}={one}{VERSUS}{column}={other}")
            for metric in TESTED:
                if columns.item and not (pairs := _pairs(first, second, metric)).is_empty():
                    found = paired(pairs[metric], pairs[_SECOND], pairs[_CLUSTER])
                    yield from difference_rows(key, f"{DIFFERENCE}:{metric}", metric, found)
                else:
                    yield _unpaired(key, metric, first, second)


def _pairs(first: pl.DataFrame, second: pl.DataFrame, metric: str) -> pl.DataFrame:
    """One row for each item that both groups have: the metric in the first, in the second, and the cluster."""

    def by_item(group: pl.DataFrame) -> pl.DataFrame:
        known = group.filter(pl.col(_ITEM).is_not_null())
        if not known[_ITEM].is_duplicated().any():
            return known.select(_ITEM, _CLUSTER, metric)
        outcome = pl.col(metric).cast(pl.Float64).mean()
        return known.group_by(_ITEM, maintain_order=True).agg(pl.col(_CLUSTER).first(), outcome)

    one, other = by_item(first), by_item(second).select(_ITEM, pl.col(metric).alias(_SECOND))
    if one[metric].dtype != other[_SECOND].dtype:
        one, other = (
            one.with_columns(pl.col(metric).cast(pl.Float64)),
            other.with_columns(pl.col(_SECOND).cast(pl.Float64)),
        )
    return one.join(other, on=_ITEM, maintain_order="left")


def _unpaired(key: tuple[str, str, str], metric: str, first: pl.DataFrame, second: pl.DataFrame) -> Row:
    outcomes = [_numbers(group[metric]) for group in (first, second)]
    clusters = pl.concat([first[_CLUSTER], second[_CLUSTER]])
    numbers: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    if not clusters.null_count() and 1 < clusters.n_unique() < len(clusters):
        dense = clusters.rank("dense").to_numpy().astype(np.int64) - 1
        numbers = dense[: len(first)], dense[len(first) :]
    found = unpaired_difference(outcomes[0], outcomes[1], numbers)
    count = None if numbers is None else found.clusters
    return Row(*key, f"{DIFFERENCE}:{metric}", found.value, found.low, found.high, found.n, count)


def _numbers(outcomes: pl.Series) -> NDArray[Any]:
    return outcomes.to_numpy().astype(np.bool_ if outcomes.dtype == pl.Boolean else np.float64)
