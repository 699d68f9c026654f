"""The results of LAMA, counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator

import polars as pl

from ...library.recount import LOGARITHM, Recount, holds
from ..recount import descending, item_once, means
from .items import CUTS, METRICS, NEGATED, QUERY, TOP

_ITEM = ("dataset", "condition", "item")


def recounts(items: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Recount]:
    """What must hold of a finished run.

    Args:
        items: The content of items.parquet.
        summary: The content of summary.parquet.
    """
    yield item_once(items)
    for k in CUTS:
        yield holds(
            f"the answer is among the first {k} where its rank says so",
            items,
            pl.col(f"precision@{k}") == (pl.col("rank") <= k),
            _ITEM,
        )
    behind = pl.col("gold_logprob") - pl.col("top1_logprob")
    yield holds(
        "log-probabilities are at most 0, and the answer's is that of the first choice where its rank is 1",
        items,
        (pl.col("rank") >= 1)
        & (pl.col("top1_logprob") <= LOGARITHM)
        & pl.when(pl.col("rank") == 1).then(behind.abs() <= LOGARITHM).otherwise(behind <= LOGARITHM),
        _ITEM,
    )
    for prefix in (QUERY, NEGATED):
        yield from descending(items, [f"{prefix}top{i}_logprob" for i in range(1, TOP + 1)])
    yield holds("correlations are between -1 and 1", items, pl.col("spearman").abs() <= 1 + LOGARITHM, _ITEM)
    yield holds(
        "queries have an overlap where their first choices are the same",
        items,
        ~pl.col("overlap@1") | (pl.col("top1") == pl.col(f"{NEGATED}top1")),
        _ITEM,
    )
    yield means(summary, items, METRICS)
