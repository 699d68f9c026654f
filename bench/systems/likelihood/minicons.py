"""minicons' own scorer, with the number of sentences at a time that is fastest."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch

from ....engine.inference.exported import load_exported
from ....export.quiet import quiet
from ..system import Answers, Choice, Place, System
from . import Texts

_AT_A_TIME = (1, 4, 16, 64)


class Minicons(System[Texts]):
    """MaskedLMScorer or IncrementalLMScorer."""

    name = "minicons"
    needs = ("minicons",)

    def about(self, choice: Choice) -> str:
        return f"{choice['batch']} sentences at a time"

    def choices(self, place: Place) -> Sequence[Choice]:  # noqa: ARG002
        return [{"batch": size} for size in _AT_A_TIME]

    def open(self, place: Place) -> None:
        from minicons import scorer  # noqa: PLC0415 - optional

        torch.set_num_threads(place.threads)
        is_causal = load_exported(place.exported).is_causal
        kind = scorer.IncrementalLMScorer if is_causal else scorer.MaskedLMScorer
        with quiet(), warnings.catch_warnings(action="ignore"):
            self._model = kind(place.checkpoint, place.torch_device)

    def run(self, work: Texts, choice: Choice) -> Answers:
        found: list[float] = []
        for start in range(0, len(work), choice["batch"]):
            texts = list(work.texts[start : start + choice["batch"]])
            found += self._model.sequence_score(texts, reduction=lambda own: own.sum(0).item())
        return np.array(found)
