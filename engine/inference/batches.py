"""Batches of sentences of one length, and the threads that run them on a device."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from .device import CPU
from .session import open_session, run_options

INPUTS = ("input_ids", "mask_position", "expected_id")
OUTPUTS = ("decision_ids", "decision_logits")
WIDTHS = {"decision_ids": 2, "decision_logits": 4}  # columns of the outputs

Array = NDArray[np.generic]
Feeds = dict[str, Array]
Advance = Callable[[int], None]
RunOne = Callable[[Sequence[str], Feeds], list[Array]]
"""Runs one batch: from names of outputs, and inputs, to these outputs."""

Result = TypeVar("Result")


def ignored(sentences: int) -> None:
    """An `advance` for callers that do not show progress."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentences of one length, and the arrays for their decisions."""

    inputs: tuple[Array, Array, Array]  # input_ids int32 [n, L], mask_position int32 [n], expected_id int32 [n]
    outputs: tuple[Array, Array]  # decision_ids int32 [n, 2], decision_logits float32 [n, 4]; they are written into

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def length(self) -> int:
        return int(self.inputs[0].shape[1])


def sentences_in(batch_tokens: int, length: int) -> int:
    """Number of sentences of a length in a full batch."""
    return max(1, batch_tokens // length)


class Runner(ABC):
    """A session on a device, with threads that each run one batch or one job at a time: `Cores`, `Streams`."""

    def __init__(self, session: ort.InferenceSession, count: int, name: str) -> None:
        self._session, self._options = session, run_options()
        self._threads = ThreadPoolExecutor(count, name)

    @abstractmethod
    def _run(self, batch: Batch, advance: Advance) -> None:
        """Decide about the sentences of one batch."""

    def _run_one(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        found: list[Array] = self._session.run([*outputs], feeds, self._options)
        return found

    def run(self, batches: Sequence[Batch], advance: Advance = ignored) -> None:
        """Decide about all sentences; threads call `advance`, after each batch, with its number of sentences."""
        for _ in self._threads.map(self._run, batches, itertools.repeat(advance)):
            pass

    def fetch(self, outputs: Sequence[str], batches: Sequence[Feeds], advance: Advance = ignored) -> list[list[Array]]:
        """Some outputs of the graph, such as `logits`, float32 [n, V], for the inputs of each batch."""

        def job(feeds: Feeds, run: RunOne) -> list[Array]:
            found = run(outputs, feeds)
            advance(len(next(iter(feeds.values()))))
            return found

        return list(self.work([partial(job, feeds) for feeds in batches]))

    def work(self, jobs: Sequence[Callable[[RunOne], Result]]) -> Iterator[Result]:
        """Let each job run batches, and compute from their outputs, in one thread; results in the order of the jobs."""
        return self._threads.map(lambda job: job(self._run_one), jobs)


class Cores(Runner):
    """On the CPU, a thread for each core that runs whole batches; a graph that does not load is an `InputError`.

    ONNX Runtime could also divide each operator between the cores. But then they wait for each other after each of some
    hundred operators, and the batch is too large for the cache of a core. On two cores, batches of 504 tokens with one
    core each are 10 % faster than batches of 4,104 tokens with both cores.
    """

    def __init__(self, graph: Path, count: int) -> None:
        super().__init__(open_session(graph, CPU, threads=1), count, "core")

    def _run(self, batch: Batch, advance: Advance) -> None:
        binding = self._session.io_binding()  # ONNX Runtime writes the decisions straight into their arrays
        for name, array in zip(INPUTS, batch.inputs, strict=True):
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in zip(OUTPUTS, batch.outputs, strict=True):
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self._session.run_with_iobinding(binding, self._options)
        advance(len(batch))
