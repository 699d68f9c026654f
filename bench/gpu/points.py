"""Steps that time one graph at many points: sizes of batches and streams, kernels of attention.

Each point decides the same sentences on a runner of its own, with other settings than a run has.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...engine.inference.batches import Runner
from ...engine.inference.cuda import STREAMS, Streams, attention_options
from ...engine.inference.device import CPU
from ...engine.inference.exported import REFERENCE, ExportedModel
from ...engine.inference.model import Decider, Decisions, MaskedLM
from ...engine.inference.session import open_session
from ...engine.text.token_ids import EncodedSentences
from ..workload import candidates, main_job
from .setting import Found, Model, NotHere, Setting

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
    """The low-precision graph for the device. Raises NotHere if the export has none."""
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


def plain(setting: Setting, *, streams: int = STREAMS, options: Mapping[str, str] | None = None) -> Opening:
    """Plain runs, several at the same time."""

    def opening(graph: Path, batch_tokens: int) -> Runner:
        session = open_session(graph, setting.device, cuda_options=options)
        return Streams(session, setting.device, batch_tokens, streams)

    return opening


def sweep(setting: Setting) -> Found:
    """Model → precision → points with their rates, and the fastest of them."""
    found: Found = {}
    for model in setting.models:
        encoded = candidates(main_job(model.exported), setting.amount.timed).encoded
        for precision, graph in graphs_of(model, setting).items():
            options = {} if setting.device == CPU else attention_options(half=precision == "fp16")
            points = []
            for tokens in setting.amount.batch_tokens:
                for streams in setting.amount.streams:
                    runner = plain(setting, streams=streams, options=options)
                    decider = OnRunner(model.exported, setting, graph, tokens, runner)
                    rate, _ = timed(decider, encoded, setting.amount.rounds)
                    points.append({"tokens a batch": tokens, "streams": streams, "sentences/s": rate})
            found.setdefault(model.name, {})[precision] = {"points": points, "fastest": best(points)}
    return found


_TOKENS = 16_384
_KERNELS = {
    "unfused": 16,
    "its choice": 0,
    "flash": 1,
    "memory-efficient": 2,
    "flash or memory-efficient": 3,
    "cuDNN": 8,
}
"""Name → ONNX Runtime's option `sdpa_kernel`. The first one is what the others are compared with."""


def attention(setting: Setting) -> Found:
    """Model → kernel → rate of the low-precision graph, and the share of equal top-1; or why it does not run."""
    found: Found = {}
    for model in setting.models:
        graph = low_precision_graph(model, setting)
        encoded = candidates(main_job(model.exported), setting.amount.timed).encoded
        tokens = min(_TOKENS, max(setting.amount.batch_tokens))
        rows: dict[str, dict[str, Any]] = {}
        reference = None
        for name, number in _KERNELS.items():
            try:
                opening = plain(setting, options={"sdpa_kernel": str(number)})
                decider = OnRunner(model.exported, setting, graph, tokens, opening)
                rate, answers = timed(decider, encoded, setting.amount.rounds)
            except Exception as error:  # noqa: BLE001 - a kernel that does not run is a result
                rows[name] = {"why": str(error).strip().partition("\n")[0]}
                continue
            reference = reference or answers
            rows[name] = {"sentences/s": rate, "same top-1": same_top1(answers, reference)}
        found[model.name] = rows
    return found
