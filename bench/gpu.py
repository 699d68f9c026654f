"""`make gpu`: what a GPU does, by CUDA or WebGPU, measured in one command, as one JSON file.

Each step runs in a process of its own with a limit of time, so a step that fails, crashes or hangs does not stop the
others. Then the main job is measured (`run.py`). The CPU can be named as the device, to try the steps with little work.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime as ort
import polars as pl

from ..engine.basics.atomic import json_bytes, write_bytes
from ..engine.basics.choices import Precision
from ..engine.basics.errors import InputError
from ..engine.basics.limits import cpu_threads
from ..engine.inference.batches import INPUTS, OUTPUTS, sentences_in
from ..engine.inference.device import choose_device
from ..engine.inference.devices.cpu import CPU
from ..engine.inference.model import Decisions, MaskedLM
from ..engine.inference.precision import open_models
from ..engine.inference.session import Device, placed
from ..engine.text.token_ids import EncodedSentences
from ..engine.views import Column, Table
from .gpu_model import CLASSES, GPUS, Gpu, GraphKernels, by_class
from .machine import describe
from .main_job import calibrated, candidates, decide_all, main_job
from .rounds import Say, in_a_process
from .run import SUBJECT, OfMainJob
from .shapes import Measured, cache_folder, prepare
from .subject import bench_subject
from .system import Answers, Choice, Items, Place, System, Unavailable

MODELS = ("mini", "bert-base-shape")
DONE, NOT_HERE, FAILED = "done", "not here", "failed"
Found = dict[str, Any]  # JSON values, whose keys say what they are and in which unit
COMPARED, FEW = 2_048, 8  # sentences of a measurement; where a processor does the work of a GPU


@dataclass
class Step(System[Items[str]]):
    """What is found of each model."""

    name: str  # what it is called in the JSON file
    said: str  # what it shows, in a line
    minutes: float  # when it is stopped
    of: Callable[[Measured, Device, int], Found]  # the model, the device and the number of sentences → JSON values
    timed: bool = False  # whether it says nothing of a device in software

    def missing(self, place: Place) -> str | None:
        return (
            f"{place.device} is software: its speed says nothing" if self.timed and place.device.is_software else None
        )

    def open(self, place: Place) -> None:
        self._place = place

    def run(self, work: Items[str], choice: Choice) -> Answers:
        device, models = self._place.device, (prepare(name, self._place.cache) for name in work.items)
        found: Any = {model.name: self.of(model, device, choice["sentences"]) for model in models}
        return found  # type: ignore[no-any-return]


def _prepared(model: Measured, _device: Device, _sentences: int) -> Found:
    return {"is_random": model.is_random}


def _graphs(model: Measured, device: Device) -> dict[str, Path]:
    """What the device computes, by its name in the column `precision`: the fp32 graph, and the low-precision one."""
    graphs = (model.exported.graph, device.low_precision(model.exported))
    return {device.precision(graph): graph for graph in graphs if graph is not None}


def placement(model: Measured, device: Device, _sentences: int) -> Found:
    """Graph → operators by provider."""
    found: Found = {}
    for graph in _graphs(model, device).values():
        by_provider = placed(device.session(graph)).items()
        found[graph.name] = {"operators": {provider: dict(sorted(own.items())) for provider, own in by_provider}}
    return found


_RUNS = 10  # of a batch, in the fastest of which each kernel is looked at; the first ones take longer
_BATCHES = 8  # full ones, as one: a kernel that is waited for takes 20 µs more on an H200


def kernels(model: Measured, device: Device, sentences: int) -> Found:
    """Milliseconds of `_BATCHES` by kind of kernel, as measured, and as `gpu_model` has them for a GPU it knows."""
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # a launch then takes as long as its kernel; before CUDA starts here
    graph = model.exported.graph if device.uses_cores else device.low_precision(model.exported)
    if graph is None:
        raise Unavailable(f"{model.name} has no low-precision graph for {device.kind}")
    length = round(candidates(main_job(model.exported), 100).length)
    n = sentences if device.uses_cores else _BATCHES * sentences_in(device.batch_tokens, length)
    own, options, measured = GraphKernels(graph, OUTPUTS), ort.SessionOptions(), dict.fromkeys(CLASSES, 0.0)
    options.enable_profiling = True
    with TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = device.session(graph, options)
        few = np.ones(n, np.int32)
        for _ in range(_RUNS):
            session.run([*OUTPUTS], {"input_ids": np.full((n, length), 7, np.int32), INPUTS[1]: few, INPUTS[2]: few})
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    fastest: dict[str, tuple[float, str]] = {}
    for event in (event for event in events if event["name"].endswith("_kernel_time")):
        name = event["name"].removesuffix("_kernel_time")
        found = event["dur"] / 1e3, own.kind_of(event["args"]["op_name"], name)
        fastest[name] = min(found, fastest.get(name, found))
    for milliseconds, kind in fastest.values():
        measured[kind] += milliseconds
    gpu = _known_gpu(str(device.hardware().get("hardware", "")))
    simulated = by_class(own.of(n, length), gpu, own.kind) if gpu else {}
    return {
        "graph": graph.name,
        "sentences": n,
        "tokens": length,
        "measured, ms": measured,
        "simulated, ms": {kind: 1e3 * took for kind, took in simulated.items()},
    }


def _known_gpu(hardware: str) -> Gpu | None:
    """The GPU of `GPUS` that a device's name tells, if it is one of them."""
    words = hardware.lower().replace(" ", "")
    return next((gpu for name, gpu in GPUS.items() if name in words), None)


