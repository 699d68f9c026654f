"""The steps of `make gpu`: the machine, the exports, placement, parity, the main job, the baselines."""

import json
import math
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime as ort

from ..engine.basics.choices import Precision
from ..engine.basics.errors import InputError
from ..engine.basics.limits import cpu_threads
from ..engine.experiments.negation.select import Selection, Settings
from ..engine.inference.batches import INPUTS, OUTPUTS, sentences_in
from ..engine.inference.devices.cpu import CPU
from ..engine.inference.devices.cuda import Cuda
from ..engine.inference.devices.webgpu import WebGpu
from ..engine.inference.energy import energy_used
from ..engine.inference.exported import graph_precision
from ..engine.inference.model import Decider, Decisions, MaskedLM
from ..engine.inference.precision import Models, open_models
from ..engine.inference.session import Device, State, placed
from ..engine.runs.record import read_run
from ..engine.text.token_ids import EncodedSentences
from .baselines import AtMask, AuthorsSelection, Optimum
from .ceiling import product_rates
from .gpu import Found, NotHere, Setting
from .gpu_model import CLASSES, GPUS, Gpu, GraphKernels, by_class
from .machine import describe
from .main_job import calibrated, candidates, main_job, run_selection
from .rounds import compare
from .run import CANDIDATES, least, own_systems
from .shapes import Measured, prepare
from .system import Place


def environment(setting: Setting) -> Found:
    """What the figures were measured on."""
    return {
        **describe(setting.device),
        "onnxruntime providers": ort.get_available_providers(),
        "software": setting.device.is_software,
        **setting.device.hardware(),
    }


def export(setting: Setting) -> Found:
    """Each model, exported or found in the cache, and why others are not. Raises InputError if none can be exported."""
    models, failed = [], {}
    for name in setting.models:
        try:
            made = prepare(name, setting.cache)
        except InputError as error:
            failed[name] = str(error)
            continue
        models.append({"name": name, "is_random": made.is_random})
    if not models:
        raise InputError("; ".join(failed.values()))
    return {"models": models, "failed": failed}


def _of_each_model(measure: Callable[..., Found]) -> Callable[..., Found]:
    """What is found of each model, by its name."""

    @wraps(measure)
    def step(setting: Setting) -> Found:
        return {name: measure(prepare(name, setting.cache), setting) for name in setting.models}

    return step


def _graphs(model: Measured, setting: Setting) -> dict[str, Path]:
    """What the device computes, by its name in the column `precision`: the fp32 graph, and the low-precision one."""
    graphs = (model.exported.graph, setting.device.low_precision(model.exported))
    return {setting.device.precision(graph): graph for graph in graphs if graph is not None}


def decide_all(decider: Decider, encoded: EncodedSentences) -> Decisions:
    """In their order."""
    found = Decisions.empty(len(encoded.expected))
    for bucket in encoded.buckets:
        found.put(bucket.rows, decider.decide(bucket.ids, bucket.mask_position, encoded.expected[bucket.rows]))
    return found


_SAYS_KERNEL = "ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO"
_KERNEL = re.compile(rb"Operator=\w+.*SdpaKernel=\w+.*")


@_of_each_model
def placement(model: Measured, setting: Setting) -> Found:
    """Graph → operators by provider, and what ONNX Runtime says of its kernels for attention on CUDA."""
    found: Found = {}
    few = candidates(main_job(model.exported), 8).encoded
    for graph in _graphs(model, setting).values():
        session = setting.device.session(graph)
        with _kernels() as kernels:
            if setting.device.kind == Cuda.kind:  # others say nothing
                decide_all(MaskedLM(model.exported, setting.device, graph=graph, batch_tokens=512), few)
        by_provider = {provider: dict(sorted(own.items())) for provider, own in placed(session).items()}
        found[graph.name] = {"operators": by_provider, "attention": dict(kernels)}
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


_RUNS = 10  # of a batch, in the fastest of which each kernel is looked at; the first ones take longer


@_of_each_model
def kernels(model: Measured, setting: Setting) -> Found:
    """Milliseconds of a full batch by kind of kernel, as measured, and as `gpu_model` has them for a GPU it knows."""
    device = setting.device
    if device.is_software:
        raise NotHere(f"{device} is software: its speed says nothing")
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # a launch then takes as long as its kernel; before CUDA starts here
    graph = model.exported.graph if device.uses_cores else _low(model, device)
    length = round(candidates(main_job(model.exported), 100).length)
    n = setting.amount.compared if device.uses_cores else sentences_in(device.batch_tokens, length)
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


def _low(model: Measured, device: Device) -> Path:
    graph = device.low_precision(model.exported)
    if graph is None:
        raise NotHere(f"{model.name} has no low-precision graph for {device.kind}")
    return graph


_NEAR_TIE = 1e-3  # logits: closer than this, two libraries may order two tokens differently


@_of_each_model
def parity(model: Measured, setting: Setting) -> Found:
    """Precision → how far decisions and log-probabilities are from those of fp32 on the CPU."""
    sentences = candidates(main_job(model.exported), setting.amount.compared)
    encoded = sentences.encoded
    reference = decide_all(MaskedLM(model.exported, CPU), encoded)
    found = {}
    for name, graph in _graphs(model, setting).items():
        own = decide_all(MaskedLM(model.exported, setting.device, graph=graph), encoded)
        found[name] = _compared(own, reference, encoded)
    # Of random weights, almost all calls are close.
    models = None if model.is_random else open_models(model.exported, setting.device, Precision.AUTO)
    if models is not None and (mixed := calibrated(models, sentences)) is not None:
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


