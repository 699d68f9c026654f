"""The baselines of the main job: systems that find the top-1 at the mask, sentences → int32 [n], token ids."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForMaskedLM, pipeline

from ..export.quiet import quiet
from .machine import has_bf16
from .main_job import Ids, Sentences
from .openvino import OpenVino
from .system import Answers, Choice, Place, System
from .torch_models import DTYPES, MaskRow, TorchSystem, compiled, load, logits_at_mask, tokenizer_of


def baselines() -> list[System[Sentences]]:
    """All systems of the main job but ours; the first is the reference of all comparisons."""
    return [
        AuthorsSelection(),
        AuthorsScoring(),
        *map(OpenVino, ("bf16", "int8")),  # early: they are the fastest others, and --quick has little time
        *(AtMask(kind, compiled=is_compiled) for kind in ("fp32", "bf16", "fp16") for is_compiled in (False, True)),
        Pipeline(),
        Optimum(),
        OpenVino("fp32"),
        OpenVino("int8", "static"),
    ]


def padded_top1(model: Any, tokenizer: Any, texts: Sequence[str], size: int, device: Any) -> Ids:
    """The top-1 at the mask of texts in their order, in padded batches."""
    found = []
    for start in range(0, len(texts), size):
        encoded = tokenizer(list(texts[start : start + size]), padding=True, return_tensors="pt").to(device)
        with torch.inference_mode():
            found.append(logits_at_mask(model, tokenizer, encoded).argmax(-1).cpu().numpy())
    return np.concatenate(found).astype(np.int32)


class AuthorsSelection(TorchSystem[Sentences]):
    """A padded batch, logits at all positions."""

    name, said = "authors, selection", "PyTorch, batches of 100 padded, logits at all positions"
    reference = True
    size = 100

    def run(self, work: Sentences, choice: Choice) -> Answers:  # noqa: ARG002
        return padded_top1(self._model, self._tokenizer, work.texts, self.size, self._device)


class AuthorsScoring(AuthorsSelection):
    """One sentence at a time."""

    name, said = "authors, scoring", "PyTorch, one sentence at a time"
    size = 1
    fewer = 8


class AtMask(System[Sentences]):
    """PyTorch at its best, at the mask.

    In bf16 and fp16, both ways are tried: weights in that precision, and `torch.autocast` with weights in fp32. With
    `compiled`, `torch.compile` (Inductor) makes one kernel library for all sizes; that is not part of the time.
    """

    said, batched = "batches of {batch} of one length, head for the mask's row alone", True

    def __init__(self, arithmetic: str, *, compiled: bool = False) -> None:
        self.arithmetic, self._compiled = arithmetic, compiled
        precision = "" if arithmetic == "fp32" else f" {arithmetic}"
        self.name = f"{'compiled' if compiled else 'PyTorch'}{precision} at the mask"

    def about(self, choice: Choice) -> str:
        weights = "" if self.arithmetic == "fp32" else ", autocast" if choice["autocast"] else ", weights too"
        return super().about(choice) + weights

    def missing(self, place: Place) -> str | None:
        if self.arithmetic == "fp16" and not place.on_cuda:
            return "PyTorch in fp16 is for CUDA"
        if self.arithmetic == "bf16" and not place.on_cuda and not has_bf16():
            return "this processor has no products in bf16"
        return super().missing(place)

    def choices(self, place: Place) -> Sequence[Choice]:
        sizes = super().choices(place)
        if self.arithmetic == "fp32":
            return sizes
        ways = (0,) if self._compiled else (0, 1)  # compiling a second time would take minutes
        return [{**size, "autocast": way} for way in ways for size in sizes]

    def open(self, place: Place) -> None:
        self._place = place
        self._models = {}
        for way in {choice.get("autocast", 0) for choice in self.choices(place)}:
            model = MaskRow(load(AutoModelForMaskedLM, place, "fp32" if way else self.arithmetic)).eval()
            self._models[way] = compiled(model) if self._compiled else model

    def run(self, work: Sentences, choice: Choice) -> Answers:
        way = choice.get("autocast", 0)
        model, found, device = self._models[way], np.empty(len(work), np.int32), torch.device(self._place.torch_device)
        with torch.inference_mode(), torch.autocast(device.type, DTYPES[self.arithmetic]) if way else nullcontext():
            for rows, *batch in work.batches(choice["batch"]):
                given = [torch.from_numpy(own.astype(np.int64)).to(device) for own in batch]
                if self._compiled and len(rows) == 1:  # a batch of one is compiled apart: its row stands there twice
                    given = [own.repeat_interleave(2, dim=0) for own in given]
                found[rows] = model(*given).argmax(-1)[: len(rows)].cpu().numpy()
        return found


class Pipeline(System[Sentences]):
    """The pipeline, given all texts at once."""

    name, said = "pipeline", "transformers' fill-mask pipeline, batches of {batch}"
    batched = True

    def open(self, place: Place) -> None:
        model, tokenizer = load(AutoModelForMaskedLM, place), tokenizer_of(place)
        with quiet():
            self._fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, device=place.torch_device, top_k=1)

    def run(self, work: Sentences, choice: Choice) -> Answers:
        with quiet():
            answers = self._fill(list(work.texts), batch_size=choice["batch"])
        one = len(work) == 1  # of one text the pipeline gives the answers, of several a list of them each
        return np.array([answer[0]["token"] for answer in ([answers] if one else answers)], np.int32)


class Optimum(System[Sentences]):
    """ORTModelForMaskedLM."""

    name, said = "Optimum", "ORTModelForMaskedLM, batches of {batch} padded"
    needs, extra = ("optimum.onnxruntime",), "export"
    batched = True

    def make(self, place: Place) -> None:
        _plain_export(place)

    def open(self, place: Place) -> None:
        import onnxruntime as ort  # noqa: PLC0415 - slow
        from optimum.onnxruntime import ORTModelForMaskedLM  # noqa: PLC0415

        options = ort.SessionOptions()
        options.intra_op_num_threads = place.threads
        with quiet():
            self._model = ORTModelForMaskedLM.from_pretrained(
                _plain_export(place),
                provider="CUDAExecutionProvider" if place.on_cuda else "CPUExecutionProvider",
                provider_options={"device_id": place.device.index} if place.on_cuda else None,
                session_options=options,
            )
        self._tokenizer = tokenizer_of(place)

    def run(self, work: Sentences, choice: Choice) -> Answers:
        return padded_top1(self._model, self._tokenizer, work.texts, choice["batch"], self._model.device)


def _plain_export(place: Place) -> Path:
    """The folder of Optimum's export of the checkpoint, made once."""

    def make(folder: Path) -> None:
        from optimum.exporters.onnx import main_export  # noqa: PLC0415 - slow

        from ..export import optimum_trace  # noqa: F401, PLC0415 - with masks that can be traced

        with quiet():
            main_export(place.checkpoint, folder, task="fill-mask", do_validation=False)

    return place.once("optimum", make)
