"""A loop in PyTorch: sentences sorted by length, padded, in batches of the size that is fastest."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

from ....engine.inference.free_text import MASK
from .. import LOOP, ROW
from ..system import Answers, Choice, Place
from ..torch_models import TorchSystem, head_logits_at_mask, logits_at_mask
from . import Stimuli

_BATCHES = (8, 16, 32, 64, 128)


class Loop(TorchSystem[Stimuli]):
    """All logits, then the row of the mask: log-probability and rank of the targets, and the first choice."""

    name = LOOP
    kind = AutoModelForMaskedLM
    reference = True

    def about(self, choice: Choice) -> str:
        return f"batches of {choice['batch']}"

    def choices(self, place: Place) -> Sequence[Choice]:  # noqa: ARG002
        return [{"batch": size} for size in _BATCHES]

    def run(self, work: Stimuli, choice: Choice) -> Answers:
        tokenizer, size = self._tokenizer, choice["batch"]
        texts = [text.replace(MASK, tokenizer.mask_token) for text in work.table["sentence"]]
        targets = [tokenizer.convert_tokens_to_ids(list(work.table[name])) for name in work.targets]
        expected = np.stack(targets, axis=1)
        order = np.argsort([len(text) for text in texts], kind="stable")
        scores = np.empty(expected.shape)
        for start in range(0, len(texts), size):
            rows = order[start : start + size]
            encoded = tokenizer([texts[row] for row in rows], padding=True, return_tensors="pt").to(self._device)
            with torch.inference_mode():
                logits = self._at_mask(encoded)
                own = logits.gather(1, torch.from_numpy(expected[rows]).to(self._device))
                logprobs = own - logits.logsumexp(1, keepdim=True)
                for target in range(expected.shape[1]):
                    (logits > own[:, target : target + 1]).sum(1)  # the rank
                logits.argmax(1)
            scores[rows] = logprobs.cpu().numpy()
        return scores

    def _at_mask(self, encoded: Any) -> torch.Tensor:
        return logits_at_mask(self._model, self._tokenizer, encoded)


class RowLoop(Loop):
    """The same, but the head sees the mask's row alone."""

    name = ROW
    reference = False

    def _at_mask(self, encoded: Any) -> torch.Tensor:
        return head_logits_at_mask(self._model, self._tokenizer, encoded)
