"""What several steps do: decide sentences with one graph, on a runner of their own, and time it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...engine.inference.batches import Runner
from ...engine.inference.exported import REFERENCE, ExportedModel
from ...engine.inference.model import Decider, Decisions, MaskedLM
from ...engine.text.token_ids import EncodedSentences
from .setting import Model, NotHere, Setting

Opening = Callable[[Path, int], Runner]
"""From a graph and the tokens of a batch to a runner."""


class OnRunner(MaskedLM):
    """A masked language model whose batches a given runner runs."""

    def __init__(
        self, exported: ExportedModel, setting: Setting, graph: Path, batch_tokens: int, opening: Opening
    ) -> None:
        self._opening = opening
        super().__init__(exported, setting.device, graph=graph, batch_tokens=batch_tokens)

    def _open(self, graph: Path) -> Runner:
        return self._opening(graph, self.batch_tokens)


def graphs_of(model: Model, setting: Setting) -> dict[str, Path]:
    """Precision → graph, of those that the device takes: the reference, and the low-precision graph if there is one."""
    exported = model.exported
    low = exported.low_precision(setting.kind)
    return {REFERENCE: exported.graph} | ({} if low is None else {"int8" if setting.kind == "cpu" else "fp16": low})


def low_precision_graph(model: Model, setting: Setting) -> Path:
    """The low-precision graph for the device.

    Raises:
        NotHere: The export has none.
    """
    graph = model.exported.low_precision(setting.kind)
    if graph is None:
        raise NotHere(f"{model.name} has no low-precision graph for {setting.kind}")
    return graph


def decide_all(decider: Decider, encoded: EncodedSentences) -> Decisions:
    """The decisions about all sentences, in their order."""
    found = Decisions.empty(len(encoded.expected))
    for bucket in encoded.buckets:
        found.put(bucket.rows, decider.decide(bucket.ids, bucket.mask_position, encoded.expected[bucket.rows]))
    return found


def timed(decider: Decider, encoded: EncodedSentences, rounds: int) -> tuple[float, Decisions]:
    """Sentences a second in the median round, after a first one that is not timed; and the last decisions."""
    found, seconds = decide_all(decider, encoded), []
    for _ in range(rounds):
        began = time.perf_counter()
        found = decide_all(decider, encoded)
        seconds.append(time.perf_counter() - began)
    return len(encoded.expected) / float(np.median(seconds)), found


def same_top1(one: Decisions, other: Decisions) -> float:
    """The share of sentences with the same top-1."""
    return float(np.mean(one.top1 == other.top1))


def best(points: Sequence[dict[str, float]]) -> dict[str, float] | None:
    """The point with the highest rate."""
    return max(points, key=lambda point: point["sentences/s"], default=None)
