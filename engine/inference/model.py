"""An exported model that is opened on a device; of a language model: token ids in, six numbers of each sentence out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import Task
from ..basics.errors import InputError
from ..basics.limits import cpu_threads
from ..text.tokenizer import load_tokenizer
from . import tally
from .batches import (
    INPUTS,
    OUTPUTS,
    Advance,
    Feeds,
    Result,
    Runner,
    RunOne,
    Steps,
    finished,
    gathered,
    ignored,
    sentences_in,
    slices,
)
from .devices.cpu import CPU
from .exported import PRECISIONS, REFERENCE, ExportedModel, graph_precision
from .judge import Logits, log_sum_exp, top_tokens
from .session import Device

Ids = NDArray[np.int32]
Asked = tuple[Ids, Ids, Ids]  # sentences of one length: their ids, the positions of their masks, the expected tokens
MOST_LOGITS = 2**23  # in the memory of a core: 32 MB; only with large vocabularies are batches smaller for that

# The last digits of a sentence's logits depend on its batch, those of an int8 model even the first ones. So sentences
# are divided into the same batches for any number of threads: into a multiple of 8 (`Device.together`) of the same
# size, so that 1, 2, 4 or 8 cores have equal work. A token of a batch of 128 takes 1 to 3 % longer than one of a batch
# of 512 (bert-base's shape, one core of an AMD EPYC), one of 54 takes 7 to 10 % longer, one of 27 a quarter. So
# batches have at least `Device.fewest_tokens`.


class OpenedModel:
    """One session of an exported model on one device; batches of at most `batch_tokens` tokens.

    `graph` is another graph than the fastest fp32 graph. `threads` batches run at the same time on the CPU, by default
    one for each core. InputError for a model of another task, a damaged file, or a graph that does not load.
    """

    task: ClassVar[str]  # what the model must be exported for
    opens_at_once: ClassVar[bool] = True  # what every call needs, so that a graph that does not load is refused

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
        self.batch_tokens = batch_tokens or device.batch_tokens
        self.graph = graph or device.graph(exported)
        self.precision = device.precision(self.graph)
        exported.verify_files(self.graph)
        self.at_a_time = (threads or cpu_threads()) if device.uses_cores else 1  # batches that run at the same time
        if self.opens_at_once:
            _ = self._runner

    def batch_size(self, length: int) -> int:
        """Number of sentences of this length that a caller gives at once: one batch on a GPU, 8 batches on the CPU."""
        return self.device.together * sentences_in(self.batch_tokens, length)

    def divide_together(self, shapes: Sequence[tuple[int, int]]) -> list[list[slice]]:
        """Divide groups, (sentences, length) of each, into batches that run together, each group into equal ones.

        On a GPU into full ones and one rest: equal batches, each of them filled up, would compute 15 % more.
        """
        share = sum(n * length for n, length in shapes) // self.device.together
        fewer = max(self.device.fewest_tokens, share) if self.device.uses_cores else self.batch_tokens
        found = []
        for n, length in shapes:
            size = sentences_in(min(self.batch_tokens, fewer), length)
            found.append(slices(n, math.ceil(n / math.ceil(n / size)) if n and self.device.uses_cores else size))
        return found

    @cached_property
    def _runner(self) -> Runner:
        return self._open(self.graph)

    def _open(self, graph: Path) -> Runner:
        runner = self.device.runner(graph, self.batch_tokens, self.at_a_time)
        if graph_precision(graph) == REFERENCE and self.device.is_reference:  # others are decided again
            runner.not_finite = self._not_finite
        return runner

    def _not_finite(self, feeds: Feeds, rows: NDArray[np.int64]) -> InputError:
        where, ids = "", feeds.get(INPUTS[0])
        if ids is not None and len(ids) > rows[0]:
            text = load_tokenizer(self.exported.folder).decode(ids[rows[0]].tolist(), skip_special_tokens=False)
            where = f" for {text!r}"
        return InputError(
            f"{self.exported.name} computes numbers that are not finite (NaN or infinite){where}, which say nothing: "
            "remove the text, or give a model with sound weights"
        )


@dataclass(frozen=True)
class Decisions:
    """Decisions of a model about n sentences."""

    ids: NDArray[np.int32]  # [n, 2], columns top-1 token and rank of the expected token
    logits: NDArray[np.float32]  # [n, 4], columns top-1, runner-up, expected token, log-sum-exp over the vocabulary
    precision: NDArray[np.int8]  # [n], which graph gave the numbers of a row: a position in `PRECISIONS`

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def top1(self) -> NDArray[np.int32]:  # the smaller id where two logits are equal
        return self.ids[:, 0]

    @property
    def expected_rank(self) -> NDArray[np.int32]:  # 1 + the number of tokens with a larger logit
        return self.ids[:, 1]

    @property
    def top1_logprob(self) -> NDArray[np.float32]:
        return self.logits[:, 0] - self.logits[:, 3]

    @property
    def expected_logprob(self) -> NDArray[np.float32]:
        return self.logits[:, 2] - self.logits[:, 3]

    def repeated(self, expected: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether the top-1 is an expected token, int32 [n]; [n, k] where several are accepted."""
        accepted = expected if expected.ndim == 2 else expected[:, None]
        return np.asarray((self.top1[:, None] == accepted).any(axis=1))

    def margin(self, expected: NDArray[np.int32]) -> NDArray[np.float32]:
        """The expected token's logit minus the highest other logit, float32 [n]: positive where the former is first.

        Where several tokens are accepted, the runner-up may be one of them: there it is the top-1's logit minus the
        runner-up's, with the sign of the decision. This is never more than the true margin, changes by at most twice
        the largest change of a logit, and is 0 where the decision changes: a bound on its error decides as safely.
        """
        first, second, own, _ = self.logits.T
        repeated = self.repeated(main_token(expected))
        margin: NDArray[np.float32] = own - np.where(repeated, second, first)
        if expected.ndim == 2:
            several = (expected != expected[:, :1]).any(axis=1)
            gap = first - second
            margin = np.where(several, np.where(self.repeated(expected), gap, -gap), margin)
        return margin

    @property
    def exact(self) -> NDArray[np.bool_]:  # [n], whether the numbers of a row are the reference model's
        return np.asarray(self.precision == PRECISIONS.index(REFERENCE))

    def take(self, rows: NDArray[np.int64] | slice) -> "Decisions":
        return Decisions(self.ids[rows], self.logits[rows], self.precision[rows])

    def judge(self, logits: Logits, expected: Ids) -> None:
        """Put in what all logits, float32 [n, V], say."""
        best = top_tokens(logits, 2)
        values = np.take_along_axis(logits, np.concatenate([best, expected[:, None]], axis=1), axis=1)
        self.ids[:] = np.stack([best[:, 0], 1 + (logits > values[:, 2:]).sum(axis=1)], axis=1)
        self.logits[:] = np.concatenate([values, log_sum_exp(logits)[:, None]], axis=1)

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
        marks = np.full(n, PRECISIONS.index(precision), np.int8)
        return cls(np.empty((n, 2), np.int32), np.empty((n, 4), np.float32), marks)


