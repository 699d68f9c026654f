"""The exported graph against PyTorch in fp32, sentence by sentence.

Both get the same token ids. PyTorch runs the checkpoint as transformers loaded it, without any of our passes; compared
are all logits at the mask and the decision made from them. Besides sentences of the real patterns there are strings of
random tokens from the shortest to the longest input that the model takes, because a graph can be right for short
sentences only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from ..engine.errors import InputError

TOLERANCE = 1e-3  # largest |Δlogit|, relative to logits beyond 1; fp32 kernels differ by 1e-6 to 1e-4


@dataclass(frozen=True)
class Sentence:
    """Token ids int32 [L] with special tokens, and where the mask is."""

    ids: NDArray[np.int32]
    mask_position: int


@dataclass(frozen=True)
class Parity:
    """How far the graph is from PyTorch.

    `largest_difference` is max |Δlogit| over all sentences and the whole vocabulary; `top1_agreement` the share of
    sentences with the same top-1. A different top-1 whose two logits are closer than the tolerance is a tie.
    """

    sentences: int
    largest_difference: float
    top1_agreement: float
    ties: int
    tolerance: float = TOLERANCE


def random_sentences(tokens: Sequence[int], mask_id: int, longest: int, seed: int = 0) -> list[Sentence]:
    """One string of random tokens, drawn from those given, for each of several lengths up to the longest."""
    random = np.random.default_rng(seed)
    sentences = []
    for length in sorted({3, 17, 64, 150, min(longest, 512)}):
        if length <= longest:
            ids = random.choice(np.array(tokens, np.int32), length)
            position = int(random.integers(length))
            ids[position] = mask_id
            sentences.append(Sentence(ids, position))
    return sentences


def batches(sentences: Sequence[Sentence]) -> list[dict[str, NDArray[np.int32]]]:
    """The sentences as inputs of a finished graph, one batch for each length."""
    by_length: dict[int, list[Sentence]] = {}
    for sentence in sentences:
        by_length.setdefault(len(sentence.ids), []).append(sentence)
    return [
        {
            "input_ids": np.stack([sentence.ids for sentence in group]),
            "mask_position": np.array([sentence.mask_position for sentence in group], np.int32),
            "expected_id": np.zeros(len(group), np.int32),
        }
        for _, group in sorted(by_length.items())
    ]


def reference_logits(model: PreTrainedModel, sentences: Sequence[Sentence]) -> NDArray[np.float32]:
    """PyTorch's logits at the mask, one sentence at a time: float32 [n, V]."""
    rows = []
    with torch.inference_mode():
        for sentence in sentences:
            logits = model(input_ids=torch.from_numpy(sentence.ids.astype(np.int64))[None]).logits
            rows.append(logits[0, sentence.mask_position].numpy())
    return np.stack(rows)


def compare(
    graph: Path,
    sentences: Sequence[Sentence],
    reference: NDArray[np.float32],
    *,
    name: str,
    tolerance: float = TOLERANCE,
) -> Parity:
    """Run the exported graph on the CPU and compare.

    Args:
        graph: the exported model.onnx.
        sentences: what to run; all share no length in particular.
        reference: PyTorch's logits, float32 [n, V].
        name: what to call the model in an error.
        tolerance: largest |Δlogit| allowed, absolute up to 1, relative beyond.

    Raises:
        InputError: a logit is further off than the tolerance, or a top-1 differs that is no tie.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    largest, agreed, ties = 0.0, 0, 0
    for sentence, wanted in zip(sentences, reference, strict=True):
        top = int(wanted.argmax())
        feeds = {
            "input_ids": sentence.ids[None],
            "mask_position": np.array([sentence.mask_position], np.int32),
            "expected_id": np.array([top], np.int32),
        }
        (ids,), (values,), (logits,) = session.run(["decision_ids", "decision_logits", "logits"], feeds)
        difference = float(np.abs(logits - wanted).max())
        allowed = tolerance * max(1.0, float(np.abs(wanted).max()))
        # The decision head is compared with the same numbers computed by NumPy from the graph's own logits.
        head = np.array([logits[ids[0]], np.partition(logits, -2)[-2], logits[top], _log_sum_exp(logits)])
        head_wrong = float(np.abs(values - head).max()) > allowed or ids[1] != 1 + int((logits > logits[top]).sum())
        if not difference <= allowed or head_wrong:
            raise InputError(
                f"{name}: the exported graph disagrees with PyTorch: |Δlogit| {difference:.2g} where {allowed:.2g} is "
                f"allowed, on a sentence of {len(sentence.ids)} tokens; this model cannot be used"
            )
        largest = max(largest, difference)
        agreed += int(ids[0] == top)
        if ids[0] != top:
            if wanted[top] - wanted[ids[0]] > allowed:
                raise InputError(f"{name}: the exported graph disagrees with PyTorch on a top-1; it cannot be used")
            ties += 1
    return Parity(len(sentences), largest, agreed / len(sentences), ties, tolerance)


def _log_sum_exp(logits: NDArray[np.float32]) -> float:
    wide = logits.astype(np.float64)
    top = wide.max()
    return float(np.log(np.exp(wide - top).sum()) + top)
