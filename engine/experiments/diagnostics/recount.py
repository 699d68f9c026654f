"""The results of the diagnostics, counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator

import polars as pl

from ...library.recount import Recount, holds
from ..recount import descending, item_once, means
from .judged import BEYOND_THRESHOLD, COMPARED, CUTS, METRICS, SENSITIVITY, THRESHOLD, TOP

_ITEM = ("dataset", "condition", "item")
_SINGLE = 1e-6  # probabilities are compared in fp64, and stored in fp32


def recounts(items: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Recount]:
    """What must hold of a finished run.

    Args:
        items: The content of items.parquet.
        summary: The content of summary.parquet.
    """
    yield item_once(items)
    for k in CUTS:
        yield holds(
            f"an expected word is among the first {k} where its rank says so",
            items,
            pl.col(f"accuracy@{k}") == (pl.col("rank") <= k).fill_null(value=False),
            _ITEM,
        )
    yield from descending(items, [f"top{i}_probability" for i in range(1, TOP + 1)])
    chances = [f"top{i}_probability" for i in range(1, TOP + 1)] + [f"{one}_probability" for one in COMPARED]
    yield holds(
        "probabilities are between 0 and 1",
        items,
        pl.all_horizontal(pl.col(name).is_between(0, 1).fill_null(value=True) for name in chances),
        _ITEM,
    )
    for metric, threshold in ((SENSITIVITY, 0.0), (BEYOND_THRESHOLD, THRESHOLD)):
        yield holds(f"{metric} follows from the probabilities", items, _follows(metric, threshold), _ITEM)
    yield means(summary, items, METRICS)


def _follows(metric: str, threshold: float) -> pl.Expr:
    """Whether the recorded sensitivity is that of the recorded probabilities; null where a word is not one token."""
    good, *bad = (f"{one}_probability" for one in COMPARED)
    smallest = pl.min_horizontal(pl.col(good) - pl.col(name) for name in bad) - threshold
    missing = pl.any_horizontal(pl.col(one).is_not_null() & pl.col(f"{one}_probability").is_null() for one in COMPARED)
    clear = pl.when(~missing & (smallest.abs() > _SINGLE)).then(pl.col(metric) == (smallest > 0))
    return pl.when(missing).then(~pl.col(metric)).otherwise(clear)
