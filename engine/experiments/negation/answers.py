"""What the model answered in the selecting pattern: the selection keeps it, so that the scoring need not ask again.

The scoring takes these numbers only if this machine finds the same for some hundred triplets. The last digits of a
sentence can depend on its batch: a few rows may differ there, but not by more than a near-tie.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from ...inference.exported import PRECISIONS, REFERENCE
from ...inference.words import WordScores
from ...text.token_ids import NOTHING
from ...text.tokenizer import MaskTokenizer

ANSWERS_FILE = "answers.parquet"
SAMPLE = 512
"""How many triplets are decided again before a scoring takes the answers of the selection."""

_COLUMN = "the model's answer"  # no slot of a pattern has such a name
ANSWERS = {
    "top1": pl.String,
    "expected_rank": pl.Int32,
    "expected_logprob": pl.Float32,
    "top1_logprob": pl.Float32,
    "precision": pl.String,
}
_OTHER_DIGITS = 0.05  # of the sample; on another kind of processor nearly all rows have other last digits


IN_PART = {_COLUMN: pl.Struct(ANSWERS)}
"""The column that has all answers of a triplet in a part of a selection."""


def answer_columns(scores: WordScores, tokenizer: MaskTokenizer) -> dict[str, pl.Series]:
    """What the model answers, as the columns of answers.parquet.

    top1              the word if it is repeated; else its tokens before the first that is not the first choice, and
                      there the first choice. Of a word of several tokens, it may be a part of a word
    expected_rank     the largest rank of the word's tokens: 1 if and only if the word is repeated
    expected_logprob  the sum over the word's tokens: the word's log-probability, given its number of tokens
    top1_logprob      the sum over the first choices at the same positions: at least as large
    precision         of the graph with the lowest precision that gave one of the numbers
    """
    right = scores.right
    last = np.where(right.all(axis=1), scores.words.counts - 1, (~right).argmax(axis=1))
    tokens = np.where(np.arange(right.shape[1]) <= last[:, None], scores.choices, NOTHING)
    distinct, where = np.unique(tokens, axis=0, return_inverse=True)
    texts = [tokenizer.word_text([token for token in own if token != NOTHING]) for own in distinct.tolist()]
    return {
        "top1": pl.Series(texts, dtype=pl.String).gather(where.ravel()),
        "expected_rank": pl.Series(scores.worst_rank, dtype=pl.Int32),
        "expected_logprob": pl.Series(scores.logprob.astype(np.float32), dtype=pl.Float32),
        "top1_logprob": pl.Series(scores.choice_logprob.astype(np.float32), dtype=pl.Float32),
        "precision": pl.Series(PRECISIONS, dtype=pl.String).gather(scores.precision.max(axis=1)),
    }


def as_column(answers: Mapping[str, pl.Series]) -> pl.Series:
    """The answers as they stand in a part, beside the triplets."""
    return pl.DataFrame(answers).to_struct(_COLUMN)


def divided(rows: pl.LazyFrame) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """The rows of a selection's parts as triplets and answers."""
    return rows.drop(_COLUMN), rows.select(_COLUMN).unnest(_COLUMN)


def rejoined(triplets: pl.LazyFrame, answers: pl.LazyFrame) -> pl.LazyFrame:
    """The inverse of `divided`: the rows of a selection's parts from its files."""
    told = answers.select(pl.struct(*ANSWERS).alias(_COLUMN))
    return pl.concat([triplets, told], how="horizontal", strict=True)


def disagreement(answers: pl.DataFrame, scores: WordScores, tokenizer: MaskTokenizer, near_tie: float) -> str:
    """Why answers are not those of the reference model on this machine, in one clause; empty if they are."""
    now = pl.DataFrame(answer_columns(scores, tokenizer))
    exact = (answers["precision"].cast(pl.String) == REFERENCE).to_numpy()
    close = (np.abs(scores.margins) < near_tie).any(axis=1)
    if not (scores.top1 | close).all():
        return "this machine decides otherwise about a verb"
    same_choice = (answers["top1"].cast(pl.String) == now["top1"]).to_numpy()
    same_rank = (answers["expected_rank"] == now["expected_rank"]).to_numpy()
    if not ((same_choice & same_rank) | close)[exact].all():
        return "this machine finds other ranks"
    kept, found = (own.select("expected_logprob", "top1_logprob").to_numpy()[exact] for own in (answers, now))
    if not (np.abs(kept - found) < near_tie).all():
        return "this machine finds other log-probabilities"
    other = (kept != found).any(axis=1)
    return "this machine finds other last digits" if len(other) and other.mean() > _OTHER_DIGITS else ""
