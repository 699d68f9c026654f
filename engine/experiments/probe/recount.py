"""The results of a user's stimuli, counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator

import polars as pl

from ...library.recount import LOGARITHM, Recount, holds, same_figures
from ..recount import descending, item_once
from .columns import IS_TOP1, LOGPROB, RANK, REPEATS, ROW, TARGET_COLUMN, Columns

_ITEM = (ROW, TARGET_COLUMN)
_METRICS = (IS_TOP1, LOGPROB, REPEATS)
_CELL = ("condition", "split", "metric")


def recounts(items: pl.DataFrame, summary: pl.DataFrame, columns: Columns) -> Iterator[Recount]:
    """What must hold of a finished run.

    Args:
        items: The content of items.parquet.
        summary: The content of summary.parquet.
        columns: The table's columns.
    """
    yield item_once(items, _ITEM)
    yield holds(
        "a target that is the first choice has rank 1",
        items,
        (pl.col(RANK) >= 1) & (~pl.col(IS_TOP1) | (pl.col(RANK) == 1)),
        _ITEM,
    )
    behind = pl.col(LOGPROB) - pl.col("top1_logprob")
    yield holds(
        "log-probabilities are at most 0, and the target's is that of the first choice where its rank is 1",
        items,
        (pl.col("top1_logprob") <= LOGARITHM)
        & pl.when(pl.col(RANK) == 1).then(behind.abs() <= LOGARITHM).otherwise(behind <= LOGARITHM),
        _ITEM,
    )
    tops = [name for name in items.columns if name.startswith("top") and name.endswith("_logprob")]
    yield from descending(items, tops, _ITEM)
    yield _means(items, summary, columns)


def _means(items: pl.DataFrame, summary: pl.DataFrame, columns: Columns) -> Recount:
    """The metrics of the summary are the means of the rows of their group."""
    groups = [pl.format(f"{column}={{}}", pl.col(column).cast(pl.String)) for column in columns.groups]
    split = pl.concat_list(pl.lit("all"), *groups) if groups else pl.concat_list(pl.lit("all"))
    counted = (
        items.select(pl.col(TARGET_COLUMN).alias("condition"), pl.col(*_METRICS).cast(pl.Float64), split.alias("split"))
        .explode("split")
        .drop_nulls("split")
        .unpivot(_METRICS, index=_CELL[:2], variable_name="metric")
    )
    wanted = counted.group_by(_CELL).agg(value=pl.col("value").mean(), n=pl.len().cast(pl.Int64))
    found = summary.filter(pl.col("metric").is_in(_METRICS))
    return same_figures("the figures of summary.parquet are the means of the items", found, wanted, _CELL)
