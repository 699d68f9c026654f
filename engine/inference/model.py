"""An exported language model on a device: token ids in, decisions out.

All sentences of a call have the same number of tokens, so nothing is padded and there is no attention mask. For each
sentence six numbers come back, which the graph computes itself (`negengine.export.passes.outputs`). The logits over the
vocabulary stay on the device. How batches run is in `cpu.py` and `cuda.py`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import Task
from . import tally
from .batches import INPUTS, OUTPUTS, WIDTHS, Advance, Batch, Feeds, Result, RunOne, ignored, sentences_in
from .device import CPU
from .exported import PRECISIONS, REFERENCE
from .opened import CORES, FEWEST_TOKENS, OpenedModel

Ids = NDArray[np.int32]
Asked = tuple[Ids, Ids, Ids]
"""Sentences of one length: their ids, the positions of their masks, the expected tokens."""
Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Decisions:
    """Decisions of a model about n sentences."""

    ids: NDArray[np.int32]  # [n, 2], columns top-1 token and rank of the expected token
    logits: NDArray[np.float32]  # [n, 4], columns top-1, runner-up, expected token, log-sum-exp over the vocabulary
    precision: NDArray[np.int8]  # [n], which graph gave the numbers of a row: a position in `PRECISIONS`

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
        """Whether the top-1 is an expected token, int32 [n]; [n, k] where several are accepted (see `main_token`)."""
        if expected.ndim == 1:
            same: NDArray[np.bool_] = self.top1 == expected
            return same
        among: NDArray[np.bool_] = (self.top1[:, None] == expected).any(axis=1)
        return among

    def margin(self, expected: NDArray[np.int32]) -> NDArray[np.float32]:
        """The expected token's logit minus the highest other logit, float32 [n]: positive where the former is first.

        Where several tokens are accepted, the runner-up may be one of them, so the logit of the best other token is not
        known. There the margin is the top-1's logit minus the runner-up's, with the sign of the decision. If the top-1
        is accepted, no other token is above the runner-up; if it is not, no accepted one is. So it is never more than
        the true margin. Like the true margin, it changes by at most twice the largest change of a logit, and it is 0
        where the decision changes. So a bound on its error decides as safely as one on the error of the true margin.
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

    def take(self, rows: NDArray[np.int64] | slice) -> "Decisions":
        return Decisions(self.ids[rows], self.logits[rows], self.precision[rows])

    def put(self, rows: NDArray[np.int64], other: "Decisions") -> None:
        self.ids[rows], self.logits[rows], self.precision[rows] = other.ids, other.logits, other.precision

    @classmethod
    def joined(cls, several: Sequence["Decisions"]) -> "Decisions":
        if not several:
            return cls.empty(0)
        rows = zip(*((own.ids, own.logits, own.precision) for own in several), strict=True)
        return cls(*(np.concatenate(column) for column in rows))

    @classmethod
    def empty(cls, n: int, precision: str = REFERENCE) -> "Decisions":
        """Arrays for n decisions of one graph; the values of ids and logits are undefined."""
        ids, logits = (WIDTHS[name] for name in OUTPUTS)
        marks = np.full(n, PRECISIONS.index(precision), np.int8)
        return cls(np.empty((n, ids), np.int32), np.empty((n, logits), np.float32), marks)


def main_token(expected: NDArray[np.int32]) -> NDArray[np.int32]:
    """The token whose rank and log-probability are asked for, int32 [n]: the first of int32 [n, k] accepted tokens.

    Rows with fewer accepted tokens are filled up with the main one.
    """
    return expected if expected.ndim == 1 else expected[:, 0]


class Decider(Protocol):
    """Anything that decides about sentences of one length."""

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        """Decide about n sentences of L tokens.

        `ids` are int32 [n, L], C-contiguous, special tokens included. `mask_position` is int32 [n]; `expected` is int32
        [n], or [n, k] as `main_token` takes it. `advance` is called after each batch with its number of sentences, by
        several threads.
        """


