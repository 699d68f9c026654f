"""OpenVINO at its best on the CPU: batches of one length, head for the mask's row alone, several numbers of streams.

    fp32         the checkpoint, converted from PyTorch
    bf16         the same, products in bf16; only where the processor has them
    int8         weights in int8 (NNCF), and activations quantized at run time in groups, or products in bf16 or fp32
    int8 static  weights and activations in int8 (NNCF's quantization for transformers), scales from the job

A stream computes a batch on its share of the threads: with as many streams as threads, each core has a batch.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.inference.exported import load_exported
from ..export.quiet import quiet
from .main_job import Ids, Sentences, candidates, main_job
from .system import Answers, Choice, Place, System, Unavailable

# Both report each conversion to their makers, unless this package cannot be imported; NNCF wants to be told besides.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
os.environ.setdefault("NNCF_CI", "1")

_BATCHES = (8, 32, 128)
_GROUPS = (0, 64, 128)  # channels of an activation that share a scale; 0: activations are not quantized
_CALIBRATED = 300  # sentences, NNCF's own number
_GRAPH = "model.xml"
_HINTS = {"fp32": "f32", "bf16": "bf16"}


class OpenVino(System[Sentences]):
    """OpenVINO."""

    said = "batches of {batch} of one length, {streams} stream{s}, head for the mask's row alone{groups}"

    def __init__(self, arithmetic: str, kind: str = "", *, calibrated: int = _CALIBRATED) -> None:
        self.arithmetic, self._kind, self._calibrated = arithmetic, kind, calibrated
        self.name = " ".join(filter(None, ["OpenVINO", arithmetic, kind]))
        self.needs = ("openvino", "nncf") if arithmetic == "int8" else ("openvino",)

    def about(self, choice: Choice) -> str:
        groups = f", activations in groups of {choice['group']}" if choice.get("group") else ""
        return self.said.format(**choice, s="s" if choice["streams"] > 1 else "", groups=groups)

    def missing(self, place: Place) -> str | None:
        return "OpenVINO is measured on the CPU" if place.on_cuda else super().missing(place)

    def choices(self, place: Place) -> Sequence[Choice]:
        groups: tuple[dict[str, int], ...] = ({},)
        if self.arithmetic == "int8" and not self._kind:
            groups = tuple({"group": group} for group in _GROUPS)
        return [
            {"batch": batch, "streams": streams, **group}
            for group in groups
            for streams in sorted({1, place.threads})
            for batch in _BATCHES
        ]

    def make(self, place: Place) -> None:
        self._graph(place)

    def open(self, place: Place) -> None:
        import openvino as ov  # noqa: PLC0415 - optional

        self._core, self._place = ov.Core(), place
        if self.arithmetic == "bf16" and "BF16" not in self._core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise Unavailable("this processor has no products in bf16")
        self._model = self._core.read_model(self._graph(place))
        self._settings: tuple[int, int] | None = None
        self._open: list[Any] = []

    def run(self, work: Sentences, choice: Choice) -> Answers:
        requests = self._requests(choice["streams"], choice.get("group", 0))
        found, batches = np.empty(len(work), np.int32), list(work.batches(choice["batch"]))
        with ThreadPoolExecutor(len(requests)) as threads:
            free = list(requests)

            def answer(batch: tuple[Any, Ids, Ids]) -> None:
                rows, ids, position = batch
                request = free.pop()
                request.infer({"ids": ids.astype(np.int64), "position": position.astype(np.int64)}, share_inputs=True)
                logits = request.get_output_tensor(0).data  # NNCF may put a dimension of 1 before them
                found[rows] = logits.reshape(len(rows), -1).argmax(1)
                free.append(request)

            list(threads.map(answer, batches))
        return found

    def _requests(self, streams: int, group: int) -> list[Any]:
        """As many requests as streams; one compiled model at a time is in memory."""
        if self._settings == (streams, group):
            return self._open
        self._open.clear()
        options: dict[str, Any] = {"INFERENCE_NUM_THREADS": self._place.threads, "NUM_STREAMS": streams}
        if self.arithmetic in _HINTS:
            options["INFERENCE_PRECISION_HINT"] = _HINTS[self.arithmetic]
        elif not self._kind:
            options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = str(group)
        compiled = self._core.compile_model(self._model, "CPU", options)
        self._settings, self._open = (streams, group), [compiled.create_infer_request() for _ in range(streams)]
        return self._open

    def _graph(self, place: Place) -> Path:
        plain = place.once("openvino", lambda folder: _convert(place, folder)) / _GRAPH
        if self.arithmetic != "int8":
            return plain
        sample, name = (self._calibrated, "openvino-int8-static") if self._kind else (0, "openvino-int8")
        return place.once(name, lambda folder: _in_int8(place, plain, sample, folder)) / _GRAPH


def _convert(place: Place, folder: Path) -> None:
    import openvino as ov  # noqa: PLC0415 - optional
    import torch  # noqa: PLC0415 - after the number of threads is set
    from transformers import AutoModelForMaskedLM  # noqa: PLC0415

    from .torch_models import MaskRow, load  # noqa: PLC0415

    row = MaskRow(load(AutoModelForMaskedLM, place)).eval()
    example = {"ids": torch.full((3, 7), 5), "position": torch.tensor([1, 2, 3])}
    with quiet(), torch.inference_mode():
        inputs = [("ids", [-1, -1], np.int64), ("position", [-1], np.int64)]
        model = ov.convert_model(row, example_input=example, input=inputs)
    ov.save_model(model, folder / _GRAPH, compress_to_fp16=False)


def _in_int8(place: Place, plain: Path, sample: int, folder: Path) -> None:
    """Weights in int8, and with a sample of so many sentences the activations, too."""
    import nncf  # noqa: PLC0415 - optional
    import openvino as ov  # noqa: PLC0415

    model = ov.Core().read_model(plain)
    if sample:
        sentences = candidates(main_job(load_exported(place.exported), seed=1), sample)  # other ones than are timed
        batches = sentences.batches(1)
        found = [{"ids": ids.astype(np.int64), "position": at.astype(np.int64)} for _, ids, at in batches]
        given = {"model_type": nncf.ModelType.TRANSFORMER, "subset_size": len(found)}
        model = nncf.quantize(model, nncf.Dataset(found), **given)
    else:
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    ov.save_model(model, folder / _GRAPH, compress_to_fp16=False)
