"""What items.parquet and summary.parquet of the probes have in common: names and columns. Quick to import.

Only plain columns and lists of texts, so that R and pandas read it.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import polars as pl

from ..inference.exported import ExportedModel

RANGES = {
    "spearman": (-1.0, 1.0),
    **dict.fromkeys(("logprob", "log_likelihood", "per_token", "per_word", "per_character"), (-inf, 0.0)),
}
"""Metric → the lowest and the highest value that its numbers can have, where there are such."""


def range_of_difference(metric: str, *, yes_or_no: bool) -> tuple[float, float]:
    """What the difference of two values, or means, of a metric can be."""
    low, high = (0.0, 1.0) if yes_or_no else RANGES.get(metric, (-inf, inf))
    return low - high, high - low


ITEMS_FILE, SUMMARY_FILE = "items.parquet", "summary.parquet"
ORIGINAL, ALL = "original", "all"
OWN = "split"  # the column of groups that are the program's own words
ITEM = ("dataset", "condition", "item")
"""The columns that name an item."""
WHY = "why"
KEYS: dict[str, Any] = {
    **dict.fromkeys(ITEM, pl.String),
    "pair": pl.String,  # what the items share that a contrast compares; by default the item itself
    "cluster": pl.String,  # what it shares with items that depend on it
    "splits": pl.List(pl.String),  # those that the item counts in: the whole, then its groups
    "columns": pl.List(pl.String),  # the column that each of them comes from; null where groups are our own words
    "role": pl.String,  # which request of its item it is: good, bad, alone …
    WHY: pl.String,  # why the request cannot be asked; null where it can
}
"""What a request belongs to: the first columns of items.parquet, with their types."""


_FEW = pl.Categorical(pl.Categories("negengine.few", physical=pl.UInt16))  # data sets, conditions, splits, roles
_AS_NUMBERS: dict[str, Any] = {
    **dict.fromkeys(("dataset", "condition", "role", WHY), _FEW),
    **dict.fromkeys(("item", "pair", "cluster"), pl.Categorical()),
    **dict.fromkeys(("splits", "columns"), pl.List(_FEW)),
}
_ROWS = 32_768  # that are in memory as texts


def collected(rows: pl.LazyFrame, names: Sequence[str]) -> pl.DataFrame:
    """Some columns of requests, in memory; keys are numbers there, which can be compared with texts and shown as such.

    With 1.8 million requests, keys as texts take five times the memory of all other columns.
    """
    kinds: Any = {name: kind for name, kind in _AS_NUMBERS.items() if name in names}
    own = rows.select(names).cast(kinds)
    parts, columns = [own.head(0).collect(), *own.collect_batches(chunk_size=_ROWS, maintain_order=True)], []
    for name in names:  # so that one column at a time is in memory twice
        columns.append(pl.concat([part[name] for part in parts], rechunk=True))
        parts = [part.drop(name) for part in parts]
    return pl.DataFrame(columns)


def by_split(items: pl.DataFrame, clustered_by: str | None = None, by: str | None = None) -> pl.DataFrame:
    """One row for each item and split, with `split` and the `column` of a group; the whole, the first one, has none.

    `clustered_by` is the column that clusters come from, and `by` one that items are also grouped by. A group of the
    column of clusters is itself a cluster, so its items are draws: they have no cluster.
    """
    if "columns" not in items.columns:
        items = items.with_columns(columns=pl.lit(None, pl.List(pl.String)))
    groups = pl.lit(OWN).repeat_by(pl.col("splits").list.slice(1).list.len())
    named = items.with_columns(columns=pl.coalesce("columns", pl.concat_list(pl.lit(None, pl.String), groups)))
    each = named.explode("splits", "columns").rename({"splits": "split", "columns": "column"})
    each = each.with_columns(pl.col("split", "column").cast(pl.String))
    if clustered_by is None or "cluster" not in each.columns:
        return each
    alone = pl.col("column").eq_missing(clustered_by) | pl.lit(by == clustered_by)
    return each.with_columns(cluster=pl.when(~alone).then("cluster"))


def model_identity(exported: ExportedModel) -> dict[str, Any]:
    """The model's part of a stage's identity."""
    return {"model": exported.name, "model sha256": exported.sha256}
