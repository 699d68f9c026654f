"""From logits to the items of the diagnostics: the columns of items.parquet.

Metrics, as in upstream's code:

    accuracy@k        one of the k most probable tokens, of the whole vocabulary, is an expected word
    sensitivity       the good completion is more probable than each bad one
    sensitivity>0.01  by more than 0.01

A word that is not one token of the model is never among the k, and a comparison with it counts as wrong. The columns
`outside_expected` and `outside_compared` have such words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...inference.free_text import log_softmax, reduce_logits
from ...inference.model import LanguageModel
from ...inference.top import top_tokens
from ...runs.stage import Advance
from ...text.token_ids import Bucket
from ...text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from ..items import ITEM_SCHEMA, joined
from .items import Completion, Item

CUTS = (1, 5)
THRESHOLD = 0.01
SENSITIVITY, BEYOND_THRESHOLD = "sensitivity", f"sensitivity>{THRESHOLD}"
ACCURACIES = tuple(f"accuracy@{k}" for k in CUTS)
METRICS = (*ACCURACIES, SENSITIVITY, BEYOND_THRESHOLD)
TOP = max(CUTS)
COMPARED = ("good", "bad", "bad2")
SCHEMA: Mapping[str, Any] = {
    **ITEM_SCHEMA,
    "draw": pl.Int32,
    **dict.fromkeys(METRICS, pl.Boolean),
    "query": pl.String,
    "expected": pl.String,
    "rank": pl.Int32,
    **{
        f"top{i}{what}": kind
        for i in range(1, TOP + 1)
        for what, kind in (("", pl.String), ("_probability", pl.Float32))
    },
    **{f"{one}{what}": kind for one in COMPARED for what, kind in (("", pl.String), ("_probability", pl.Float32))},
    "outside_expected": pl.String,
    "outside_compared": pl.String,
}


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model predicts about some completions.

    Attributes:
        rank: Completion → rank of its word from 1; 0 if the word is not one token.
        probability: Completion → probability of its word; NaN if the word is not one token.
        top: Text → its most probable tokens with their probabilities.
    """

    rank: Mapping[Completion, int]
    probability: Mapping[Completion, float]
    top: Mapping[str, Sequence[tuple[str, float]]]


def texts_of(items: Iterable[Item]) -> dict[str, int]:
    """The texts of some items, each once, and their positions."""
    texts = dict.fromkeys(completion.text for item in items for completion in item.completions)
    return {text: row for row, text in enumerate(texts)}


def predict(
    model: LanguageModel,
    tokenizer: MaskTokenizer,
    sentences: Sequence[Bucket],
    ids: Mapping[Completion, int],
    texts: Mapping[str, int],
    advance: Advance,
) -> Predictions:
    """Run texts through the model.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        sentences: The texts' token ids.
        ids: Completion → the token of its word, or `NOT_ONE_TOKEN`.
        texts: The completions' texts → their positions in `sentences`.
        advance: Called after each batch.
    """
    completions = list(ids)
    text_of = np.array([texts[completion.text] for completion in completions])
    tokens = np.array([ids[completion] for completion in completions])
    rank, probability = np.zeros(len(completions), np.int64), np.full(len(completions), np.nan)
    top, top_probability = np.empty((len(texts), TOP), np.int64), np.empty((len(texts), TOP))
    by_text = np.argsort(text_of, kind="stable")
    starts = np.searchsorted(text_of[by_text], np.arange(len(texts) + 1))

    def judge(rows: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
        logprobs = log_softmax(logits)
        asked = [(place, which) for place, row in enumerate(rows) for which in by_text[starts[row] : starts[row + 1]]]
        places, whiches = np.array([pair for pair in asked if tokens[pair[1]] != NOT_ONE_TOKEN], int).reshape(-1, 2).T
        own = logits[places]
        rank[whiches] = 1 + (own > own[np.arange(len(whiches)), tokens[whiches], None]).sum(axis=1)
        probability[whiches] = np.exp(logprobs[places, tokens[whiches]])
        top[rows] = best = top_tokens(logits, TOP)
        top_probability[rows] = np.exp(np.take_along_axis(logprobs, best, axis=1))
        advance(len(rows), len(rows))

    for _ in reduce_logits(model, sentences, judge):
        pass
    return Predictions(
        dict(zip(completions, rank.tolist(), strict=True)),
        dict(zip(completions, probability.tolist(), strict=True)),
        {text: _words(tokenizer, top[row], top_probability[row]) for text, row in texts.items()},
    )


def item_rows(items: Sequence[Item], predictions: Predictions) -> pl.DataFrame:
    """The rows of items.parquet for some items; null where a metric does not apply to an item."""
    return pl.DataFrame([_row(item, predictions) for item in items], schema=SCHEMA)


def _words(
    tokenizer: MaskTokenizer, ids: NDArray[np.int64], probabilities: NDArray[np.float64]
) -> list[tuple[str, float]]:
    return list(zip(map(tokenizer.token_text, ids.tolist()), probabilities.tolist(), strict=True))


def _row(item: Item, predictions: Predictions) -> dict[str, Any]:
    text, probability = item.completions[0].text, predictions.probability
    row: dict[str, Any] = {
        "dataset": item.dataset,
        "condition": item.condition,
        "item": item.item,
        "splits": joined(item.splits),
        "cluster": item.cluster,
        "draw": item.draw,
        "query": text,
    }
    for i, (word, chance) in enumerate(predictions.top[text], 1):
        row |= {f"top{i}": word, f"top{i}_probability": chance}
    if item.expected:
        ranks = [rank for one in item.expected if (rank := predictions.rank[one])]
        row |= {f"accuracy@{k}": any(rank <= k for rank in ranks) for k in CUTS}
        row |= {
            "expected": joined(one.word for one in item.expected),
            "rank": min(ranks, default=None),
            "outside_expected": _outside(predictions, item.expected),
        }
    if item.good is not None:
        # Comparisons with NaN are false, differences with it too.
        margins = [probability[item.good] - probability[bad] for bad in item.bad]
        row |= {
            SENSITIVITY: all(probability[item.good] > probability[bad] for bad in item.bad),
            BEYOND_THRESHOLD: all(margin > THRESHOLD for margin in margins),
            "outside_compared": _outside(predictions, item.compared),
        }
        for name, one in zip(COMPARED, item.compared, strict=False):
            chance = probability[one]
            row |= {name: one.sentence, f"{name}_probability": None if np.isnan(chance) else chance}
    return row


def _outside(predictions: Predictions, completions: Sequence[Completion]) -> str:
    """The words that are not one token of the model, each once."""
    return joined(dict.fromkeys(one.word for one in completions if not predictions.rank[one]))
