"""Batches of sentences of one length, the threads that run them on a device, and tasks that wait for them.

All models of a device give their batches to one queue. `gathered` runs several tasks, so that there are batches of
others while one waits, as close calls wait for the low-precision model.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

INPUTS = ("input_ids", "mask_position", "expected_id")
OUTPUTS = ("decision_ids", "decision_logits")  # int32 [n, 2], float32 [n, 4]: the columns of `Decisions`

Array = NDArray[np.generic]
Feeds = dict[str, Array]
Advance = Callable[[int], None]
RunOne = Callable[[Sequence[str], Feeds], list[Array]]  # names of outputs, and inputs of one batch → these outputs
Result = TypeVar("Result")
Unit = Sequence[tuple[NDArray[np.int32], int]]  # a text, or two that are compared: token ids, position of the mask
# Gives batches to the queue, yields their futures, goes on once these are done, and returns its result.
Steps = Generator[Sequence[Future[Any]], None, Result]
_MANY = 16  # columns of an output: of more, each row's largest value is looked at
_AT_ONCE = 16  # tasks: the batches of so many lie in the queue, so it is never empty before the end


def finished(task: Steps[Result]) -> Result:
    """The result of a task; if it fails or is interrupted, its batches that have not begun are cancelled."""
    batches: Sequence[Future[Any]] = ()
    try:
        while True:
            batches = next(task)
            for batch in batches:
                batch.result()
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        for batch in batches:
            batch.cancel()
        task.close()


def gathered(tasks: Iterable[Steps[Result]]) -> Steps[list[Result]]:
    """Run tasks at the same time; their results, in their order."""
    results: dict[int, Result] = {}
    waiting: deque[tuple[int, Steps[Result], Sequence[Future[Any]]]] = deque()

    def resume(number: int, task: Steps[Result]) -> None:
        try:
            waiting.append((number, task, next(task)))
        except StopIteration as end:
            results[number] = end.value

    following = enumerate(tasks)
    try:
        while True:
            while len(waiting) < _AT_ONCE and (new := next(following, None)) is not None:
                resume(*new)
            if not waiting:
                return [results[number] for number in range(len(results))]
            number, task, batches = waiting[0]  # the oldest: its batches come first in the queue
            yield batches
            waiting.popleft()
            resume(number, task)
    finally:
        for _, _, batches in waiting:
            for batch in batches:
                batch.cancel()


def ignored(sentences: int) -> None:
    """An `advance` for callers that do not show progress."""


@dataclass(frozen=True, eq=False)
class TextBatch:
    """What one core runs of units of one or two texts: their first texts, then their second ones.

    Two texts of a unit belong together: their logits are compared, and too many to keep. A negation is longer by a
    token or two. So first texts have one length, and units are sorted by the length of the second ones.
    """

    rows: NDArray[np.int64]  # [n], which units
    alike: tuple[slice, ...]  # of `rows` whose second texts have one length; empty if the units have one text

    def sentences(self, encoded: Sequence[Unit]) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Token ids and positions of the masks: of the first texts, then of the second ones of each slice."""
        groups = [(0, self.rows), *((1, self.rows[part]) for part in self.alike)]
        return [
            (
                np.stack([encoded[row][side][0] for row in rows]),
                np.array([encoded[row][side][1] for row in rows], np.int32),
            )
            for side, rows in groups
        ]


def in_batches(
    encoded: Sequence[Unit], most: int, divide_together: Callable[[Sequence[tuple[int, int]]], list[list[slice]]]
) -> list[TextBatch]:
    """Units in batches of at most `most`, the largest first: so the cores end together."""
    lengths = np.array([(len(own), len(own[0][0]), len(own[-1][0])) for own in encoded], np.int64).reshape(-1, 3)
    alike, group, counts = np.unique(lengths[:, :2], axis=0, return_inverse=True, return_counts=True)
    groups = np.split(np.lexsort((lengths[:, 2], group.ravel())), np.cumsum(counts)[:-1])[: len(alike)]
    divided, found = divide_together([(len(rows), int(lengths[rows[0], 1])) for rows in groups]), []
    for rows, parts in zip(groups, divided, strict=True):
        for some in (some for part in parts for some in np.split(rows[part], range(most, len(rows[part]), most))):
            bounds = [0, *(np.flatnonzero(np.diff(lengths[some, 2])) + 1).tolist(), len(some)]
            second = map(slice, bounds[:-1], bounds[1:]) if lengths[some[0], 0] == 2 else ()
            found.append(TextBatch(some, tuple(second)))
    found.sort(key=lambda batch: -int(np.prod(lengths[batch.rows[0], :2])) * len(batch.rows))
    return found


