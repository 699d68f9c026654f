"""Loops in PyTorch: sentences or their masked copies, sorted by length and padded, in batches of the fastest size."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from .. import LOOP, ROW
from ..system import Answers, Choice, Place, batch_sizes
from ..torch_models import TorchSystem, head_at
from . import Texts


class _Loop(TorchSystem[Texts]):
    name = LOOP
    reference = True

    def about(self, choice: Choice) -> str:
        return f"batches of {choice['batch']}"

    def choices(self, place: Place) -> Sequence[Choice]:
        return batch_sizes(place)


class CausalLoop(_Loop):
    """Sentences through a causal model, with the logits of all tokens."""

    kind = AutoModelForCausalLM

    def run(self, work: Texts, choice: Choice) -> Answers:
        found, size = np.zeros(len(work)), choice["batch"]
        encoded = self._tokenizer(list(work.texts), return_special_tokens_mask=True)
        order = sorted(range(len(work)), key=lambda row: len(encoded["input_ids"][row]))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            ids = [encoded["input_ids"][row] for row in rows]
            padded = self._tokenizer.pad({"input_ids": ids}, return_tensors="pt", padding_side="right")
            with torch.inference_mode():
                logprobs = self._model(**padded.to(self._device)).logits[:, :-1].log_softmax(-1)
                following = padded["input_ids"][:, 1:]
                scores = logprobs.gather(2, following[:, :, None])[:, :, 0].double().cpu().numpy()
            for place, row in enumerate(rows):
                special = np.array(encoded["special_tokens_mask"][row][1:], bool)
                found[row] = scores[place, : len(special)][~special].sum()
        return found


class MaskedLoop(_Loop):
    """The masked copies of all sentences; all logits, then the row of the mask."""

    kind = AutoModelForMaskedLM

    def run(self, work: Texts, choice: Choice) -> Answers:
        found, size = np.zeros(len(work)), choice["batch"]
        copies = sorted(_copies(self._tokenizer, work.texts), key=lambda masked: len(masked[1]))
        for start in range(0, len(copies), size):
            rows, ids, places, tokens = zip(*copies[start : start + size], strict=True)
            padded = self._tokenizer.pad({"input_ids": list(ids)}, return_tensors="pt").to(self._device)
            with torch.inference_mode():
                logits = self._at(padded, np.array(places, np.int32))
                scores = logits[torch.arange(len(ids)), torch.tensor(tokens)] - logits.logsumexp(1)
            np.add.at(found, list(rows), scores.double().cpu().numpy())
        return found

    def _at(self, padded: Any, places: Any) -> torch.Tensor:
        logits: torch.Tensor = self._model(**padded).logits
        return logits[torch.arange(len(places)), torch.from_numpy(places.astype(np.int64))]


class MaskedRowLoop(MaskedLoop):
    """The same, but the head sees the mask's row alone."""

    name = ROW
    reference = False

    def _at(self, padded: Any, places: Any) -> torch.Tensor:
        with head_at(self._model, places):
            logits: torch.Tensor = self._model(**padded).logits[:, 0]
        return logits


def _copies(tokenizer: Any, texts: Sequence[str]) -> Iterator[tuple[int, list[int], int, int]]:
    """The masked copies of all sentences: number of the sentence, ids, position, token."""
    encoded = tokenizer(list(texts), return_special_tokens_mask=True)
    for row, (ids, special) in enumerate(zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)):
        for place, token in enumerate(ids):
            if not special[place]:
                yield row, [*ids[:place], tokenizer.mask_token_id, *ids[place + 1 :]], place, token
