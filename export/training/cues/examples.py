"""Sentences as a token classifier learns them: the first token of each word has the word's label, the others none."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ....engine.experiments.cues.columns import MarkedSentence
from ....engine.experiments.cues.encoding import NO_TOKEN, WordEncoder
from ....engine.experiments.cues.labels import LABELS, OUTSIDE, cues_of, labels_of
from ....engine.experiments.cues.scorer import score
from ..job import Batch

IGNORED = -100
"""The label of a token that is not learned, as PyTorch's loss has it."""


@dataclass(frozen=True, eq=False)
class Example:
    """A sentence, or a piece of one that is too long.

    Attributes:
        ids: int32 [L], special tokens included.
        labels: int64 [L], positions in `LABELS`; `IGNORED` for all tokens but the first one of a word.
        first: int64 [words], the position of each word's first token; `NO_TOKEN` where it has none.
        sentence: The number of its sentence.
    """

    ids: NDArray[np.int32]
    labels: NDArray[np.int64]
    first: NDArray[np.int64]
    sentence: int


def examples(sentences: Sequence[MarkedSentence], tokenizer: PreTrainedTokenizerFast, max_length: int) -> list[Example]:
    """The examples of sentences, in their order.

    Args:
        sentences: From a corpus.
        tokenizer: Of the model; it is not changed.
        max_length: The largest number of tokens of an example.
    """
    return list(_examples(sentences, tokenizer, max_length))


def _examples(
    sentences: Sequence[MarkedSentence], tokenizer: PreTrainedTokenizerFast, max_length: int
) -> Iterator[Example]:
    encoder = WordEncoder(Tokenizer.from_str(tokenizer.backend_tokenizer.to_str()), max_length)
    encoded = encoder.encode([sentence.words for sentence in sentences])
    for number, (sentence, windows) in enumerate(zip(sentences, encoded, strict=True)):
        names = iter(labels_of(sentence.words, sentence.cues)[0])
        for window in windows:
            labels = np.full(len(window.ids), IGNORED, np.int64)
            for at in window.first.tolist():
                label = LABELS.index(next(names))
                if at != NO_TOKEN:
                    labels[at] = label
            yield Example(window.ids, labels, window.first, number)


def collate_with(padding_id: int) -> Callable[[Sequence[Example]], Batch]:
    """Examples → inputs of a model and labels, filled up to the longest one.

    Args:
        padding_id: The token that fills up.
    """

    def collate(batch: Sequence[Example]) -> Batch:
        length = max(len(example.ids) for example in batch)
        ids = np.full((len(batch), length), padding_id, np.int64)
        mask, labels = np.zeros_like(ids), np.full_like(ids, IGNORED)
        for row, example in enumerate(batch):
            own = slice(len(example.ids))
            ids[row, own], mask[row, own], labels[row, own] = example.ids, 1, example.labels
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "labels": torch.from_numpy(labels),
        }

    return collate


def score_with(
    sentences: Sequence[MarkedSentence], dev: Sequence[Example]
) -> Callable[[NDArray[np.float32], NDArray[np.int64]], dict[str, float]]:
    """Logits of the dev set → F1, precision and recall of its cues, as the shared task counts them.

    Args:
        sentences: The dev set.
        dev: Its examples, in the order of the logits.
    """

    def scores(logits: NDArray[np.float32], _: NDArray[np.int64]) -> dict[str, float]:
        names: list[list[str]] = [[] for _ in sentences]
        for example, own in zip(dev, logits.argmax(axis=-1), strict=True):
            names[example.sentence] += [OUTSIDE if at == NO_TOKEN else LABELS[own[at]] for at in example.first.tolist()]
        found = [cues_of(sentence.words, own) for sentence, own in zip(sentences, names, strict=True)]
        counts, _by_kind = score([sentence.cues for sentence in sentences], found)
        return {"F1": counts.f1, "precision": counts.precision, "recall": counts.recall}

    return scores
