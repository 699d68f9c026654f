"""The job of a classifier of sentence pairs: how pairs are encoded, and how its answers are scored."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ..base import Base
from ..job import Batch, Job
from .data import Example


def nli_job(base: Base, learned: Sequence[Example], dev: Sequence[Example], max_length: int) -> Job:
    """What is trained: a classifier of pairs.

    Args:
        base: The checkpoint to start from.
        learned: The pairs to learn from.
        dev: The pairs to score after each epoch.
        max_length: Largest number of tokens in a pair.
    """
    return Job(
        name=base.name,
        config=base.config,
        open=base.open,
        tokenizer=base.tokenizer,
        train=learned,
        dev=dev,
        collate=pair_encoder(base.tokenizer, max_length),
        score=accuracy,
    )


def pair_encoder(tokenizer: PreTrainedTokenizerFast, max_length: int) -> Callable[[Sequence[Example]], Batch]:
    """A function that encodes pairs for the model, padded to the longest one.

    A pair that is too long is truncated as the engine does it: one token after another is removed from the text that is
    longer at that moment.

    Args:
        tokenizer: The model's tokenizer.
        max_length: Largest number of tokens in a pair, special tokens included.
    """

    def encode(examples: Sequence[Example]) -> Batch:
        texts, hypotheses, labels = zip(*examples, strict=True)
        encoded = tokenizer(
            list(texts),
            list(hypotheses),
            truncation="longest_first",
            max_length=max_length,
            padding=True,
            return_tensors="pt",
        )
        return {**encoded, "labels": torch.tensor(labels)}

    return encode


def accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> Mapping[str, float]:
    """The share of pairs whose label is right.

    Args:
        logits: float32 [n, labels].
        labels: int64 [n].
    """
    return {"accuracy": float((logits.argmax(axis=1) == labels).mean())}
