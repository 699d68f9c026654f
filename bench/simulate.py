"""`bench gpu --simulate MODEL --gpu NAME`: a selection on a GPU that is not there.

The scheduler, the batches, the threads, mixed precision and all work of the host are the real ones, and take the time
that they take on this machine. The device is `gpu_model`: it computes nothing, answers at the moment when the device
would, and makes up decisions, of which a given share are close calls.
"""

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ..engine.basics.choices import Precision
from ..engine.basics.errors import InputError
from ..engine.experiments.negation.select import Selection, Settings
from ..engine.inference.audit import audit_share
from ..engine.inference.batches import OUTPUTS, Array, Feeds, Runner
from ..engine.inference.devices.cuda import STREAMS, Cuda
from ..engine.inference.exported import REFERENCE, graph_precision
from ..engine.inference.gpu import Filled
from ..engine.inference.mixed import CALIBRATION_SENTENCES, even_numbers
from ..engine.inference.precision import open_models
from ..engine.views import Column, Table
from .gpu_model import CLASSES, COPIED, COPY, GPUS, LAUNCH, SYNCHRONISE, Gpu, GraphKernels, by_class
from .main_job import calibrated, candidates, main_job, run_selection
from .rounds import Say
from .run import CANDIDATES
from .shapes import cache_folder, prepare

CLOSE_CALLS = 0.0064  # of the bundled model in fp16 as CUDA rounds it, 779 sentences
_AGAIN = "close calls and audit, fp32"
_REPEATED = 0.2  # of the decisions that are made up
_SECONDS = 20.0  # that a selection is to take
_FEW = 3_000  # sentences that it is calibrated on
_NUMBERS = 6 * 4 + 3 * 8  # bytes of a sentence that are copied: its decision, its mask's position and expected token


class Clock:
    """When the device is free, and what it has done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.start()

    def start(self) -> None:
        self.began = self.free = 0.0  # moments of the first launch, and of the end of all work
        self.took: dict[str, float] = defaultdict(float)  # kind of kernel → seconds
        self.counts = Counter[str]()

    def work(self, took: Mapping[str, float], launched: float) -> float:
        """The moment when the device will have done its work, of which so many seconds are launches."""
        with self._lock:
            now, busy = time.perf_counter(), sum(took.values())
            for kind, own in took.items():
                self.took[kind] += own
            self.began = self.began or now
            self.free = max(max(self.free, now) + busy, now + launched)  # as fast as a thread launches its kernels
            return self.free


class SimulatedGpu(Cuda):
    """A GPU of `GPUS`, whose sessions answer at the right moment."""

    gpu: ClassVar[Gpu]
    clock: ClassVar[Clock]

    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:  # noqa: ARG002
        return _Simulated(graph, self, batch_tokens)


class _Simulated(Filled):
    def __init__(self, graph: Path, device: SimulatedGpu, batch_tokens: int) -> None:
        session: Any = SimpleNamespace(get_outputs=lambda: [SimpleNamespace(name=name) for name in OUTPUTS])
        super().__init__(session, device, batch_tokens, STREAMS)
        self._kernels, self._own = GraphKernels(graph, OUTPUTS), device
        self._kind, self._cost = graph_precision(graph), cache(self._cost_of)

    def _cost_of(self, sentences: int, length: int) -> tuple[Mapping[str, float], int]:
        kernels = self._kernels.of(sentences, length)
        took = by_class(kernels, self._own.gpu, self._kernels.kind)
        return took if self._kind != REFERENCE else {_AGAIN: sum(took.values())}, len(kernels)

    def filled(self, outputs: Sequence[str], feeds: Feeds, full: int) -> list[Array]:
        ids, _, expected = feeds.values()
        n, size = len(ids), self._size(len(ids), full)
        took, launches = self._cost(size, ids.shape[1])
        copied = 5 * COPY + size * (4 * ids.shape[1] + _NUMBERS) / COPIED
        done = self._own.clock.work(took, launches * LAUNCH) + copied + SYNCHRONISE
        found = _made_up(ids, expected, CLOSE_CALLS if self._kind != REFERENCE else 0.0)
        time.sleep(max(0.0, done - time.perf_counter()))
        self._own.clock.counts.update(sentences=n, filled=size, launches=launches, batches=1)
        return [found[name] for name in outputs]


def _made_up(ids: Array, expected: Array, close: float) -> dict[str, Array]:
    """Decisions that hashes of the sentences decide, so that a share of the margins is `close` to the model's error."""
    repeated, margin, noise = (even_numbers(ids.astype(np.int32), seed) for seed in (1, 2, 3))
    # The bound is 4.5 deviations of an even error, whose deviation is its width / √12: 1.3 widths are the close share.
    margin = margin + (noise - 0.5) * close / (4.5 / math.sqrt(12))
    right = repeated < _REPEATED
    second, own = np.where(right, -margin, 0), np.where(right, 0, -margin)
    first = np.where(right, expected, (expected + 1) % 997)
    logits = np.stack(
        [np.zeros_like(own), second, own, np.full_like(own, 2.0)], axis=1, dtype=np.float32, casting="same_kind"
    )
    return {
        "decision_ids": np.stack([first, 2 - right], axis=1, dtype=np.int32, casting="same_kind"),
        "decision_logits": logits,
    }


