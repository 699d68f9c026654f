"""The items of a probe become the rows of summary.parquet: dataset, condition, split, metric, value, low, high, n.

Items are a frame with the columns of `items`. Values are fractions, correlations or p-values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..statistics import cluster_interval, grouped_mean, holm, mcnemar, mean, proportion, wilcoxon
from .items import ALL, SEPARATOR, by_split

VERSUS = " vs "
DIFFERENCE, P_VALUE, HOLM = "difference", "mcnemar_p", "mcnemar_p_holm"
SCHEMA = {
    "dataset": pl.String,
    "condition": pl.String,
    "split": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}
Row = tuple[str, str, str, str, float, float | None, float | None, int]


@dataclass(frozen=True)
class Contrast:
    """Two outcomes of the same items: a metric in two conditions or splits of a data set."""

    dataset: str
    metric: str
    first: tuple[str, str]
    second: tuple[str, str]

    @property
    def labels(self) -> tuple[str, str]:
        """Condition and split, with both names where the two sides differ."""
        condition, split = (
            one if one == other else f"{one}{VERSUS}{other}" for one, other in zip(self.first, self.second, strict=True)
        )
        return condition, split


def frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as summary.parquet has them."""
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def means(items: pl.DataFrame, metrics: Sequence[str]) -> list[Row]:
    """Every metric in every split, with its 95 % interval.

    The interval allows for clusters where the items of a split come from several clusters. The items of a single
    cluster are taken as draws from it.
    """
    return [
        (dataset, condition, split, metric, *_mean(part), len(part))
        for dataset, condition, split, own in _splits(items)
        for metric in metrics
        if not (part := own.select("cluster", value=metric).drop_nulls("value")).is_empty()
    ]


def cluster_means(items: pl.DataFrame, metrics: Sequence[str], suffix: str) -> list[Row]:
    """Every metric in every split of several clusters, as the mean of the clusters' means; n counts clusters.

    Args:
        items: the items.
        metrics: the metrics.
        suffix: what is put after their names.
    """
    rows: list[Row] = []
    for dataset, condition, split, own in _splits(items):
        for metric in metrics:
            part = own.select("cluster", value=pl.col(metric).cast(pl.Float64)).drop_nulls()
            by_cluster = part.group_by("cluster", maintain_order=True).agg(pl.col("value").mean())["value"].to_numpy()
            if len(by_cluster) > 1:
                rows.append((dataset, condition, split, f"{metric}{suffix}", *mean(by_cluster), len(by_cluster)))
    return rows


def contrasts(items: pl.DataFrame, wanted: Sequence[Contrast]) -> list[Row]:
    """For each contrast of a boolean metric the difference (first - second) and the p of the exact McNemar test.

    Contrasts without common items have no rows.
    """
    rows: list[Row] = []
    for contrast in wanted:
        first, second = (_side(items, contrast, *side) for side in (contrast.first, contrast.second))
        both = first.join(second, on="item", suffix="_second", maintain_order="left")
        if not both.is_empty():
            condition, split = contrast.labels
            difference, p = paired(both["value"], both["value_second"])
            for name, value in ((DIFFERENCE, difference), (P_VALUE, p)):
                rows.append(
                    (contrast.dataset, condition, split, f"{name}:{contrast.metric}", value, None, None, len(both))
                )
    return rows


def paired(first: pl.Series, second: pl.Series) -> tuple[float, float]:
    """Two outcomes of the same items.

    Returns:
        The difference of their means, and the p of McNemar's test or, for floats, of Wilcoxon's.
    """
    one, other = first.to_numpy(), second.to_numpy()
    p = mcnemar(one, other) if first.dtype == pl.Boolean else wilcoxon(one, other)
    return float(np.mean(one, dtype=np.float64) - np.mean(other, dtype=np.float64)), p


def with_holm(summary: pl.DataFrame) -> pl.DataFrame:
    """A summary with a row of metric `mcnemar_p_holm:…` after each of `mcnemar_p:…`, adjusted over all of them."""
    tested = summary["metric"].str.starts_with(f"{P_VALUE}:")
    p = summary.filter(tested)["value"].to_numpy()
    adjusted = summary.with_row_index("order").filter(tested)
    adjusted = adjusted.with_columns(
        value=pl.Series(holm(p)), metric=pl.col("metric").str.replace(f"{P_VALUE}:", f"{HOLM}:", literal=True)
    )
    both = pl.concat([summary.with_row_index("order"), adjusted])
    return both.sort("order", maintain_order=True).drop("order")


def _splits(items: pl.DataFrame) -> list[tuple[str, str, str, pl.DataFrame]]:
    """The items of each data set, condition and split, in the order of their first item; `all` first."""
    parts = []
    for (dataset, condition), own in items.group_by("dataset", "condition", maintain_order=True):
        exploded = by_split(own)
        names = sorted(exploded["splits"].unique(maintain_order=True).drop_nulls(), key=lambda name: name != ALL)
        parts += [(str(dataset), str(condition), name, exploded.filter(pl.col("splits") == name)) for name in names]
    return parts


def _mean(part: pl.DataFrame) -> tuple[float, float | None, float | None]:
    values = part["value"]
    n_clusters = part["cluster"].n_unique()
    clustered = 1 < n_clusters < len(part) and part["cluster"].null_count() == 0
    if values.dtype != pl.Boolean:
        numbers = values.to_numpy().astype(np.float64)
        return grouped_mean(numbers, part["cluster"].rank("dense").to_numpy()) if clustered else mean(numbers)
    value, low, high = proportion(int(values.sum()), len(part))
    if clustered:
        counts = part.group_by("cluster", maintain_order=True).agg(pl.col("value").sum().cast(pl.Int64), n=pl.len())
        low, high = cluster_interval(counts["value"].to_numpy(), counts["n"].cast(pl.Int64).to_numpy())
    return value, low, high


def _side(items: pl.DataFrame, contrast: Contrast, condition: str, split: str) -> pl.DataFrame:
    chosen = (
        (pl.col("dataset") == contrast.dataset)
        & (pl.col("condition") == condition)
        & pl.col("splits").str.split(SEPARATOR).list.contains(split)
    )
    return items.filter(chosen).select("item", value=contrast.metric).drop_nulls()
