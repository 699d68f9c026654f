"""The most probable tokens at the mask of free text."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from ..text.tokenizer import MaskTokenizer
from .free_text import encode_texts, log_softmax, reduce_logits
from .model import LanguageModel
from .top import top_tokens


class Prediction(TypedDict):
    """One token that a model predicts at the mask of a text.

    `rank` is 1 for the most probable token; `logit` is the model's score, `probability` a fraction of 1.
    """

    text: str
    rank: int
    token: str
    logit: float
    probability: float


def predict_texts(
    model: LanguageModel, tokenizer: MaskTokenizer, texts: Sequence[str], top: int = 5
) -> list[Prediction]:
    """The most probable tokens of each text, as rows of a table.

    Args:
        model: an open model.
        tokenizer: the model's.
        texts: each with one mask, written [MASK] or as the model's own mask token.
        top: how many tokens of each text; the whole vocabulary if it has fewer.

    Returns:
        `top` predictions for each text, in the order of the texts given, the most probable token first.

    Raises:
        InputError: a text has no mask or several, holds the padding token, or is too long.
    """

    def best(rows: NDArray[np.int64], logits: NDArray[np.float32]) -> dict[int, list[Prediction]]:
        probabilities = np.exp(log_softmax(logits))
        ids = top_tokens(logits, min(top, logits.shape[1]))
        return {
            row: [
                {
                    "text": texts[row],
                    "rank": rank,
                    "token": tokenizer.token_text(token),
                    "logit": float(scores[token]),
                    "probability": float(chances[token]),
                }
                for rank, token in enumerate(own, start=1)
            ]
            for row, own, scores, chances in zip(rows.tolist(), ids.tolist(), logits, probabilities, strict=True)
        }

    found: dict[int, list[Prediction]] = {}
    for some in reduce_logits(model, encode_texts(model.exported, tokenizer, texts), best):
        found |= some
    return [prediction for row in range(len(texts)) for prediction in found[row]]
