"""An exported model that is opened on one device: the graph that runs, and how many inputs a batch has.

What all tasks share. How batches run is in `cpu.py` and `cuda.py`.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ..basics.errors import InputError
from . import cuda
from .batches import Runner, sentences_in
from .cpu import Cores
from .device import CPU, Device, cpu_threads
from .exported import ExportedModel, graph_precision
from .machine import prefers_convolutions

# Tokens in a batch. On the CPU each core has a batch of its own: 512 tokens are enough rows for matrix products to be
# efficient, and few enough for intermediate results to stay in the core's cache, with AVX-512 and with AVX2 alone. On a
# GPU a batch is large enough to hide the time that launching its kernels takes (about 130 kernels a batch in a model of
# 12 layers).
BATCH_TOKENS = {"cpu": 512, "cuda": 16384}

# The last digits of a sentence's logits depend on its batch, those of an int8 model even the first ones. So sentences
# are divided into the same batches for any number of threads: into a multiple of 8 of the same size, so that 1, 2, 4 or
# 8 cores have equal work, unless the batches would be too small to be efficient. A token of a batch of 128 takes 1 to
# 3 % longer than one of a batch of 512 (bert-base's shape, one core of an AMD EPYC), one of 54 takes 7 to 10 % longer,
# one of 27 a quarter. So padding, to join sentences of several lengths, would not make larger batches faster.
CORES = 8
FEWEST_TOKENS = 128


def fp32_graph(exported: ExportedModel, device: Device) -> Path:
    """The fp32 graph of an export that is the fastest on a device."""
    convolved = exported.convolved if device == CPU and prefers_convolutions() else None
    return convolved or exported.graph


class OpenedModel:
    """One session of an exported model on one device; batches of at most `batch_tokens` tokens.

    `graph` is another graph than the fp32 graph for the device. `threads` batches run at the same time on the CPU, each
    on one core: by default as many as this process has cores.

    Raises:
        InputError: The model is exported for another task, a file of the export is missing or damaged, or the graph
            does not load on the device.
    """

    task: ClassVar[str]  # what the model must be exported for

    def __init__(
        self,
        exported: ExportedModel,
        device: Device = CPU,
        *,
        graph: Path | None = None,
        batch_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        if exported.task != self.task:
            raise InputError(f"{exported.folder} is exported for {exported.task}, {self.task} is needed")
        self.exported = exported
        self.device = device
        self.batch_tokens = batch_tokens or BATCH_TOKENS[device.kind]
        self.graph = graph or fp32_graph(exported, device)
        self.precision = graph_precision(self.graph)
        exported.verify_files(self.graph)
        self.at_a_time = (threads or cpu_threads()) if device == CPU else 1  # batches that run at the same time
        self._runner: Runner = self._open(self.graph)

    def batch_size(self, length: int) -> int:
        """Number of sentences of this length that a caller gives at once: one batch on a GPU, 8 batches on the CPU.

        It does not depend on the number of threads, so that callers make the same batches on any machine.
        """
        at_a_time = CORES if self.device == CPU else 1
        return at_a_time * sentences_in(self.batch_tokens, length)

    def occupying(self, length: int) -> int:
        """Number of sentences of this length that occupy the whole device: two full batches for each core of a CPU."""
        return (2 * self.at_a_time if self.device == CPU else 1) * sentences_in(self.batch_tokens, length)

    def divide_together(self, shapes: Sequence[tuple[int, int]]) -> list[list[slice]]:
        """Divide groups, (sentences, length) of each, into batches that run together, each group into equal ones.

        As there are batches of other groups, a group is not divided for the cores' sake: small groups make batches that
        are as large as possible.
        """
        tokens = self.batch_tokens
        if self.device == CPU:
            tokens = min(tokens, max(FEWEST_TOKENS, sum(n * length for n, length in shapes) // CORES))
        sizes = [math.ceil(n / math.ceil(n / sentences_in(tokens, length))) if n else 1 for n, length in shapes]
        return [
            [slice(start, start + size) for start in range(0, n, size)]
            for (n, _), size in zip(shapes, sizes, strict=True)
        ]

    def _open(self, graph: Path) -> Runner:
        if self.device == CPU:
            return Cores(graph, self.at_a_time)
        return cuda.open_batches(graph, self.device, self.batch_tokens, half=self.precision == "fp16")
