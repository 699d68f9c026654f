"""A batch: sentences of one length as a model takes them, and the arrays that their decisions are written into."""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

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
    """Sentences of one length, and the arrays for their decisions.

    Attributes:
        inputs: input_ids int32 [n, L], mask_position int32 [n], expected_id int32 [n].
        outputs: decision_ids int32 [n, 2], decision_logits float32 [n, 4]; they are written into.
    """

    inputs: tuple[Array, Array, Array]
    outputs: tuple[Array, Array]

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def length(self) -> int:
        """Tokens of each sentence."""
        return int(self.inputs[0].shape[1])

    def filled_up(self, size: int) -> list[Array]:
        """The inputs with `size` sentences: the first sentence is repeated at the end.

        A device then sees few different shapes; ONNX Runtime keeps memory for each shape.

        Raises:
            ValueError: the batch is empty, or has more than `size` sentences.
        """
        missing = size - len(self)
        if missing < 0 or len(self) == 0:
            raise ValueError(f"{len(self)} sentences do not make a batch of {size}")
        if missing == 0:
            return [np.ascontiguousarray(array) for array in self.inputs]
        return [np.concatenate([array, array[:1].repeat(missing, axis=0)]) for array in self.inputs]

    def take(self, results: Sequence[Array]) -> None:
        """Write the decisions, without those of the repeated sentences."""
        for own, found in zip(self.outputs, results, strict=True):
            own[:] = found[: len(self)]


class Runner(Protocol):
    """Runs batches on a device."""

    def run(self, batches: Sequence[Batch], advance: Advance = ignored) -> None:
        """Decide about all sentences of the batches.

        Args:
            batches: the batches to run.
            advance: called after each batch with its number of sentences; several threads may call it.
        """

    def fetch(self, outputs: Sequence[str], batches: Sequence[Feeds], advance: Advance = ignored) -> list[list[Array]]:
        """Some outputs of the graph, such as `logits`, float32 [n, V], for each batch.

        Args:
            outputs: their names.
            batches: the inputs of each run.
            advance: as for `run`.
        """

    def work(self, jobs: Sequence[Callable[[RunOne], Result]]) -> Iterator[Result]:
        """Let each job run batches, in one thread: what it computes from their outputs is computed there, too.

        So one core is at work on a job from the first batch to the result, while others do other jobs.

        Args:
            jobs: each is called once, by one of several threads.

        Returns:
            The results in the order of the jobs.
        """


def fetching(
    outputs: Sequence[str], batches: Sequence[Feeds], advance: Advance
) -> list[Callable[[RunOne], list[Array]]]:
    """Jobs that bring some outputs of each batch; see `Runner.fetch`."""

    def fetch(feeds: Feeds, run: RunOne) -> list[Array]:
        found = run(outputs, feeds)
        advance(rows_in(feeds))
        return found

    return [partial(fetch, feeds) for feeds in batches]


def rows_in(feeds: Feeds) -> int:
    """Number of sentences of a run: the rows of its first input."""
    return len(next(iter(feeds.values())))


def sentences_in(batch_tokens: int, length: int) -> int:
    """Number of sentences of a length in a full batch."""
    return max(1, batch_tokens // length)


def rows_by_length(encoded: Sequence[Sized]) -> Iterator[NDArray[np.int64]]:
    """The positions of sentences with the same number of tokens, int64 [n], from the shortest to the longest."""
    lengths = np.array([len(ids) for ids in encoded])
    for length in np.unique(lengths):
        yield np.flatnonzero(lengths == length)
