"""What the systems of all papers with masks share: logits at the mask, one sentence at a time or in batches."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM

from ....engine.inference.free_text import MASK, encode_texts
from ....engine.text.token_ids import Bucket
from ..own import Fp32
from ..system import Answers, Choice, Place, batch_sizes
from ..torch_models import TorchSystem, head_logits_at_mask, logits_at_mask
from . import LOOP_ALONE, OURS_ALONE

Rows = NDArray[np.int64]


class Asked(Protocol):
    """Items that ask a model about texts with one mask each."""

    def __len__(self) -> int:
        """How many items."""

    def head(self, n: int) -> Self:
        """The first n of them."""

    @property
    def texts(self) -> Sequence[str]:
        """All texts of the items, each with one [MASK]."""


class TorchMasked(TorchSystem[Any]):
    """PyTorch with all logits of a text, and the row of its mask."""

    kind = AutoModelForMaskedLM

    def one_by_one(self, texts: Sequence[str]) -> Iterator[torch.Tensor]:
        """The logits at the mask of each text, float32 [V], one text at a time."""
        for text in texts:
            [(_, logits)] = self.batches([text], 1)
            yield logits[0]

    def batches(self, texts: Sequence[str], size: int) -> Iterator[tuple[Rows, torch.Tensor]]:
        """Texts sorted by their number of tokens, padded: their rows, and their logits at the mask, float32 [n, V]."""
        for rows, padded in self.padded(texts, size):
            with torch.inference_mode():
                yield rows, self.at_mask(padded)

    def padded(self, texts: Sequence[str], size: int) -> Iterator[tuple[Rows, Any]]:
        """Texts sorted by their number of tokens, padded: the rows of each batch, and what the model takes."""
        encoded = self._tokenizer([text.replace(MASK, self._tokenizer.mask_token) for text in texts])["input_ids"]
        order = np.argsort([len(ids) for ids in encoded], kind="stable")
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            ids = [encoded[row] for row in rows.tolist()]
            yield rows, self._tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(self._device)

    def at_mask(self, padded: Any) -> torch.Tensor:
        return logits_at_mask(self._model, self._tokenizer, padded)


class TorchMaskRow(TorchMasked):
    """The same, but the head sees the mask's row alone."""

    def at_mask(self, padded: Any) -> torch.Tensor:
        return head_logits_at_mask(self._model, self._tokenizer, padded)


class LoopAlone(TorchMaskRow):
    """The model of the loop alone: texts are encoded, sorted and padded before the clock starts."""

    name = LOOP_ALONE

    def about(self, choice: Choice) -> str:
        return f"batches of {choice['batch']}, the head at the mask; no texts, no results"

    def choices(self, place: Place) -> Sequence[Choice]:
        return batch_sizes(place)

    def given(self, work: Asked, choice: Choice) -> list[tuple[Rows, Any]]:
        return list(self.padded(work.texts, choice["batch"]))

    def run(self, work: list[tuple[Rows, Any]], choice: Choice) -> Answers:  # noqa: ARG002
        with torch.inference_mode():
            found = [self.at_mask(padded).argmax(1).cpu().numpy() for _, padded in work]
        return in_order([rows for rows, _ in work], found)


class OwnAlone(Fp32[Any]):
    """Our reference model alone: texts are encoded before the clock starts."""

    name = OURS_ALONE

    def about(self, choice: Choice) -> str:
        return f"{super().about(choice)}; no texts, no results"

    def given(self, work: Asked, choice: Choice) -> list[Bucket]:  # noqa: ARG002
        return encode_texts(self._exported, self._exported.tokenizer, work.texts)

    def run(self, work: list[Bucket], choice: Choice) -> Answers:  # noqa: ARG002
        groups = [(bucket.ids, bucket.mask_position, np.zeros(len(bucket.rows), np.int32)) for bucket in work]
        return in_order([bucket.rows for bucket in work], [found.top1 for found in self._model.decide_each(groups)])


def in_order(rows: Sequence[Rows], found: Sequence[Answers]) -> Answers:
    """Answers of batches in the order of the items."""
    together: Answers = np.concatenate(found)
    return together[np.argsort(np.concatenate(rows), kind="stable")]