_NEAR_TIE = 1e-3  # logits: closer than this, two libraries may order two tokens differently


def parity(model: Measured, device: Device, sentences: int) -> Found:
    """Precision → how far decisions and log-probabilities are from those of fp32 on the CPU."""
    drawn = candidates(main_job(model.exported), sentences)
    encoded = drawn.encoded
    reference = decide_all(MaskedLM(model.exported, CPU), encoded)
    found = {}
    for name, graph in _graphs(model, device).items():
        found[name] = _compared(decide_all(MaskedLM(model.exported, device, graph=graph), encoded), reference, encoded)
    # Of random weights, almost all calls are close.
    models = None if model.is_random else open_models(model.exported, device, Precision.AUTO)
    if models is not None and (mixed := calibrated(models, drawn)) is not None:
        known = {"close calls": mixed.calibration.close, "bound, logits": mixed.calibration.bound}
        found["mixed"] = _compared(decide_all(mixed, encoded), reference, encoded) | known
    return found


def _compared(found: Decisions, reference: Decisions, encoded: EncodedSentences) -> Found:
    expected = encoded.expected
    wrong = found.repeated(expected) != reference.repeated(expected)
    near = np.abs(reference.margin(expected)) < _NEAR_TIE
    off = np.abs(found.expected_logprob - reference.expected_logprob)
    return {
        "sentences": len(expected),
        "same top-1": float(np.mean(found.top1 == reference.top1)),
        "wrong decisions": int(wrong.sum()),
        "of them near-ties": int((wrong & near).sum()),
        "largest difference of a log-probability": float(off.max()),
        "same rank": float(np.mean(found.expected_rank == reference.expected_rank)),
    }


STEPS = (
    Step("export", "the models, exported", 5, _prepared),
    Step("placement", "where each operator runs", 2, placement),
    Step("kernels", "time by kind of kernel, measured and simulated", 2, kernels, timed=True),
    Step("parity", "decisions in fp32, fp16 and mixed beside fp32 on the CPU", 3, parity),
)


def measure(
    models: Sequence[str], output: Path, say: Say, *, device: str = "auto", steps: Sequence[Step] = STEPS,
    cache: Path | None = None,
) -> Found:  # fmt: skip
    """Run all steps, and on a GPU the main job, and give what the file holds, whenever more is known.

    Raises InputError if the device does not exist, or no GPU is found, or the file cannot be written.
    """
    chosen, folder = choose_device(device), cache or cache_folder()
    if chosen == CPU and device != "cpu":
        said = "no GPU was found; `negengine doctor` says what is missing, --device cpu tries all steps on the CPU"
        raise InputError(f"bench gpu: {said}")
    if chosen.is_software:
        say(f"{chosen} is software: its results are compared, and nothing is timed")
    little = chosen == CPU or chosen.is_software
    models = models or (MODELS[:1] if little else MODELS)
    place = Place("", Path(), chosen, cpu_threads(), folder)
    document: Found = {
        "negengine gpu": 2,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["negengine", *sys.argv[1:]]),
        "environment": {**describe(chosen), **chosen.hardware(), "software": chosen.is_software},
        "rehearsal": chosen == CPU,
        "steps": {},
    }

    def keep(more: Found) -> None:
        document.update(more)
        write_bytes(output, json_bytes(document))

    keep({})
    for step in steps:
        say(f"{step.name}: {step.said}")
        began = time.monotonic()
        found = _in_process(step, place, models, FEW if little else COMPARED)
        found["seconds"] = round(time.monotonic() - began, 2)
        keep({"steps": document["steps"] | {step.name: found}})
        reason = f": {found['why']}" if "why" in found else ""
        say(f"{step.name}: {found['status']} after {found['seconds']:.0f} s{reason}")
    if not little:
        given = {"effort": OfMainJob().quick(), "cache": folder, "say": say, "keep": lambda own: keep({"bench": own})}
        keep({"bench": bench_subject(SUBJECT, models, device=str(chosen), **given)})  # type: ignore[arg-type]
    return document


def _in_process(step: Step, place: Place, models: Sequence[str], sentences: int) -> Found:
    if why := step.missing(place):
        return {"status": NOT_HERE, "why": why}
    with TemporaryDirectory() as folder:
        try:
            with in_a_process(step, place, Path(folder) / "log.txt") as child:
                child.until = time.monotonic() + 60 * step.minutes
                child.ask("open")
                child.ask("take", Items(tuple(models)))
                return {"status": DONE, "found": child.ask("run", {"sentences": sentences}).answers}
        except Unavailable as error:
            return {"status": FAILED, "why": str(error)}


def table(document: Mapping[str, Any]) -> Table:
    """One row for each step: how it ended, after how many seconds, and the reason where it did not run."""
    rows = [
        {"step": name, "status": found["status"], "seconds": found["seconds"], "why": found.get("why", "")}
        for name, found in document["steps"].items()
    ]
    columns = [
        Column("step", "step", wrap=False),
        Column("status", "status", wrap=False),
        Column("seconds", "seconds", decimals=1, wrap=False),
        Column("why", "why"),
    ]
    what = "Rehearsal" if document["rehearsal"] else "Measurements"
    return Table(f"{what} on {document['environment']['device']}", pl.DataFrame(rows), columns)


def failed(document: Mapping[str, Any]) -> list[str]:
    """The steps that failed."""
    return [name for name, found in document["steps"].items() if found["status"] == FAILED]
