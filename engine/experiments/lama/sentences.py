"""The queries of a run with the model's answers (see `negengine.engine.library.sentences`).

An affirmative or misprimed query fails if its first answer is not the gold one. No word is expected in a negation: it
fails if its first answer is that of the affirmative query.
"""

import polars as pl

from ...inference.free_text import MASK
from ...library.sentences import CORRECT
from .items import NEGATED, QUERY, TOP
from .stage import CONDITIONS, NEGATION

_ORDER = (CONDITIONS[0], NEGATION, *CONDITIONS[1:])


def sentence_rows(items: pl.LazyFrame, mask: str) -> pl.LazyFrame:
    """The queries: the affirmative ones, their negations, then the misprimed ones.

    Args:
        items: The content of items.parquet.
        mask: The model's mask token.

    Returns:
        item, condition (`negated` for the negations of `original`), sentence, expected (the gold answer), answer,
        correct, failed, rank (among the ranked tokens), logprob, answer_logprob (natural logarithms), dataset,
        relation, splits, gold, top2, top3 with top2_logprob and top3_logprob.
    """
    negations = items.filter(pl.col(f"{NEGATED}query").is_not_null())
    parts = {condition: items.filter(pl.col("condition") == condition) for condition in CONDITIONS}
    return pl.concat(
        [
            _negations(negations, mask) if condition == NEGATION else _queries(parts[condition], mask)
            for condition in _ORDER
        ]
    )


def _queries(items: pl.LazyFrame, mask: str) -> pl.LazyFrame:
    correct = pl.col("precision@1")
    return items.select(
        item="item",
        condition="condition",
        sentence=_text(QUERY, mask),
        expected="gold",
        answer="top1",
        **{CORRECT: correct},
        failed=~correct,
        rank="rank",
        logprob="gold_logprob",
        **_own(QUERY),
    )


def _negations(items: pl.LazyFrame, mask: str) -> pl.LazyFrame:
    return items.select(
        item="item",
        condition=pl.lit(NEGATION),
        sentence=_text(NEGATED, mask),
        expected=pl.lit(None, pl.String),
        answer=f"{NEGATED}top1",
        **{CORRECT: pl.lit(None, pl.Boolean)},
        failed="overlap@1",
        rank=pl.lit(None, pl.Int32),
        logprob=pl.lit(None, pl.Float32),
        **_own(NEGATED),
    )


def _text(prefix: str, mask: str) -> pl.Expr:
    return pl.col(f"{prefix}query").str.replace_all(MASK, mask, literal=True)


def _own(prefix: str) -> dict[str, str]:
    further = [f"top{i}{what}" for i in range(2, TOP + 1) for what in ("", "_logprob")]
    return {
        "answer_logprob": f"{prefix}top1_logprob",
        "dataset": "dataset",
        "relation": "cluster",
        "splits": "splits",
        "gold": "gold",
        **{name: f"{prefix}{name}" for name in further},
    }
