"""Batches on the CPU: one session, and on each core a thread that runs whole batches on it.

Threads inside an operator would wait for each other after each of some hundred operators, and a batch for all cores
would not fit into the cache of one: batches of 504 tokens, one a core, are a tenth faster than one of 4,104 for both.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .batches import INPUTS, OUTPUTS, Batch, Feeds
from .device import CPU, open_session, run_options


class Cores:
    """Several runs at a time on one session, each on one thread; see `Batches`.

    Args:
        graph: an .onnx file with the inputs and outputs of a finished export.
        count: runs at a time.

    Raises:
        InputError: the graph does not load.
    """

    def __init__(self, graph: Path, count: int) -> None:
        self._session = open_session(graph, CPU, threads=1)
        self._threads = ThreadPoolExecutor(count, "core")
        self._options = run_options()

    def run(self, batches: Sequence[Batch]) -> None:
        """See `Batches`. IO binding has the decisions written where they belong."""
        for _ in self._threads.map(self._run, batches):
            pass

    def logits(self, batches: Sequence[Feeds]) -> list[NDArray[np.float32]]:
        """See `Batches`."""
        return list(self._threads.map(self._logits, batches))

    def _run(self, batch: Batch) -> None:
        binding = self._session.io_binding()
        for name, array in zip(INPUTS, batch.inputs, strict=True):
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in zip(OUTPUTS, batch.outputs, strict=True):
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self._session.run_with_iobinding(binding, self._options)

    def _logits(self, feeds: Feeds) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = self._session.run(["logits"], feeds, self._options)[0]
        return logits
