"""PyTorch at its best: batches of one length without padding, and the head for the mask's row alone.

In bf16 and fp16, both ways are tried: weights in that precision, and `torch.autocast` with weights in fp32. With
`compiled`, `torch.compile` (Inductor) makes one kernel library for all sizes; that is not part of the time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

from ...workload import Ids, Sentences
from ..system import Answers, Choice, Place, System, batch_sizes
from ..torch_models import MaskRow, as_ids, autocast, compiled, load


class AtMask(System[Sentences]):
    """PyTorch at the mask."""

    def __init__(self, arithmetic: str, *, compiled: bool = False) -> None:
        self.arithmetic, self._compiled = arithmetic, compiled
        precision = "" if arithmetic == "fp32" else f" {arithmetic}"
        self.name = f"{'compiled' if compiled else 'PyTorch'}{precision} at the mask"

    def about(self, choice: Choice) -> str:
        weights = "" if self.arithmetic == "fp32" else ", autocast" if choice["autocast"] else ", weights too"
        return f"batches of {choice['batch']} of one length, head for the mask's row alone{weights}"

    def missing(self, place: Place) -> str | None:
        if self.arithmetic == "fp16" and place.device.kind == "cpu":
            return "PyTorch in fp16 is for CUDA"
        return super().missing(place)

    def choices(self, place: Place) -> Sequence[Choice]:
        sizes = batch_sizes(place)
        if self.arithmetic == "fp32":
            return sizes
        ways = (0,) if self._compiled else (0, 1)  # compiling a second time would take minutes
        return [{**size, "autocast": way} for way in ways for size in sizes]

    def open(self, place: Place) -> None:
        self._place = place
        ways = {choice.get("autocast", 0) for choice in self.choices(place)}
        self._models = {way: self._load("fp32" if way else self.arithmetic) for way in ways}

    def run(self, work: Sentences, choice: Choice) -> Answers:
        way = choice.get("autocast", 0)
        model, found = self._models[way], np.empty(len(work), np.int32)
        with torch.inference_mode(), autocast(self._place, self.arithmetic, on=bool(way)):
            for rows, ids, position in work.batches(choice["batch"]):
                found[rows] = self._top1(model, ids, position)
        return found

    def _load(self, arithmetic: str) -> Any:
        model = MaskRow(load(AutoModelForMaskedLM, self._place, arithmetic)).eval()
        return compiled(model) if self._compiled else model

    def _top1(self, model: Any, ids: Ids, position: Ids) -> Ids:
        if self._compiled and len(ids) == 1:  # a batch of one is compiled apart: its row stands there twice
            return self._top1(model, np.repeat(ids, 2, axis=0), np.repeat(position, 2))[:1]
        places = [torch.from_numpy(own.astype(np.int64)).to(self._place.torch_device) for own in (ids, position)]
        return as_ids(model(*places).argmax(-1))
