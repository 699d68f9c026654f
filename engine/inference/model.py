"""An exported language model on a device: token ids in, decisions out.

All sentences of a call have the same number of tokens, so nothing is padded and there is no attention mask. For each
sentence six numbers come back, which the graph computes itself (`negengine.export.passes.head`). The logits over the
vocabulary stay on the device. How batches run is in `cpu.py` and `cuda.py`.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..choices import Task
from ..errors import InputError
from . import cuda, tally
from .batches import INPUTS, OUTPUTS, WIDTHS, Advance, Batch, Feeds, Runner, ignored, sentences_in
from .cpu import Cores
from .device import CPU, Device, cpu_threads, prefers_convolutions
from .exported import PRECISIONS, REFERENCE, ExportedModel, graph_precision

Ids = NDArray[np.int32]

# Tokens in a batch. On the CPU each core has a batch of its own: enough rows for matrix products to be efficient, few
# enough for intermediate results to stay in the core's cache. On a GPU a batch is large enough to hide the time that
# launching its kernels takes (about 130 kernels a batch in a model of 12 layers).
BATCH_TOKENS = {"cpu": 512, "cuda": 16384}

# The last digits of a sentence's logits depend on its batch, those of an int8 model even the first ones. So sentences
# are divided into the same batches for any number of threads: into a multiple of 8 of the same size, so that 1, 2, 4 or
# 8 cores have equal work, unless the batches would be too small to be efficient.
_CORES = 8
_FEWEST_TOKENS = 128


@dataclass(frozen=True)
class Decisions:
    """Decisions of a model about n sentences.

    Attributes:
        ids: int32 [n, 2], columns top-1 token and rank of the expected token.
        logits: float32 [n, 4], columns top-1, runner-up, expected token, log-sum-exp over the vocabulary.
        precision: int8 [n], which graph gave the numbers of a row: a position in `PRECISIONS`.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    precision: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def top1(self) -> NDArray[np.int32]:
        """The token with the highest logit; the smaller id where two are equal."""
        return self.ids[:, 0]

    @property
    def expected_rank(self) -> NDArray[np.int32]:
        """1 + the number of tokens with a larger logit than the expected one."""
        return self.ids[:, 1]

    @property
    def top1_logprob(self) -> NDArray[np.float32]:
        """Natural logarithm of the top-1 token's probability."""
        return self.logits[:, 0] - self.logits[:, 3]

    @property
    def expected_logprob(self) -> NDArray[np.float32]:
        """Natural logarithm of the expected token's probability."""
        return self.logits[:, 2] - self.logits[:, 3]

    def repeated(self, expected: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether the top-1 is an expected token: the decision of the Self-Contained Negation Test.

        Args:
            expected: int32 [n]; or [n, k] where several tokens are accepted (see `main_token`).
        """
        if expected.ndim == 1:
            same: NDArray[np.bool_] = self.top1 == expected
            return same
        among: NDArray[np.bool_] = (self.top1[:, None] == expected).any(axis=1)
        return among

    def margin(self, expected: NDArray[np.int32]) -> NDArray[np.float32]:
        """The expected token's logit minus the highest other logit, float32 [n].

        It is positive where the expected token is the top-1. The smaller it is, the closer the decision.

        Where several tokens are accepted, the logit of the best other token is not known: the runner-up may be
        accepted, too. There the margin is the top-1's logit minus the runner-up's, with the sign of the decision. That
        is never more than the true margin: if the top-1 is accepted, no other token is above the runner-up; if it is
        not, no accepted one is. Like the true margin, it changes by at most twice the largest change of a logit, and it
        is 0 where the decision changes. So a bound on its error decides as safely as one on the error of the true
        margin.

        Args:
            expected: As for `repeated`.
        """
        if expected.ndim == 2 and (several := (expected != expected[:, :1]).any(axis=1)).any():
            gap = self.logits[:, 0] - self.logits[:, 1]
            signed: NDArray[np.float32] = np.where(self.repeated(expected), gap, -gap)
            return np.where(several, signed, self.margin(expected[:, 0]))
        if expected.ndim == 2:
            return self.margin(expected[:, 0])
        best_other = np.where(self.repeated(expected), self.logits[:, 1], self.logits[:, 0])
        margin: NDArray[np.float32] = self.logits[:, 2] - best_other
        return margin

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Whether the numbers of a row are the reference model's, bool [n]."""
        exact: NDArray[np.bool_] = self.precision == PRECISIONS.index(REFERENCE)
        return exact

    def put(self, rows: NDArray[np.int64], other: "Decisions") -> None:
        """Overwrite the decisions of some rows."""
        self.ids[rows], self.logits[rows], self.precision[rows] = other.ids, other.logits, other.precision

    @classmethod
    def empty(cls, n: int, precision: str = REFERENCE) -> "Decisions":
        """Arrays for n decisions of one graph; the values of ids and logits are undefined.

        Args:
            n: How many.
            precision: The graph's, one of `PRECISIONS`.
        """
        ids, logits = (WIDTHS[name] for name in OUTPUTS)
        marks = np.full(n, PRECISIONS.index(precision), np.int8)
        return cls(np.empty((n, ids), np.int32), np.empty((n, logits), np.float32), marks)


def main_token(expected: NDArray[np.int32]) -> NDArray[np.int32]:
    """The token whose rank and log-probability are asked for, int32 [n].

    Args:
        expected: int32 [n]; or int32 [n, k], the accepted tokens of each sentence: the main one first, rows with fewer
            of them filled up with it.
    """
    return expected if expected.ndim == 1 else expected[:, 0]


class Decider(Protocol):
    """Anything that decides about sentences of one length."""

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        """Decide about n sentences of L tokens.

        Args:
            ids: int32 [n, L], C-contiguous, special tokens included.
            mask_position: int32 [n], where the mask is.
            expected: int32 [n], the token whose logit and rank are asked for; or int32 [n, k], the accepted tokens, of
                which the first is asked for (see `main_token`).
            advance: called after each batch with its number of sentences; several threads may call it.
        """


class LanguageModel:
    """One session of an exported model on one device; batches of a fixed number of tokens.

    `MaskedLM` and `CausalLM` (`causal.py`) are called in the same way: a sentence has a mask, and what comes back is
    what the model predicts there. `open_language_model` opens either of them.

    Args:
        exported: the model.
        device: where it runs.
        graph: another graph of it than the fp32 graph for the device.
        batch_tokens: the largest number of tokens in a batch.
        threads: number of batches that run at the same time on the CPU, each on one core; by default as many as this
            process has cores.

    Attributes:
        graph: the graph that runs.
        precision: of that graph, one of `PRECISIONS`.
        at_a_time: number of batches that run at the same time.
        task: what the model must be exported for.

    Raises:
        InputError: the model is exported for another task, a file of the export is missing or damaged, or the graph
            does not load on the device.
    """

    task: ClassVar[str]

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
        by_device = exported.convolved if device == CPU and prefers_convolutions() else None
        self.graph = graph or by_device or exported.graph
        self.precision = graph_precision(self.graph)
        exported.verify_files(self.graph)
        self.at_a_time = (threads or cpu_threads()) if device == CPU else 1
        self._runner: Runner = self._open(self.graph)

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        """Decide about n sentences of one length, in batches; see `Decider`."""
        ids, mask_position = self._inputs(ids, mask_position)
        asked = main_token(expected)
        ids, mask_position, expected = (np.ascontiguousarray(a, np.int32) for a in (ids, mask_position, asked))
        decisions = Decisions.empty(len(ids), self.precision)
        self._run(ids, mask_position, expected, decisions, advance)
        tally.count(*ids.shape)
        return decisions

    def _run(self, ids: Ids, mask_position: Ids, expected: Ids, decisions: Decisions, advance: Advance) -> None:
        """Decide about sentences as the graph reads them; the decisions are written into their arrays."""
        self._runner.run(
            [
                Batch((ids[part], mask_position[part], expected[part]), (decisions.ids[part], decisions.logits[part]))
                for part in self._divide(*ids.shape)
            ],
            advance,
        )

    def batch_size(self, length: int) -> int:
        """Number of sentences of this length that a caller gives at once: one batch on a GPU, 8 batches on the CPU.

        It does not depend on the number of threads, so that callers make the same batches on any machine.
        """
        at_a_time = _CORES if self.device == CPU else 1
        return at_a_time * sentences_in(self.batch_tokens, length)

    def occupying(self, length: int) -> int:
        """Number of sentences of this length that occupy the whole device, on a CPU with many cores too."""
        return self.batch_size(length) * math.ceil(self.at_a_time / _CORES)

    def logits(self, ids: Ids, mask_position: Ids) -> NDArray[np.float32]:
        """All logits at the mask, float32 [n, V]. For few sentences: all of them are copied from the device."""
        ids, mask_position = self._inputs(ids, mask_position)
        feeds: Feeds = dict(zip(INPUTS, (ids, mask_position, np.zeros_like(mask_position)), strict=True))
        batches = [{name: array[part] for name, array in feeds.items()} for part in self._divide(*ids.shape)]
        found = np.concatenate([logits for (logits,) in self._runner.fetch(["logits"], batches)])
        tally.count(*ids.shape)
        return found

    def _open(self, graph: Path) -> Runner:
        """A graph of the export on the model's device."""
        if self.device == CPU:
            return Cores(graph, self.at_a_time)
        return cuda.open_batches(graph, self.device, self.batch_tokens, half=self.precision == "fp16")

    def _inputs(self, ids: Ids, mask_position: Ids) -> tuple[Ids, Ids]:
        """The ids that the graph reads, int32 [n, l], and the row of each sentence that is asked for, int32 [n]."""
        return ids, mask_position

    def _divide(self, n: int, length: int) -> list[slice]:
        """Divide n sentences into batches; see `_CORES` for those on the CPU."""
        size = sentences_in(self.batch_tokens, length)
        if self.device == CPU:
            count = math.ceil(n / size)
            at_most = n * length // _FEWEST_TOKENS
            count = max(count, min(_CORES * math.ceil(count / _CORES), at_most))
            size = math.ceil(n / max(count, 1)) or 1
        return [slice(start, start + size) for start in range(0, n, size)]


class MaskedLM(LanguageModel):
    """A masked language model: it reads the words on both sides of the mask. See `LanguageModel`."""

    task = Task.FILL_MASK
