"""Free text with one mask: encode it, run it in batches of equal length, look at all the logits.

The main job composes token ids from pieces and reads decisions; this is the way for sentences that are given one by one
(`predict`, the probes of the other papers) and for measures over the whole vocabulary.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..sentences.tokens import MaskTokenizer, Slice
from .exported import ExportedModel
from .model import MaskedLM

MASK = "[MASK]"  # what may stand in a text for the model's own mask token


def slices(
    exported: ExportedModel, tokenizer: MaskTokenizer, texts: Sequence[str], places: Sequence[str] | None = None
) -> list[Slice]:
    """Encode texts and group them by their exact number of tokens, shortest first.

    Args:
        exported: the model that they are for.
        tokenizer: the model's.
        texts: each with one mask, written [MASK] or as the model's own mask token.
        places: where each text comes from, as `file:line`, for the message if it is bad.

    Raises:
        InputError: a text without a mask, with two, with padding, or too long.
    """
    encoded = tokenizer.encode([text.replace(MASK, tokenizer.mask_token) for text in texts])
    by_length: dict[int, list[int]] = {}
    positions = np.empty(len(texts), np.int32)
    for row, ids in enumerate(encoded):
        (found,) = np.nonzero(ids == tokenizer.mask_id)
        place = places[row] if places else repr(texts[row])
        if len(found) != 1:
            raise InputError(f"{place}: {len(found) or 'no'} masks, where one {MASK} is needed")
        if len(ids) > exported.max_length:
            raise InputError(
                f"{place}: {len(ids)} tokens, {exported.name} takes {exported.max_length}: shorten the text"
            )
        if exported.padding_id in ids:
            raise InputError(f"{place}: holds the padding token, which the model does not read: take it out")
        positions[row] = found[0]
        by_length.setdefault(len(ids), []).append(row)
    return [
        Slice(rows=np.array(rows), ids=np.stack([encoded[row] for row in rows]), mask_position=positions[rows])
        for _, rows in sorted(by_length.items())
    ]


def logits_in_batches(
    model: MaskedLM, sentences: Sequence[Slice]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the rows of each batch, int64 [n], and their logits at the mask, float32 [n, V].

    Never more than one batch of logits is held.
    """
    for part in sentences:
        size = model.batch_size(part.ids.shape[1])
        for start in range(0, len(part.rows), size):
            batch = slice(start, start + size)
            yield part.rows[batch], model.logits(part.ids[batch], part.mask_position[batch])


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Natural logarithms of the probabilities over the last axis, computed in float64."""
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
