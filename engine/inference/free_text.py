"""Sentences given as text, with one mask each: encode them, run them in batches of equal length, rank the tokens."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from ..basics.errors import InputError
from ..text.tokenizer import MaskTokenizer
from .batches import Result, finished, in_batches
from .exported import ExportedModel, refuse_too_long
from .judge import logprobs_of, top_tokens
from .model import MOST_LOGITS, LanguageModel

MASK = "[MASK]"  # in a text this stands for the mask token of any model


def encode_texts(exported: ExportedModel, tokenizer: MaskTokenizer, texts: Sequence[str]) -> list[NDArray[np.int32]]:
    """The ids of texts with one mask each, [MASK] or the model's own."""
    encoded = tokenizer.encode([text.replace(MASK, tokenizer.mask_token) for text in texts])
    for text, ids in zip(texts, encoded, strict=True):
        one_mask(exported, tokenizer, ids, repr(text))
    return encoded


def one_mask(exported: ExportedModel, tokenizer: MaskTokenizer, ids: NDArray[np.int32], what: str) -> int:
    """The position of the mask in a sentence that the model can be asked about; else an InputError with its source."""
    (found,) = np.nonzero(ids == tokenizer.mask_id)
    if len(found) != 1:
        raise InputError(f"{what}: {len(found) or 'no'} masks, where one {MASK} is needed")
    refuse_too_long(exported, len(ids), what)
    refuse_padding(exported, ids.tolist(), what)
    return int(found[0])


def refuse_padding(exported: ExportedModel, ids: Sequence[int], what: str) -> None:
    """InputError for a sentence with the padding token, because models ignore it."""
    if exported.padding_id in ids:
        raise InputError(f"{what}: contains the padding token, which the model ignores: remove it")


def reduce_logits(
    model: LanguageModel,
    sentences: Sequence[NDArray[np.int32]],
    mask_id: int,
    reduce: Callable[[NDArray[np.int64], NDArray[np.float32]], Result],
) -> list[Result]:
    """What `reduce` makes, in several threads, of each batch, its rows, int64 [n], and logits, float32 [n, V]."""
    units = [[(ids, int((ids == mask_id).argmax()))] for ids in sentences]
    batches = in_batches(units, max(1, MOST_LOGITS // model.exported.vocab_size), model.divide_together)
    asked = [batch.sentences(units) for batch in batches]
    return finished(model.reduce_logits(asked, lambda number, logits: reduce(batches[number].rows, logits[0])))


class Prediction(TypedDict):
    """One token that a model predicts at the mask of a text; rank 1 is the most probable one."""

    text: str
    rank: int
    token: str
    logit: float
    probability: float


def predict_texts(
    model: LanguageModel, tokenizer: MaskTokenizer, texts: Sequence[str], top: int = 5
) -> list[Prediction]:
    """The `top` most probable tokens of each text, the most probable first; errors as for `encode_texts`."""

    def best(rows: NDArray[np.int64], logits: NDArray[np.float32]) -> dict[int, list[Prediction]]:
        ids = top_tokens(logits, min(top, logits.shape[1]))
        probabilities, told = np.exp(logprobs_of(logits, ids)).tolist(), {}
        for row, own, scores, chances in zip(rows.tolist(), ids.tolist(), logits, probabilities, strict=True):
            shown = [tokenizer.token_text(token) for token in own]
            ranked = enumerate(zip(shown, scores[own].tolist(), chances, strict=True), start=1)
            told[row] = [
                Prediction(text=texts[row], rank=i, token=t, logit=x, probability=p) for i, (t, x, p) in ranked
            ]
        return told

    found: dict[int, list[Prediction]] = {}
    for some in reduce_logits(model, encode_texts(model.exported, tokenizer, texts), tokenizer.mask_id, best):
        found |= some
    return [prediction for row in range(len(texts)) for prediction in found[row]]
