"""An executor that clocks another one: opening, deciding, this process's own work for each part."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..engine.basics.option import Opening
from ..engine.runs.executors import Advance, Executor, Finish, Say, Workers
from ..engine.runs.part import EncodedPart
from ..engine.runs.stage import Choices, Stage

BUSY = "seconds of deciding"
"""The count of a part by which a clocked stage says how long its decision took."""


@dataclass(eq=False)
class Clocked:
    """Another executor, and what it took; numbers are sums over all calls of `run`."""

    inner: Executor  # the executor that works
    opening: float = 0.0  # seconds until the workers had opened the model
    deciding: float = 0.0  # seconds until all parts were decided and written
    own: float = 0.0  # seconds of processor time of this process meanwhile
    writing: float = 0.0  # seconds that this process wrote parts
    busy: float = 0.0  # seconds that workers decided
    parts: int = 0  # number of parts
    moved: int = 0  # bytes of the parts

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> Iterator[Workers]:
        started = time.perf_counter()
        with self.inner.start(stage, options, say) as workers:
            self.opening += time.perf_counter() - started
            yield _ClockedWorkers(workers, self)


@dataclass(frozen=True, eq=False)
class _ClockedWorkers:
    workers: Workers
    clocked: Clocked

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        return self.workers.descriptions

    def choose(self, say: Say) -> Choices:
        return self.workers.choose(say)

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        clocked = self.clocked

        def timed(number: int, part: EncodedPart) -> None:
            began = time.perf_counter()
            finish(number, part)
            clocked.writing += time.perf_counter() - began
            clocked.parts += 1
            clocked.moved += len(part.content)
            seconds = float(part.marker.counts.get(BUSY, 0.0))
            clocked.busy += seconds

        began, own = time.perf_counter(), time.process_time()
        self.workers.run(numbers, choices, timed, advance)
        clocked.deciding += time.perf_counter() - began
        clocked.own += time.process_time() - own
