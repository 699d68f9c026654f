"""The authors' programs: a padded batch, or one sentence at a time, with the logits at all positions."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

from ...workload import Sentences
from ..system import Answers, Choice
from ..torch_models import Ids, TorchSystem, as_ids, logits_at_mask

_BATCH = 100
_SLOWER = 8


class _Padded(TorchSystem[Sentences]):
    kind = AutoModelForMaskedLM
    reference = True
    size: int

    def run(self, work: Sentences, choice: Choice) -> Answers:  # noqa: ARG002
        return np.concatenate([self._top1(texts) for texts in batches(work.texts, self.size)])

    def _top1(self, texts: Sequence[str]) -> Ids:
        encoded = self._tokenizer(list(texts), padding=True, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            logits = logits_at_mask(self._model, self._tokenizer, encoded)
        return as_ids(logits.topk(1).indices[:, 0])


class AuthorsSelection(_Padded):
    """The authors' selection."""

    name = "authors, selection"
    size = _BATCH

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return f"PyTorch, batches of {_BATCH} padded, logits at all positions"


class AuthorsScoring(_Padded):
    """The authors' scoring."""

    name = "authors, scoring"
    size = 1
    fewer = _SLOWER

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return "PyTorch, one sentence at a time"


def batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The texts in their order, some at a time."""
    for start in range(0, len(texts), size):
        yield texts[start : start + size]
