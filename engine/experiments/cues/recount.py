"""The results of `cues`, counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator

import polars as pl

from ...library.recount import Recount, holds, same_figures
from ..recount import item_once
from .word_list import Kind

_ITEM = ("dataset", "condition", "item")
_CELL = ("dataset", "condition", "split", "metric")


def recounts(items: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Recount]:
    """What must hold of a finished run.

    Args:
        items: The content of items.parquet.
        summary: The content of summary.parquet.
    """
    yield item_once(items)
    yield holds(
        "each cue has a kind", items, pl.col("cues").str.count_matches("|", literal=True)
        == pl.col("kinds").str.count_matches("|", literal=True), _ITEM,
    )  # fmt: skip
    listed = items.with_columns(pl.col("kinds").str.split("|")).explode("kinds")
    yield holds("kinds are those of the list", listed, pl.col("kinds").is_in([str(kind) for kind in Kind]), _ITEM)
    once = listed.unique(["dataset", "condition", "item", "kinds"]).select("dataset", "condition", split="kinds")
    whole = items.select("dataset", "condition", split=pl.lit("all"))
    counted = pl.concat([once, whole]).group_by("dataset", "condition", "split").len("count")
    cells = summary.select(*_CELL, "n").join(counted, on=["dataset", "condition", "split"], how="left")
    wanted = cells.select(*_CELL, value=pl.col("count").fill_null(0) / pl.col("n"))
    yield same_figures("shares of summary.parquet are those of the items", summary, wanted, _CELL)
