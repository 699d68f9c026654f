"""Steps that time one graph at many points: sizes of batches and streams, kernels of attention.

Each point decides the same sentences on a runner of its own, with other settings than a run has.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from ..main_job import candidates, main_job
from .setting import Found, Model, NotHere, Setting

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


@dataclass(frozen=True)
class Point:
    """How batches are run."""

    named: Mapping[str, Any]  # what a report calls it
    tokens: int  # of a batch
    options: Mapping[str, str]  # of ONNX Runtime's provider
    streams: int = STREAMS  # how many batches run at the same time

    def open(self, exported: ExportedModel, setting: Setting, graph: Path) -> Decider:
        device = setting.device

        def opening(path: Path, batch_tokens: int) -> Runner:
            session = open_session(path, device, cuda_options=self.options)
            return Streams(session, device, batch_tokens, self.streams)

        return _OnRunner(exported, setting, graph, self.tokens, opening)


class _OnRunner(MaskedLM):
    """A masked language model whose batches a given runner runs."""

    def __init__(
        self,
        exported: ExportedModel,
        setting: Setting,
        graph: Path,
        batch_tokens: int,
        opening: Callable[[Path, int], Runner],
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


def usual_options(setting: Setting, *, half: bool) -> Mapping[str, str]:
    """The options of a run for attention in fp32 or fp16."""
    return {} if setting.device == CPU else attention_options(half=half)


def _timed(model: Model, setting: Setting, graph: Path, points: Sequence[Point]) -> list[Found]:
    """Each point's sentences a second (the median round), and its share of the first point's top-1; or why not."""
    encoded = candidates(main_job(model.exported), setting.amount.timed).encoded
    rows: list[Found] = []
    first: Decisions | None = None
    for point in points:
        try:
            decider = point.open(model.exported, setting, graph)
            found, seconds = decide_all(decider, encoded), []
            for _ in range(setting.amount.rounds):
                began = time.perf_counter()
                found = decide_all(decider, encoded)
                seconds.append(time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - a kernel that does not run is a result
            rows.append({**point.named, "why": str(error).strip().partition("\n")[0]})
            continue
        first = first or found
        rate, same = len(encoded.expected) / float(np.median(seconds)), float(np.mean(found.top1 == first.top1))
        rows.append({**point.named, "sentences/s": rate, "same top-1": same})
    return rows


def sweep(setting: Setting) -> Found:
    """Model → precision → points of batch sizes and streams."""
    found: Found = {}
    for model in setting.models:
        for precision, graph in graphs_of(model, setting).items():
            options = usual_options(setting, half=precision == "fp16")
            points = [
                Point({"tokens a batch": tokens, "streams": streams}, tokens, options, streams)
                for tokens in setting.amount.batch_tokens
                for streams in setting.amount.streams
            ]
            found.setdefault(model.name, {})[precision] = _timed(model, setting, graph, points)
    return found


def attention(setting: Setting) -> Found:
    """Model → points of the kernels of attention, in the low-precision graph."""
    tokens = min(_TOKENS, max(setting.amount.batch_tokens))
    points = [Point({"kernel": name}, tokens, {"sdpa_kernel": str(number)}) for name, number in _KERNELS.items()]
    return {model.name: _timed(model, setting, low_precision_graph(model, setting), points) for model in setting.models}
