"""The texts of a run with the model's answers (see `negengine.engine.library.sentences`).

An item fails if none of its expected words is the first choice. Where accuracy is not asked for, as in negative
contexts, it fails if the word that fits is not more probable than those that do not fit (sensitivity).

A word that does not fit can need another article, so its text is another one: columns `bad` and `bad2` have it.
"""

import polars as pl

from ...inference.free_text import MASK
from ...library.sentences import CORRECT
from .judged import ACCURACIES, BEYOND_THRESHOLD, SENSITIVITY, TOP

_FURTHER = [f"top{i}{what}" for i in range(2, TOP + 1) for what in ("", "_probability")]


def sentence_rows(items: pl.LazyFrame, mask: str) -> pl.LazyFrame:
    """One row for each item. For a pair of contexts (ROLE-88) it is the context that the word fits.

    Args:
        items: The content of items.parquet.
        mask: The model's mask token.

    Returns:
        item, condition, sentence, expected (the words, with `|` between; where accuracy is not asked for, the word that
        fits), answer, correct (null where accuracy is not asked for), failed, rank (of the best expected word), logprob
        (of the word that fits, where it is the only expected one), answer_logprob (natural logarithms), dataset,
        splits, cluster, draw, accuracy@5, the two sensitivities, good, bad, bad2 (the sentences that are compared) with
        their probabilities, top2 to top5 with theirs.
    """
    accuracy, cut = ACCURACIES[0], pl.col("query").str.split(MASK)
    fits = pl.col("good").str.strip_prefix(cut.list.first()).str.strip_suffix(cut.list.last())
    alone = pl.coalesce("expected", fits) == fits
    return items.select(
        item="item",
        condition="condition",
        sentence=pl.col("query").str.replace_all(MASK, mask, literal=True),
        expected=pl.coalesce("expected", fits),
        answer="top1",
        **{CORRECT: accuracy},
        failed=~pl.coalesce(accuracy, SENSITIVITY),
        rank="rank",
        logprob=pl.when(alone).then(_logarithm("good_probability")),
        answer_logprob=_logarithm("top1_probability"),
        **{name: name for name in ("dataset", "splits", "cluster", "draw")},
        **{name: name for name in (*ACCURACIES[1:], SENSITIVITY, BEYOND_THRESHOLD)},
        **{name: name for one in ("good", "bad", "bad2") for name in (one, f"{one}_probability")},
        **{name: name for name in _FURTHER},
    )


def _logarithm(probability: str) -> pl.Expr:
    """The natural logarithm; null where the probability is too small to be recorded."""
    return pl.when(pl.col(probability) > 0).then(pl.col(probability).log())
