"""What is trained on what: the part of a training that is special to its task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PretrainedConfig, PreTrainedModel
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Job:
    """A model, its examples, and how they are encoded and scored.

    Attributes:
        name: What messages call the model.
        config: The model's configuration; it names the labels.
        open: Loads the model. The weights of its new layer are drawn when it is called, after the seed is set.
        tokenizer: Its tokenizer; saved with the result.
        train: The examples to learn from, of any type.
        dev: The examples to score after each epoch.
        collate: Examples → the model's inputs, and `labels`. It is called with each batch, so the encoded examples are
            never all in memory.
        score: Logits and labels of the dev set → scores by name, as fractions. The labels are those of `collate`; where
            they have different lengths, they are padded with -100.
        best: The name of the score that early stopping looks at, and that progress shows.
        unit: What an example is, in the plural.
    """

    name: str
    config: PretrainedConfig
    open: Callable[[], PreTrainedModel]
    tokenizer: PreTrainedTokenizerFast
    train: Sequence[Any]
    dev: Sequence[Any]
    collate: Callable[[Sequence[Any]], Batch]
    score: Callable[[NDArray[np.float32], NDArray[np.int64]], Mapping[str, float]]
    best: str = "accuracy"
    unit: str = "pairs"