class LanguageModel(OpenedModel):
    """A language model on one device: a sentence has a mask, and what comes back is what the model predicts there."""

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        ids, mask_position = self._inputs(ids, mask_position)
        asked = main_token(expected)
        ids, mask_position, expected = (np.ascontiguousarray(a, np.int32) for a in (ids, mask_position, asked))
        decisions = Decisions.empty(len(ids), self.precision)
        self._run(ids, mask_position, expected, decisions, advance)
        tally.count(*ids.shape)
        return decisions

    def decide_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> list[Decisions]:
        return [self.decide(*group, advance) for group in groups]

    def _run(self, ids: Ids, mask_position: Ids, expected: Ids, decisions: Decisions, advance: Advance) -> None:
        """Decide about sentences as the graph reads them, into the arrays of the decisions."""
        parts = self._divide(*ids.shape)
        self._runner.run(_batches((ids, mask_position, expected), decisions, parts), advance)

    def logits(self, ids: Ids, mask_position: Ids) -> NDArray[np.float32]:
        """All logits at the mask, float32 [n, V]. For few sentences: all of them are copied from the device."""
        ids, mask_position = self._inputs(ids, mask_position)
        feeds: Feeds = dict(zip(INPUTS, (ids, mask_position, np.zeros_like(mask_position)), strict=True))
        batches = [{name: array[part] for name, array in feeds.items()} for part in self._divide(*ids.shape)]
        found = np.concatenate([logits for (logits,) in self._runner.fetch(["logits"], batches)])
        tally.count(*ids.shape)
        return found

    def reduce_logits(
        self, batches: Sequence[Sequence[tuple[Ids, Ids]]], reduce: Callable[[int, list[Logits]], Result]
    ) -> Iterator[Result]:
        """Compute something from all logits at the masks of each batch, on the core that computed the logits.

        Only what is computed is kept: the logits of a few batches are in memory at a time. No core waits while another
        one ranks tokens. A batch has one or several times ids int32 [n, L] and positions of the masks int32 [n].
        `reduce` gets the number of a batch and its logits, each float32 [n, V]; several threads call it. Results come
        in the order of the batches.
        """

        def job(number: int, run: RunOne) -> Result:
            found = []
            for ids, mask_position in batches[number]:
                feeds: Feeds = dict(
                    zip(INPUTS, (*self._inputs(ids, mask_position), np.zeros_like(mask_position)), strict=True)
                )
                found += run(["logits"], feeds)
                tally.count(*ids.shape)
            return reduce(number, found)  # type: ignore[arg-type]

        return self._runner.work([partial(job, number) for number in range(len(batches))])

    def _inputs(self, ids: Ids, mask_position: Ids) -> tuple[Ids, Ids]:
        """The ids that the graph reads, int32 [n, l], and the row of each sentence that is asked for, int32 [n]."""
        return ids, mask_position

    def _divide(self, n: int, length: int) -> list[slice]:
        size = sentences_in(self.batch_tokens, length)
        if self.device == CPU:
            count = math.ceil(n / size)
            at_most = n * length // FEWEST_TOKENS
            count = max(count, min(CORES * math.ceil(count / CORES), at_most))
            size = math.ceil(n / max(count, 1)) or 1
        return [slice(start, start + size) for start in range(0, n, size)]


def _batches(asked: Asked, decisions: Decisions, parts: Sequence[slice]) -> list[Batch]:
    ids, mask_position, expected = asked
    return [
        Batch((ids[part], mask_position[part], expected[part]), (decisions.ids[part], decisions.logits[part]))
        for part in parts
    ]


class MaskedLM(LanguageModel):
    """A masked language model: it reads the words on both sides of the mask."""

    task = Task.FILL_MASK

    def decide_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> list[Decisions]:
        taken: list[Asked] = [
            (
                np.ascontiguousarray(ids, np.int32),
                np.ascontiguousarray(mask_position, np.int32),
                np.ascontiguousarray(main_token(expected), np.int32),
            )
            for ids, mask_position, expected in groups
        ]
        found = [Decisions.empty(len(ids), self.precision) for ids, _, _ in taken]
        # batches of all groups run together: no core waits at the end of a group
        divided = self.divide_together([(len(ids), ids.shape[1]) for ids, _, _ in taken])
        each = zip(taken, found, divided, strict=True)
        batches = [batch for asked, own, parts in each for batch in _batches(asked, own, parts)]
        batches.sort(key=lambda batch: -len(batch) * batch.length)  # the last ones are short: cores end together
        self._runner.run(batches, advance)
        for ids, _, _ in taken:
            tally.count(*ids.shape)
        return found
