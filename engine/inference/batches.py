"""Sentences of one length as a model takes them, and where their decisions go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

INPUTS = ("input_ids", "mask_position", "expected_id")
OUTPUTS = ("decision_ids", "decision_logits")
WIDTHS = {"decision_ids": 2, "decision_logits": 4}  # columns of the outputs

Array = NDArray[np.generic]
Feeds = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentences of one length, and where their decisions go.

    Attributes:
        inputs: input_ids int32 [n, L], mask_position int32 [n], expected_id int32 [n].
        outputs: decision_ids int32 [n, 2], decision_logits float32 [n, 4]; written into.
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
        """The inputs with `size` sentences: the first one is repeated at the end. Shapes stay few, and so does memory.

        Raises:
            ValueError: there are none, or more than `size`.
        """
        missing = size - len(self)
        if missing < 0 or len(self) == 0:
            raise ValueError(f"{len(self)} sentences do not make a batch of {size}")
        if missing == 0:
            return [np.ascontiguousarray(array) for array in self.inputs]
        return [np.concatenate([array, array[:1].repeat(missing, axis=0)]) for array in self.inputs]

    def take(self, results: Sequence[Array]) -> None:
        """Write the decisions, without those of the sentences that filled it up."""
        for own, found in zip(self.outputs, results, strict=True):
            own[:] = found[: len(self)]


class Batches(Protocol):
    """A way to run batches on a device."""

    def run(self, batches: Sequence[Batch]) -> None:
        """Decide about all sentences of some batches."""

    def logits(self, batches: Sequence[Feeds]) -> list[NDArray[np.float32]]:
        """All logits at the mask, float32 [n, V] for each of some batches."""


def sentences_in(batch_tokens: int, length: int) -> int:
    """Sentences of a length in a full batch."""
    return max(1, batch_tokens // length)
