"""Optimum's own export of the checkpoint in ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ....export.quiet import quiet
from ...workload import Sentences
from ..cached import once
from ..system import Answers, Choice, Place, System, batch_sizes
from ..torch_models import as_ids, logits_at_mask, tokenizer_of
from .authors import batches


class Optimum(System[Sentences]):
    """ORTModelForMaskedLM."""

    name = "Optimum"
    needs = ("optimum.onnxruntime",)
    extra = "export"

    def about(self, choice: Choice) -> str:
        return f"ORTModelForMaskedLM, batches of {choice['batch']} padded"

    def choices(self, place: Place) -> Sequence[Choice]:
        return batch_sizes(place)

    def make(self, place: Place) -> None:
        plain_export(place)

    def open(self, place: Place) -> None:
        import onnxruntime as ort  # noqa: PLC0415 - slow
        from optimum.onnxruntime import ORTModelForMaskedLM  # noqa: PLC0415

        options = ort.SessionOptions()
        options.intra_op_num_threads = place.threads
        provider, where = self._provider(place)
        with quiet():
            self._model = ORTModelForMaskedLM.from_pretrained(
                plain_export(place), provider=provider, provider_options=where, session_options=options
            )
        self._tokenizer = tokenizer_of(place)

    def _provider(self, place: Place) -> tuple[str, dict[str, object] | None]:
        if place.device.kind == "cpu":
            return "CPUExecutionProvider", None
        return "CUDAExecutionProvider", {"device_id": place.device.index}

    def run(self, work: Sentences, choice: Choice) -> Answers:
        found = []
        for texts in batches(work.texts, choice["batch"]):
            encoded = self._tokenizer(list(texts), padding=True, return_tensors="pt").to(self._model.device)
            found.append(as_ids(logits_at_mask(self._model, self._tokenizer, encoded).argmax(-1)))
        return np.concatenate(found)


def plain_export(place: Place) -> Path:
    """The folder of Optimum's export of the checkpoint, made once."""

    def make(folder: Path) -> None:
        from optimum.exporters.onnx import main_export  # noqa: PLC0415 - slow

        with quiet():
            main_export(place.checkpoint, folder, task="fill-mask", do_validation=False)

    return once(place, "optimum", make)
