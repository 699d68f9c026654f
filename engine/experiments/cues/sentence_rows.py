"""The sentences of a run with their cues (see `negengine.engine.library.sentences`).

No word is expected. The answer of a detector is its cues. A row fails if the other detector finds no cue in this
sentence, so that `negengine show RUN --failed` shows where the detectors disagree.
"""

import polars as pl

from ...library.sentences import CORRECT


def sentence_rows(items: pl.LazyFrame) -> pl.LazyFrame:
    """One row for each sentence with a cue and each detector that finds one.

    Args:
        items: The content of items.parquet.

    Returns:
        item, condition (the detector), sentence, expected (null), answer (its cues), correct (null), failed, rank and
        logprob (null), then dataset, line and kinds.
    """
    return items.select(
        "item",
        "condition",
        "sentence",
        expected=pl.lit(None, pl.String),
        answer="cues",
        **{CORRECT: pl.lit(None, pl.Boolean)},
        failed=pl.len().over("dataset", "item") == 1,
        rank=pl.lit(None, pl.Int32),
        logprob=pl.lit(None, pl.Float32),
        dataset="dataset",
        line="line",
        kinds="kinds",
    )