def main_token(expected: NDArray[np.int32]) -> NDArray[np.int32]:
    """The token whose rank and log-probability are asked for, int32 [n]: the first of int32 [n, k] accepted tokens."""
    return expected if expected.ndim == 1 else expected[:, 0]


class Decider(ABC):
    """Anything that decides about sentences; `deciding` and `deciding_each` are tasks that can run beside others."""

    @property
    def at_once(self) -> int:  # sentences of a task: `batches` says how many tasks there are at the same time
        return Device.at_once

    @abstractmethod
    def deciding(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Steps[Decisions]:
        """Decide about n sentences of L tokens: `ids` int32 [n, L] with special tokens, `mask_position` int32 [n].

        `expected` is int32 [n], or [n, k] as `main_token` takes it. Several threads call `advance`, with the number of
        sentences of each batch.
        """

    def deciding_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> Steps[list[Decisions]]:
        """Decide about sentences of several lengths, in groups of one length."""
        return gathered(self.deciding(*group, advance) for group in groups)

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        return finished(self.deciding(ids, mask_position, expected, advance))

    def decide_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> list[Decisions]:
        return finished(self.deciding_each(groups, advance))


class LanguageModel(OpenedModel, Decider):
    """A language model on one device: a sentence has a mask, and what comes back is what the model predicts there."""

    @property
    def at_once(self) -> int:
        return self.device.at_once

    def deciding(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Steps[Decisions]:
        inputs = (*self._inputs(ids, mask_position), main_token(expected))
        decisions, (runner, parts) = Decisions.empty(len(ids), self.precision), self._parts(inputs)
        yield from _deciding(runner, [(decisions, *part) for part in parts], advance)
        tally.count(*inputs[0].shape)
        return decisions

    def _parts(self, asked: Asked) -> tuple[Runner, Sequence[tuple[slice, Feeds]]]:
        """What decides about sentences of one length, as the graph reads them: batches with the rows of each."""
        return self._runner, [(part, _feeds(asked, part)) for part in self.divide(*asked[0].shape)]

    def reduce_logits(
        self, batches: Sequence[Sequence[tuple[Ids, Ids]]], reduce: Callable[[int, list[Logits]], Result]
    ) -> Steps[list[Result]]:
        """Compute something from all logits at the masks of each batch, on the core that computed the logits.

        A batch has one or several times ids int32 [n, L] and positions of the masks int32 [n]. `reduce`, which several
        threads call, gets the number of a batch and its logits, each float32 [n, V].
        """

        def job(number: int, run: RunOne) -> Result:
            found: list[Any] = []
            for ids, mask_position in batches[number]:
                found += run(["logits"], _of_logits(*self._inputs(ids, mask_position)))
                tally.count(*ids.shape)
            return reduce(number, found)

        return self._runner.working([partial(job, number) for number in range(len(batches))])

    def _inputs(self, ids: Ids, mask_position: Ids) -> tuple[Ids, Ids]:
        """The ids that the graph reads, int32 [n, l], and the row of each sentence that is asked for, int32 [n]."""
        return ids, mask_position

    def divide(self, n: int, length: int) -> list[slice]:
        size = sentences_in(self.batch_tokens, length)
        if self.device.uses_cores:
            count, together = math.ceil(n / size), self.device.together
            count = max(count, min(together * math.ceil(count / together), n * length // self.device.fewest_tokens))
            size = math.ceil(n / max(count, 1)) or 1
        return slices(n, size)


def _of_logits(ids: Ids, mask_position: Ids) -> Feeds:
    """The inputs of a run whose decisions nobody reads."""
    return dict(zip(INPUTS, (ids, mask_position, np.zeros_like(mask_position)), strict=True))


def _feeds(asked: Asked, part: slice) -> Feeds:
    return {name: np.asarray(own[part], np.int32) for name, own in zip(INPUTS, asked, strict=True)}


def _deciding(runner: Runner, parts: Sequence[tuple[Decisions, slice, Feeds]], advance: Advance) -> Steps[None]:
    """Put what batches give into rows of decisions."""
    fetched = yield from runner.fetching(OUTPUTS, [feeds for _, _, feeds in parts], advance)
    for (decisions, rows, _), (top, logits) in zip(parts, fetched, strict=True):
        decisions.ids[rows], decisions.logits[rows] = top, logits


class MaskedLM(LanguageModel):
    """A masked language model: it reads the words on both sides of the mask."""

    task = Task.FILL_MASK

    def deciding_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> Steps[list[Decisions]]:
        found = [Decisions.empty(len(ids), self.precision) for ids, _, _ in groups]
        # batches of all groups run together: no core waits at the end of a group
        divided = self.divide_together([ids.shape for ids, _, _ in groups])
        asked = [(ids, mask_position, main_token(expected)) for ids, mask_position, expected in groups]
        each = zip(found, asked, divided, strict=True)
        parts = [(own, part, _feeds(group, part)) for own, group, parts in each for part in parts]
        parts.sort(key=lambda part: -part[2][INPUTS[0]].size)  # the last ones are short: cores end together
        yield from _deciding(self._runner, parts, advance)
        for ids, _, _ in groups:
            tally.count(*ids.shape)
        return found
