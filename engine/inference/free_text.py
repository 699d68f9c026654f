"""Sentences given as text, with one mask each: encode them, run them in batches of equal length, rank the tokens."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from ..basics.errors import InputError
from ..text.token_ids import Bucket, in_buckets
from ..text.tokenizer import MaskTokenizer
from .batches import Result, finished
from .exported import ExportedModel, refuse_too_long
from .judge import logprobs_of, top_tokens
from .model import MOST_LOGITS, LanguageModel

MASK = "[MASK]"  # in a text this stands for the mask token of any model


def encode_texts(exported: ExportedModel, tokenizer: MaskTokenizer, texts: Sequence[str]) -> list[Bucket]:
    """Encode texts with one mask each, [MASK] or the model's own, by ascending length."""
    encoded = tokenizer.encode([text.replace(MASK, tokenizer.mask_token) for text in texts])
    for text, ids in zip(texts, encoded, strict=True):
        one_mask(exported, tokenizer, ids, repr(text))
    return list(in_buckets(encoded, tokenizer.mask_id))


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
    sentences: Sequence[Bucket],
    reduce: Callable[[NDArray[np.int64], NDArray[np.float32]], Result],
) -> list[Result]:
    """What `reduce` makes, in several threads, of each batch, its rows, int64 [n], and logits, float32 [n, V]."""
    divided = model.divide_together([(len(bucket.rows), bucket.ids.shape[1]) for bucket in sentences])
    most = max(1, MOST_LOGITS // model.exported.vocab_size)
    batches = [
        (bucket, slice(start, min(start + most, part.stop, len(bucket.rows))))
        for bucket, parts in zip(sentences, divided, strict=True)
        for part in parts
        for start in range(part.start, min(part.stop, len(bucket.rows)), most)
    ]
    batches.sort(key=lambda batch: -batch[0].ids[batch[1]].size)
    steps = model.reduce_logits(
        [[(bucket.ids[part], bucket.mask_position[part])] for bucket, part in batches],
        lambda number, logits: reduce(batches[number][0].rows[batches[number][1]], logits[0]),
    )
    return finished(steps)


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
    for some in reduce_logits(model, encode_texts(model.exported, tokenizer, texts), best):
        found |= some
    return [prediction for row in range(len(texts)) for prediction in found[row]]