def simulate(name: str, gpu: str, say: Say, *, folder: Path | None = None, seconds: float = _SECONDS) -> dict[str, Any]:
    """Run the selection of a model on a simulated GPU; JSON values. InputError for a GPU that is not known."""
    if gpu not in GPUS:
        raise InputError(f"--gpu {gpu}: there are {', '.join(GPUS)}")
    exported = prepare(name, folder or cache_folder()).exported
    clock = Clock()
    device: SimulatedGpu = type("Simulated", (SimulatedGpu,), {"gpu": GPUS[gpu], "clock": clock})()
    models = open_models(exported, device, Precision.MIXED)
    job = main_job(exported)
    mixed: Any = calibrated(models, candidates(job, _FEW))
    audited = audit_share([(CANDIDATES, mixed.calibration.close)], CALIBRATION_SENTENCES[0])  # of the whole grid
    mixed.calibration = replace(mixed.calibration, audit_share=audited)
    verbs, each = job.verbs, sum(clock.took.values()) / clock.counts["sentences"]  # both models: more than later
    pairs = max(1, min(len(verbs.pairs), math.ceil(seconds / each / verbs.n)))
    say(f"a selection of {pairs * verbs.n:,} sentences on a simulated {GPUS[gpu].name}")
    plan = Selection.plan(exported, job.lexicon, job.patterns, Settings(pairs=pairs))
    clock.start()
    began, host = time.perf_counter(), time.process_time()
    with TemporaryDirectory() as temporary:
        run_selection(plan, models, mixed, Path(temporary) / "run")
    wall, host = time.perf_counter() - began, time.process_time() - host
    sentences, batches = pairs * verbs.n, clock.free - clock.began
    whole = wall - batches + CANDIDATES * batches / sentences
    return {
        "model": name,
        "gpu": GPUS[gpu].name,
        "sentences": sentences,
        "seconds": wall,
        "batches, s": batches,
        "device, µs a sentence": {kind: 1e6 * clock.took[kind] / sentences for kind in (*CLASSES, _AGAIN)},
        "device busy": sum(clock.took.values()) / batches,
        "host, cores": host / wall,
        "computed over asked": clock.counts["filled"] / clock.counts["sentences"],
        "launches a batch": clock.counts["launches"] / clock.counts["batches"],
        "sentences/s": sentences / batches,
        "seconds for 10.9 M": whole,
        "Wh for 10.9 M": whole * GPUS[gpu].watts / 3600,
    }


def table(found: Mapping[str, Any]) -> Table:
    """Where the time goes."""
    busy, whole = found["device, µs a sentence"], 1e6 / found["sentences/s"]
    rows = {**busy, "the device waits": whole - sum(busy.values())}
    frame = pl.DataFrame({"what": [*rows], "µs": [*rows.values()], "share": [own / whole for own in rows.values()]})
    columns = [Column("what", "what", wrap=False), Column("µs a sentence", "µs", decimals=3)]
    columns.append(Column("share", "share", scale=100, unit="%", decimals=1))
    filled, launches = found["computed over asked"], found["launches a batch"]
    notes = [
        f"{found['sentences']:,} sentences in {found['seconds']:.1f} s, {found['batches, s']:.1f} s of it in batches",
        f"in those the device is busy {found['device busy']:.1%}: {found['sentences/s']:,.0f} sentences a second",
        f"10.9 million sentences: {found['seconds for 10.9 M']:.0f} s, {found['Wh for 10.9 M']:.1f} Wh at full power",
        f"{filled - 1:.1%} more than the sentences is computed, to fill batches up; {launches:.0f} kernels a batch",
        f"the host's work is real ({found['host, cores']:.2f} cores); the device's time is computed (BENCHMARKS.md)",
    ]
    return Table(f"{found['model']} on a simulated {found['gpu']}", frame, columns, notes=notes)
