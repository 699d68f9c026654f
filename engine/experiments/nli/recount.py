"""The results of natural language inference with negation, counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator, Sequence

import polars as pl

from ...library.recount import LOGARITHM, Recount, holds, same_figures
from ..items import ALL, ORIGINAL
from ..recount import item_once
from .labels import Label
from .pairs import NEW

_ITEM = ("dataset", "condition", "item")
_CELL = ("dataset", "condition", "split", "metric")


def recounts(items: pl.DataFrame, summary: pl.DataFrame, head: Sequence[str]) -> Iterator[Recount]:
    """What must hold of a finished run.

    Args:
        items: The content of items.parquet.
        summary: The content of summary.parquet.
        head: The labels of the classifier.
    """
    yield item_once(items)
    yield holds("a pair is right where both labels are the same", items, _agree("correct", "expected", "answer"), _ITEM)
    yield holds("labels are those of the classifier", items, pl.col("predicted").is_in(list(head)), _ITEM)
    for fine, coarse in (("predicted", "answer"), ("gold", "expected")):
        two_way = (pl.col(coarse) == str(Label.NOT_ENTAILMENT)) & (pl.col(fine) != str(Label.ENTAILMENT))
        yield holds(f"{coarse} follows from {fine}", items, (pl.col(coarse) == pl.col(fine)) | two_way, _ITEM)
    least = 1 / len(head) - LOGARITHM
    yield holds(
        "the label given is the most probable one",
        items,
        pl.col("probability").is_between(least, 1 + LOGARITHM),
        _ITEM,
    )
    yield _accuracies(items, summary)


def _agree(truth: str, one: str, other: str) -> pl.Expr:
    return pl.col(truth) == (pl.col(one) == pl.col(other))


def _accuracies(items: pl.DataFrame, summary: pl.DataFrame) -> Recount:
    """Accuracies and drops of summary.parquet are those of the items."""
    splits = pl.concat(
        [
            items.with_columns(split=pl.lit(ALL)),
            items.filter(pl.col("condition") == NEW),
            items.filter((pl.col("condition") == ORIGINAL) & pl.col("negation")).with_columns(split=pl.lit("negation")),
        ]
    )
    accuracy = splits.group_by(_CELL[:-1]).agg(value=pl.col("correct").mean(), n=pl.len().cast(pl.Int64))
    before = accuracy.filter((pl.col("condition") == ORIGINAL) & (pl.col("split") == ALL)).select(
        "dataset", before="value"
    )
    drops = accuracy.filter(pl.col("condition") == NEW).join(before, on="dataset")
    counted = pl.concat(
        [
            accuracy.with_columns(metric=pl.lit("accuracy")).select(*_CELL, "value", "n"),
            drops.select(*_CELL[:-1], metric=pl.lit("drop"), value=pl.col("before") - pl.col("value"), n="n"),
        ]
    )
    found = summary.filter(pl.col("metric").is_in(["accuracy", "drop"]))
    return same_figures("accuracies and drops of summary.parquet are those of the items", found, counted, _CELL)
