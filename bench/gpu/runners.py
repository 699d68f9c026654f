"""Runners of the engine with other settings than a run has."""

from collections.abc import Mapping
from pathlib import Path

from ...engine.inference.batches import Runner
from ...engine.inference.cuda import STREAMS, Graphs, Streams
from ...engine.inference.session import open_session
from .deciding import Opening
from .setting import Setting


def plain(setting: Setting, *, streams: int = STREAMS, options: Mapping[str, str] | None = None) -> Opening:
    """Plain runs, several at the same time."""

    def opening(graph: Path, batch_tokens: int) -> Runner:
        session = open_session(graph, setting.device, cuda_options=options)
        return Streams(session, setting.device, batch_tokens, streams)

    return opening


def captured(setting: Setting, options: Mapping[str, str]) -> Opening:
    """CUDA graphs; on the CPU the same buffers and bindings, and nothing is captured."""

    def opening(graph: Path, batch_tokens: int) -> Runner:
        session = open_session(graph, setting.device, cuda_options={**options, "enable_cuda_graph": "1"})
        return Graphs(session, setting.device, batch_tokens)

    return opening