def slices(n: int, size: int) -> list[slice]:
    """The rows of batches of one size, and of the rest."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def sentences_in(batch_tokens: int, length: int) -> int:
    """Number of sentences of a length in a full batch."""
    return max(1, batch_tokens // length)


CORES = "core"  # the name of the queue of all devices that compute on the cores
# The queues of this process, by the device's name and the number of threads; open models keep them alive.
QUEUES: WeakValueDictionary[tuple[str, int], Executor] = WeakValueDictionary()


class Runner:
    """A session on a device, whose threads each run one batch or one job at a time."""

    def __init__(self, session: ort.InferenceSession, count: int, name: str) -> None:
        self._session, self._options = session, ort.RunOptions()
        self._options.only_execute_path_to_fetches = True  # `logits` is an output too, and its copy would cost time
        queue = QUEUES.get((name, count)) or ThreadPoolExecutor(count, name)
        self._queue = QUEUES[name, count] = queue  # shared by all open models of a device
        self.outputs = {output.name for output in session.get_outputs()}
        # The error for numbers that are not finite, from the inputs and the rows that have them; None: they may be.
        self.not_finite: Callable[[Feeds, NDArray[np.int64]], Exception] | None = None

    def _submit(self, work: Callable[..., Result], *given: Any) -> Future[Result]:
        # In the context of the run that asks: the threads of a device work for several runs of a process.
        return self._queue.submit(copy_context().run, work, *given)

    def run_one(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        """Run one batch in this thread: some outputs of the graph."""
        found: list[Array] = self._session.run([*outputs], feeds, self._options)
        return found

    def read(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        """As `run_one`, with an error for numbers that are not finite, where they may not be.

        One look at each batch: such a number is larger than none, and would count as a decision.
        """
        found = self.run_one(outputs, feeds)
        if self.not_finite is None:
            return found
        for array in found:
            if array.dtype != np.float32 or not array.size:
                continue
            rows = array.reshape(len(array), -1)
            # Of a whole vocabulary the largest logit tells: it is NaN if any is.
            fine = np.isfinite(rows if rows.shape[1] < _MANY else rows.max(axis=1, keepdims=True)).all(axis=1)
            if not fine.all():
                raise self.not_finite(feeds, np.flatnonzero(~fine))
        return found

    def fetching(
        self, outputs: Sequence[str], batches: Sequence[Feeds], advance: Advance = ignored
    ) -> Steps[list[list[Array]]]:
        """Some outputs of the graph, such as `logits`, float32 [n, V], for the inputs of each batch.

        Threads call `advance`, after each batch, with its size: that of its first input.
        """

        def fetch(feeds: Feeds) -> list[Array]:
            found = self.read(outputs, feeds)
            advance(len(next(iter(feeds.values()))))
            return found

        waited = [self._submit(fetch, feeds) for feeds in batches]
        yield waited
        return [batch.result() for batch in waited]

    def fetch(self, outputs: Sequence[str], batches: Sequence[Feeds], advance: Advance = ignored) -> list[list[Array]]:
        return finished(self.fetching(outputs, batches, advance))

    def working(self, jobs: Sequence[Callable[[RunOne], Result]]) -> Steps[list[Result]]:
        """Let each job run batches, and compute from their outputs, in one thread; results in the order of the jobs."""
        waited = [self._submit(job, self.read) for job in jobs]
        yield waited
        return [batch.result() for batch in waited]
