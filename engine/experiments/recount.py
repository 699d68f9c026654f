"""The results of the probes, counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import polars as pl

from ..library.recount import Recount, holds, same_figures
from .items import SEPARATOR

_CELL = ("dataset", "condition", "split", "metric")
_ITEM = ("dataset", "condition", "item")


def item_once(items: pl.DataFrame, names: Sequence[str] = _ITEM) -> Recount:
    """Each item is there once."""
    return holds("each item is there once", items, ~pl.struct(names).is_duplicated(), names)


def means(summary: pl.DataFrame, items: pl.DataFrame, metrics: Sequence[str]) -> Recount:
    """The metrics of summary.parquet are the means of the items of their split.

    Args:
        summary: The content of summary.parquet.
        items: Columns dataset, condition, splits (several, with `|` between) and the metrics.
        metrics: Truth values or numbers.
    """
    by_split = items.with_columns(pl.col(*metrics).cast(pl.Float64), split=pl.col("splits").str.split(SEPARATOR))
    counted = by_split.explode("split").unpivot(metrics, index=_CELL[:-1], variable_name="metric")
    wanted = counted.drop_nulls("value").group_by(_CELL).agg(value=pl.col("value").mean(), n=pl.len().cast(pl.Int64))
    found = summary.filter(pl.col("metric").is_in(metrics))
    return same_figures("the rates of summary.parquet are the means of the items", found, wanted, _CELL)


def descending(items: pl.DataFrame, names: Sequence[str], item: Sequence[str] = _ITEM) -> Iterator[Recount]:
    """The probabilities of a query's first choices do not grow from one column to the next.

    Args:
        items: The items.
        names: The columns with the probabilities.
        item: The columns that name an item.
    """
    for one, other in pairwise(names):
        yield holds(f"{one} is not below {other}", items, pl.col(one) >= pl.col(other), item)
