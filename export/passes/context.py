"""The signature of all passes, and the facts about the export that they may use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ..graph import Graph, stands_for


@dataclass(frozen=True)
class Context:
    """Facts about the model and the export, for the passes."""

    vocabulary: int
    padding_id: int | None
    longest: int  # tokens of the longest input that is compared with PyTorch
    has_compared_all: bool  # whether the export takes no longer one
    layers: int
    labels: int  # of a classifier
    standard_attention: bool
    family: str
    # For the passes on the finished graph, by name of each fp32 value: the largest magnitude of each channel on real
    # sentences and strings of random tokens, float32 [channels].
    peaks: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def peaks_of(self, value: ir.Value) -> NDArray[np.float32]:
        """The largest magnitude of each channel, float32 [channels]; infinite, float32 [1], where it is not known."""
        return self.peaks.get(stands_for(value), np.full(1, np.inf, np.float32))

    def probes(self) -> list[dict[str, NDArray[np.int64]]]:
        """Random token ids of three shapes; the last is the longest that is compared."""
        found = []
        # Pairwise different numbers, so that no dimension is mistaken for another. A mask can be neutral for short
        # sentences and not for long ones (a sliding window).
        for shape in ((2, 5), (3, 7), (1, self.longest)):
            ids = np.random.default_rng(0).integers(0, self.vocabulary, shape)
            if self.padding_id is not None:
                ids = np.where(ids == self.padding_id, (ids + 1) % self.vocabulary, ids)
            found.append({"input_ids": ids})
        return found


# It rewrites a graph in place, and returns what export.json is to say about it. Its docstring says what it demands.
Pass = Callable[[Graph, Context], Mapping[str, Any] | None]


def run_passes(passes: Sequence[Pass], graph: Graph, context: Context) -> dict[str, Any]:
    """Run passes in their order, with the graph pruned behind each."""
    told: dict[str, Any] = {}
    for each in passes:
        told |= each(graph, context) or {}
        graph.prune()
    return told