@_of_each_model
def selection(model: Measured, setting: Setting) -> Found:
    """The rate of a selection from its start to its results, and the shares of device and host."""
    if setting.device.is_software:
        raise NotHere(f"{setting.device} is software: its speed says nothing")
    job = main_job(model.exported)
    graph = _low(model, setting.device)
    low, encoded = (
        MaskedLM(model.exported, setting.device, graph=graph),
        candidates(job, setting.amount.compared).encoded,
    )
    decide_all(low, encoded)  # a session's first batches take longer
    began = time.perf_counter()
    decide_all(low, encoded)
    in_time = setting.amount.compared * setting.amount.seconds / (time.perf_counter() - began)
    pairs = math.ceil(min(setting.amount.candidates, in_time) / job.verbs[0].grid.verbs)
    # Of random weights almost every decision would be a close call, so the low-precision graph decides alone.
    found, sentences = (_alone if model.is_random else _command)(model, setting, pairs)
    sizes = model.exported.info["hidden_size"], model.exported.info["intermediate_size"]
    rates = product_rates(setting.device, setting.device.batch_tokens, *sizes, graph_precision(graph))
    peak = max(rates.values())
    flops = least(model.exported, candidates(job, 1_000).length)
    rate = sentences / found["seconds"]
    return {
        **found,
        "sentences": sentences,
        "sentences/s": rate,
        "seconds for 10.9 M": CANDIDATES / rate,
        "least GFLOP": flops / 1e9,
        "product GFLOP/s": peak / 1e9,
        "share of the products' peak": rate * flops / peak,
    }


def _alone(model: Measured, setting: Setting, pairs: int) -> tuple[Found, int]:
    exported = model.exported
    graph = setting.device.low_precision(exported)
    job = main_job(exported)
    plans = [Selection.plan(exported, job.lexicon, job.patterns, Settings(pairs=number)) for number in (1, pairs)]
    low = MaskedLM(exported, setting.device, graph=graph)
    with TemporaryDirectory() as folder:
        run_selection(plans[0], Models(low), low, Path(folder) / "first")  # a session's first batches take longer
        with watched(setting.device) as seen:
            run_selection(plans[1], Models(low), low, Path(folder) / "whole")
    return {"precision": low.precision, **seen}, pairs * job.verbs[0].grid.verbs


def _command(model: Measured, setting: Setting, pairs: int) -> tuple[Found, int]:
    """Run `negengine select`, as a user does."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        options = ["--device", str(setting.device), "--precision", "mixed", "--pairs", str(pairs)]
        command = ["select", str(model.exported.folder), *options]
        with watched(setting.device) as seen:
            ended = subprocess.run(
                [sys.executable, "-m", "negengine.engine.cli", *command, "--output", str(folder)],
                capture_output=True,
                text=True,
                check=False,
            )
        if ended.returncode != 0:
            raise RuntimeError(f"negengine select: {ended.stderr.strip().rpartition(chr(10))[2]}")
        record = read_run(folder).stages["select"]
        counts, session = record.counts, record.sessions[-1]
        own = {key: getattr(session, key) for key in ("sentences", "tokens", "precision", "joules", "workers")}
        said = " ".join(["negengine select", model.name, *options])  # names no folder of the user
        found = {"command": said, **seen, "session": own, "counts": counts, "files": record.files,
                 "calibration": record.calibration}  # fmt: skip
        return found, int(counts["tested"])


_EVERY = 0.2  # seconds


@contextmanager
def watched(device: Device) -> Iterator[Found]:
    """Utilisation, memory and power of a device and the host's processor time, at the end of the block."""
    seen: Found = {}
    samples: list[State] = []
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(_EVERY):
            samples.extend(filter(None, [device.state()]))

    sampler, before, began = threading.Thread(target=sample, daemon=True), sum(os.times()[:4]), time.perf_counter()
    with energy_used([device]) as joules:
        sampler.start()
        try:
            yield seen
        finally:
            seconds = time.perf_counter() - began
            ended.set()
            sampler.join()
    seen["seconds"] = seconds
    # processor time of this process and its children, for each second of wall time
    seen["host, cores"] = (sum(os.times()[:4]) - before) / seconds
    seen["J"] = joules[0]
    figures: dict[str, Callable[[list[float]], float]]
    figures = {"utilisation %": statistics.mean, "GB": max, "W": statistics.mean}
    for index, (name, take) in enumerate(figures.items()):
        values = [row[index] for row in samples]
        seen[name] = take(values) if values else None


@_of_each_model
def baselines(model: Measured, setting: Setting) -> Found:
    """A row for each system, each in a process of its own, in alternation; and why others did not run."""
    if setting.device.kind == WebGpu.kind:
        raise NotHere("the baselines need CUDA")
    place = Place(model.checkpoint, model.exported.folder, setting.device, cpu_threads(), setting.cache)
    others = [AuthorsSelection(), AtMask("fp16"), AtMask("fp16", compiled=True), Optimum()]
    systems = [*others, *own_systems(model, setting.device)]
    make = partial(candidates, main_job(model.exported))
    found = compare(systems, place, make, setting.amount.baselines, lambda _: None)
    reference = found.outcomes[0]
    return {
        "sentences": reference.items,
        "systems": [
            {
                **outcome.row(),
                "times authors": outcome.rate / reference.rate,
                "same top-1": float(np.mean(outcome.answers == reference.answers[: outcome.items])),
            }
            for outcome in found.outcomes
        ],
        "missing": dict(found.missing),
    }
