"""Steps before anything is timed: the machine, the exports, where operators run, whether the decisions are right."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import onnxruntime as ort
import torch

from ...engine.basics.errors import InputError
from ...engine.inference.device import CPU, Device, cuda_bus_address, cuda_devices, cuda_memory, cuda_name, cuda_version
from ...engine.inference.exported import REFERENCE
from ...engine.inference.mixed import SENTENCES, Mixed, calibrate
from ...engine.inference.model import Decisions, MaskedLM
from ...engine.inference.session import open_session, placed
from ...engine.text.token_ids import EncodedSentences
from ..machine import describe
from ..main_job import AUDIT_SHARE, candidates, main_job
from ..shapes import prepare
from .points import Point, decide_all, graphs_of, usual_options
from .setting import Found, Model, Setting


def environment(setting: Setting) -> Found:
    """What the figures were measured on."""
    return {
        **describe(setting.device),
        "onnxruntime providers": ort.get_available_providers(),
        "torch": {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "sees": _seen_by_torch()},
        "cuda devices": cuda_devices(),
        "cuda": None if setting.device == CPU else _cuda(setting.device),
    }


def _seen_by_torch() -> list[str]:
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _cuda(device: Device) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": cuda_name(device.index),
        "GiB": None if (memory := cuda_memory(device.index)) is None else memory / 2**30,
        "newest CUDA of the driver": cuda_version(),
    }
    import pynvml  # noqa: PLC0415 - takes long to import

    try:
        pynvml.nvmlInit()
        found["driver"] = pynvml.nvmlSystemGetDriverVersion()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cuda_bus_address(device.index))
        found["watts at most"] = pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1e3
        found["MHz at most"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
    except pynvml.NVMLError as error:  # in a container, some of it may be hidden
        found["hidden"] = str(error)
    return found


def export(setting: Setting) -> Found:
    """Each model, exported or found in the cache, and why others are not. Raises InputError if none can be exported."""
    models, failed = [], {}
    for name in setting.names:
        try:
            made = prepare(name, Path(setting.cache))
        except InputError as error:
            failed[name] = str(error)
            continue
        models.append(Model(made.name, made.checkpoint, str(made.exported.folder), made.is_random))
    if not models:
        raise InputError("; ".join(failed.values()))
    return {"models": msgspec.to_builtins(models), "failed": failed}


_SAYS_KERNEL = "ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO"
_KERNEL = re.compile(rb"Operator=\w+.*SdpaKernel=\w+.*")


def placement(setting: Setting) -> Found:
    """Model → graph → operators by provider, and what ONNX Runtime says of its kernels for attention."""
    found: Found = {}
    for model in setting.models:
        few = candidates(main_job(model.exported), 8).encoded
        for precision, graph in graphs_of(model, setting).items():
            options = usual_options(setting, half=precision == "fp16")
            session = open_session(graph, setting.device, cuda_options=options)
            with _kernels() as kernels:
                decide_all(Point({}, 512, options).open(model.exported, setting, graph), few)
            by_provider = {provider: dict(sorted(own.items())) for provider, own in placed(session).items()}
            found.setdefault(model.name, {})[graph.name] = {"operators": by_provider, "attention": dict(kernels)}
    return found


@contextmanager
def _kernels() -> Iterator[Counter[str]]:
    """What the libraries print of their kernels while the block runs, and how often; it is there after the block."""
    said: Counter[str] = Counter()
    os.environ[_SAYS_KERNEL] = "1"
    with TemporaryDirectory() as folder:
        path, before = Path(folder) / "printed", [os.dup(1), os.dup(2)]
        sys.stdout.flush()
        with path.open("wb") as stream:
            for number in (1, 2):
                os.dup2(stream.fileno(), number)
        try:
            yield said
        finally:
            for number, kept in zip((1, 2), before, strict=True):
                os.dup2(kept, number)
                os.close(kept)
            del os.environ[_SAYS_KERNEL]
            said.update(line.decode(errors="replace") for line in _KERNEL.findall(path.read_bytes()))


_NEAR_TIE = 1e-3  # logits: closer than this, two libraries may order two tokens differently


def parity(setting: Setting) -> Found:
    """Model → precision → how far decisions and log-probabilities are from those of fp32 on the CPU."""
    found: Found = {}
    for model in setting.models:
        exported = model.exported
        encoded = candidates(main_job(exported), setting.amount.compared).encoded
        reference = decide_all(MaskedLM(exported, CPU), encoded)
        opened = {
            precision: MaskedLM(exported, setting.device, graph=graph)
            for precision, graph in graphs_of(model, setting).items()
        }
        own = {
            precision: _compared(decide_all(decider, encoded), reference, encoded)
            for precision, decider in opened.items()
        }
        low = next((decider for precision, decider in opened.items() if precision != REFERENCE), None)
        if low is not None and not model.is_random:  # random weights have almost close calls alone
            calibration = calibrate(SENTENCES, low, opened[REFERENCE], encoded, audit_share=AUDIT_SHARE)
            mixed = Mixed(SENTENCES, low, opened[REFERENCE], calibration)
            own["mixed"] = _compared(decide_all(mixed, encoded), reference, encoded) | {
                "close calls": calibration.close,
                "bound, logits": calibration.bound,
            }
        found[model.name] = own
    return found


def _compared(found: Decisions, reference: Decisions, encoded: EncodedSentences) -> dict[str, Any]:
    expected = encoded.expected
    wrong = found.repeated(expected) != reference.repeated(expected)
    near = np.abs(reference.margin(expected)) < _NEAR_TIE
    return {
        "sentences": len(expected),
        "same top-1": float(np.mean(found.top1 == reference.top1)),
        "wrong decisions": int(wrong.sum()),
        "of them near-ties": int((wrong & near).sum()),
        "largest difference of a log-probability": float(
            np.abs(found.expected_logprob - reference.expected_logprob).max()
        ),
        "same rank": float(np.mean(found.expected_rank == reference.expected_rank)),
    }
