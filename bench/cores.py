"""`negengine bench cores`: how busy many cores would be, from batches that one core has run.

The order in which batches are given to the queue and waited for does not depend on the number of cores, so it can be
replayed with any: each takes the next batch when it is free. Memory and clock rates are not simulated.
"""

import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from ..engine.basics.choices import Precision
from ..engine.experiments.likelihood.likelihood_scores import Encoder, causal_logprobs
from ..engine.inference import batches
from ..engine.inference.batches import ignored
from ..engine.inference.causal import CausalLM
from ..engine.inference.cpu import CPU
from ..engine.inference.model import Decider
from ..engine.inference.precision import Models, open_models
from ..engine.runs.masked_stages import PatternDeciders
from ..engine.views import Column, Table
from .machine import describe
from .made import made_pairs
from .main_job import EXACT, MIXED, calibrated, candidates, main_job
from .rounds import Say
from .shapes import Measured, cache_folder, prepare

CORES = (2, 8, 16, 32, 64, 128)
_CALIBRATED = 1_000  # sentences
_TEXTS = 2_048  # of a part of `likelihood`


class _Batch(Future[Any]):
    def __init__(self, number: int, notes: "Notes") -> None:
        super().__init__()
        self._number, self._notes = number, notes

    def result(self, timeout: float | None = None) -> Any:
        self._notes.wait(self._number)
        return super().result(timeout)


class Notes(Executor):
    """A queue whose batches run at once, and what happened since `begin`."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.happened: list[tuple[str, float]] = []  # `program` and `batch` with seconds, `wait` with a batch's number
        self.batches = 0
        self._since = time.thread_time()

    def submit(self, run: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        self._program()
        batch = _Batch(self.batches, self)
        self.batches += 1
        batch.set_result(run(*arguments, **named))
        now = time.thread_time()
        self.happened.append(("batch", now - self._since))
        self._since = now
        return batch

    def wait(self, number: int) -> None:
        self._program()
        self.happened.append(("wait", number))

    def ended(self) -> list[tuple[str, float]]:
        self._program()
        return self.happened

    def _program(self) -> None:
        now = time.thread_time()
        self.happened.append(("program", now - self._since))
        self._since = now


def busy(happened: Sequence[tuple[str, float]], cores: int) -> float:
    """The share of the time of so many cores in which they run batches, of the notes of one core."""
    free, ends, now, work = [0.0] * cores, list[float](), 0.0, 0.0
    for what, value in happened:
        if what == "program":
            now += value
        elif what == "batch":
            ends.append(max(now, heapq.heappop(free)) + value)
            heapq.heappush(free, ends[-1])
            work += value
        else:
            now = max(now, ends[int(value)])
    return work / (cores * max(now, *ends))


def measure(names: Sequence[str], *, cache: Path | None = None, say: Say) -> dict[str, Any]:
    """Decide a part of a selection with each masked model, and of likelihoods with each causal one."""
    notes = Notes()
    batches.QUEUES["core", 1] = notes  # models with one thread give it their batches
    found = []
    for name in names:
        say(f"{name}: preparing")
        measured = prepare(name, cache or cache_folder())
        models = open_models(measured.exported, CPU, Precision.AUTO, threads=1)
        for what, decide in _parts(measured, models):
            say(f"{name}: {what}")
            notes.begin()
            decide()
            happened = notes.ended()
            seconds = sum(value for kind, value in happened if kind == "batch")
            shares = {str(cores): busy(happened, cores) for cores in CORES}
            found.append({"model": name, "part": what, "batches": notes.batches, "seconds": seconds, "busy": shares})
    return {"machine": describe(CPU), "parts": found}


def _parts(measured: Measured, models: Models) -> Iterator[tuple[str, Callable[[], object]]]:
    if isinstance(model := models.reference, CausalLM):
        encoder = Encoder(measured.exported.tokenizer, is_causal=True)
        texts = [text for pair in made_pairs("MNLI") for text in (pair.text, pair.hypothesis)][:_TEXTS]
        sentences = encoder.encode(texts)
        longest = measured.exported.max_length
        causal_logprobs(model, encoder, sentences[:2], longest, ignored)  # opens the graphs, once a process
        yield "likelihood", partial(causal_logprobs, model, encoder, sentences, longest, ignored)
        return
    job = main_job(measured.exported)
    pattern, prepared = job.patterns.selecting.name, job.prepare(0)

    def select(decider: Decider) -> None:
        deciders = PatternDeciders(models, Precision.AUTO, {pattern: decider})
        job.decide(deciders, 0, prepared, lambda *_: None)

    yield f"select, {EXACT}", partial(select, models.reference)
    if not measured.is_random and (mixed := calibrated(models, candidates(job, _CALIBRATED))):
        yield f"select, {MIXED}", partial(select, mixed)


def table(found: Mapping[str, Any]) -> Table:
    """The share of the time in which cores run batches, in %."""
    known = ({key: own[key] for key in ("model", "part", "batches")} | own["busy"] for own in found["parts"])
    columns = [
        Column("model", "model", wrap=False),
        Column("one part of", "part", wrap=False),
        Column("batches", "batches"),
        *(Column(f"{cores} cores", str(cores), decimals=0, scale=100, unit="%") for cores in CORES),
    ]
    notes = ["simulated: the batches of one core, divided among more; memory and clock rates are not simulated"]
    return Table("Busy cores", pl.DataFrame(list(known)), columns, notes=notes)
