"""The pairs of a run with the labels given (see `negengine.engine.library.sentences`).

A pair fails if its label is wrong. The texts are those of the data; where `truncated` is true, the model read less.
"""

import polars as pl

from ...library.sentences import CORRECT
from ..items import with_precision


def sentence_rows(items: pl.LazyFrame) -> pl.LazyFrame:
    """The pairs, in the order of items.parquet.

    Args:
        items: The content of items.parquet.

    Returns:
        item (its number in its file), condition, premise, hypothesis, expected and answer (in the labels that the pair
        is scored by), correct, failed, rank and logprob (null), dataset, split, negation, gold, predicted, probability
        (of the predicted label), truncated, precision, id.
    """
    items = with_precision(items)
    own = ("dataset", "split", "negation", "gold", "predicted", "probability", "truncated", "precision", "id")
    return items.select(
        *("item", "condition", "premise", "hypothesis", "expected", "answer", CORRECT),
        failed=~pl.col(CORRECT),
        rank=pl.lit(None, pl.Int32),
        logprob=pl.lit(None, pl.Float32),
        **{name: name for name in own},
    )
