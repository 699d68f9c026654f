"""Which kernels the reference model runs with on the CPU: measured once for a model and a kind of processor.

An export holds the fp32 graph in several forms that compute the same: matrix products, and 1 × 1 convolutions. Which of
them ONNX Runtime runs faster depends on the processor, and so does the best size of a batch. A flag of the processor
says what is usual (`default_kernels`). Before a long run, the first layer of each form is timed on batches of several
sizes, and another choice replaces the usual one if it is clearly faster:

    export ─► first layers ─► seconds for the same sentences, in turns ─► median of the ratios ─► at least 1.08 ×?

The speeds are kept beside the export (`measured`), so all processes on this kind of processor choose alike. The run
records the choice, and every later process of the run takes it from there, on whatever processor. The number of threads
is not among the conditions: results must not depend on it.

A model that is small, or a run that is short, is not measured: it takes the usual kernels.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from .batches import INPUTS, Feeds, sentences_in
from .cpu import Cores
from .device import CPU, cpu_threads, prefers_convolutions
from .exported import CONVOLVED, FIRST_LAYERS, ExportedModel
from .manifest import GRAPH
from .measured import Measured, Say
from .processor import processor

GRAPH_KEY, TOKENS_KEY = "graph", "batch tokens"
"""Keys in the run's record."""

USUAL_TOKENS = 512
"""Tokens in a batch on the CPU, where nothing was measured: enough rows for matrix products to be efficient, few enough
for intermediate results to stay in a core's cache."""

_SIZES = (USUAL_TOKENS, USUAL_TOKENS // 2, USUAL_TOKENS * 2)
_CLEARLY = 1.08  # times as fast as the usual kernels: less is not worth other last digits


@dataclass(frozen=True)
class Effort:
    """When kernels are measured, and for how long.

    Attributes:
        flops: A smaller model is not measured; floating-point operations for an input.
        work: A shorter run is not measured; operations for all its inputs: about a minute on a laptop.
        seconds: After so many no round begins, except for the fewest.
        rounds: Fewest and most.
    """

    flops: float = 1e9
    work: float = 20e12
    seconds: float = 3.0
    rounds: tuple[int, int] = (3, 15)


@dataclass(frozen=True)
class Kernels:
    """A graph of an export, and the size of its batches.

    Attributes:
        graph: The graph's file name.
        batch_tokens: Largest number of tokens in a batch.
    """

    graph: str
    batch_tokens: int

    def to_json(self) -> dict[str, Any]:
        """As the run's record has it."""
        return {GRAPH_KEY: self.graph, TOKENS_KEY: self.batch_tokens}

    def __str__(self) -> str:
        return f"{self.graph}, batches of {self.batch_tokens} tokens"


def default_kernels(exported: ExportedModel, batch_tokens: int | None = None) -> Kernels:
    """What is usual on this kind of processor.

    Args:
        exported: The model.
        batch_tokens: What the user gave, if anything.
    """
    graph = CONVOLVED if exported.convolved is not None and prefers_convolutions() else GRAPH
    return Kernels(graph, batch_tokens or USUAL_TOKENS)


def candidates(exported: ExportedModel, batch_tokens: int | None = None) -> list[Kernels]:
    """All kernels that an export can run with, the usual ones first; args as for `default_kernels`."""
    usual = default_kernels(exported, batch_tokens)
    graphs = [graph for graph in FIRST_LAYERS if exported.first_layer(graph) is not None]
    sizes = [batch_tokens] if batch_tokens else _SIZES
    return list(dict.fromkeys([usual, *(Kernels(graph, size) for graph in graphs for size in sizes)]))


def is_worth_measuring(exported: ExportedModel, inputs: int, effort: Effort | None = None) -> bool:
    """Whether a run is long enough, and its model large enough, for the choice to matter.

    Args:
        exported: The model.
        inputs: Sentences of the whole run, all shards together.
        effort: By default the usual one.
    """
    least = effort or Effort()
    flops = float(exported.info["flops"]["hoisted"])
    measurable = all(exported.first_layer(graph) is not None for graph in FIRST_LAYERS)
    return measurable and flops >= least.flops and inputs * flops >= least.work


def kept_kernels(exported: ExportedModel, batch_tokens: int | None = None) -> Kernels | None:
    """What was chosen for this model and kind of processor before, if anything; args as for `default_kernels`."""
    known = candidates(exported, batch_tokens)
    speeds = _measured(exported).kept([_name(own) for own in known[1:]]) if len(known) > 1 else None
    return None if speeds is None else fastest(known, {own: speeds[_name(own)] for own in known[1:]})


def kernels_of_run(
    exported: ExportedModel,
    inputs: int,
    *,
    batch_tokens: int | None = None,
    threads: int | None = None,
    say: Say = lambda _: None,
    effort: Effort | None = None,
) -> dict[str, Any]:
    """Choose the kernels of a run on the CPU.

    Args:
        exported: The model.
        inputs: Sentences of the whole run, all shards together.
        batch_tokens: What the user gave, if anything.
        threads: Batches that run at the same time.
        say: Receives one line where something was measured.
        effort: When to measure, and for how long.

    Returns:
        A JSON value for the run's record: the kernels, `reason`, and `speeds` where they were measured.

    Raises:
        InputError: As for `choose_kernels`.
    """
    if not is_worth_measuring(exported, inputs, effort):
        usual = default_kernels(exported, batch_tokens)
        return {**usual.to_json(), "reason": "usual"}
    chosen, speeds = choose_kernels(exported, batch_tokens=batch_tokens, threads=threads, say=say, effort=effort)
    return {**chosen.to_json(), "reason": "measured", "speeds": {str(own): speed for own, speed in speeds.items()}}


def recorded_kernels(exported: ExportedModel, record: Mapping[str, Any]) -> Kernels:
    """The kernels that a run has recorded; the usual ones where it has not: versions before this choice used them.

    Raises:
        InputError: The export does not hold the graph.
    """
    if not record:
        return default_kernels(exported)
    graph, tokens = record.get(GRAPH_KEY), record.get(TOKENS_KEY)
    is_there = isinstance(graph, str) and graph in FIRST_LAYERS and graph in exported.info["files"]
    if is_there and isinstance(tokens, int) and tokens > 0:
        return Kernels(str(graph), tokens)
    raise InputError(
        f"this run was started with the kernels {str(graph)[:40]!r} in batches of {str(tokens)[:10]} tokens, which "
        f"{exported.folder} does not have: choose another --output"
    )


def choose_kernels(
    exported: ExportedModel,
    *,
    batch_tokens: int | None = None,
    threads: int | None = None,
    say: Say = lambda _: None,
    effort: Effort | None = None,
) -> tuple[Kernels, Mapping[Kernels, float]]:
    """Choose by the speeds that are kept for this kind of processor, or are measured now and kept.

    Args:
        exported: The model.
        batch_tokens: What the user gave, if anything: other sizes are not tried.
        threads: Batches that run at the same time; by default as many as this process has cores.
        say: Receives one line where something was measured, or where a file is damaged.
        effort: By default the usual one.

    Returns:
        The kernels, and how many times as fast as the usual ones each of the others is.

    Raises:
        InputError: A file of the export is missing or damaged, or a graph does not load.
    """
    known = candidates(exported, batch_tokens)
    if len(known) == 1:
        return known[0], {}

    def measure() -> Mapping[str, float]:
        return {_name(own): speed for own, speed in relative_speeds(exported, known, threads, effort).items()}

    numbers = _measured(exported).numbers([_name(own) for own in known[1:]], measure, say)
    speeds = {own: numbers[_name(own)] for own in known[1:]}
    chosen = fastest(known, speeds)
    told = f"{speeds[chosen]:.2f} times as fast as the usual ones" if chosen in speeds else "the usual ones"
    say(f"kernels: {chosen} ({told})")
    return chosen, speeds


def relative_speeds(
    exported: ExportedModel,
    known: Sequence[Kernels],
    threads: int | None = None,
    effort: Effort | None = None,
    *,
    clock: Callable[[], float] = time.process_time,
) -> dict[Kernels, float]:
    """How many times as fast as the first kernels each of the others runs the first layer.

    Args:
        exported: The model.
        known: The kernels to compare.
        threads: Batches that run at the same time.
        effort: By default the usual one.
        clock: Gives seconds: by default those that the cores of this process compute, as other programs may take the
            machine's time.

    Returns:
        For all but the first, the median over rounds. In a round all run the same sentences, one after the other.

    Raises:
        InputError: As for `choose_kernels`.
    """
    at_a_time, limits = threads or cpu_threads(), effort or Effort()
    exported.verify_files(exported.graph)
    layers = {own.graph: exported.first_layer(own.graph) for own in known}
    cores = {graph: Cores(path, at_a_time) for graph, path in layers.items() if path is not None}
    length = int(exported.info["flops"]["length"])
    ids = _sentences(exported, max(sentences_in(own.batch_tokens, length) for own in known) * at_a_time, length)

    def run(own: Kernels) -> float:
        size = sentences_in(own.batch_tokens, length)
        parts = [ids[start : start + size] for start in range(0, len(ids), size)]
        batches = [_feeds(cores[own.graph], part) for part in parts]
        started = clock()
        cores[own.graph].fetch(cores[own.graph].outputs, batches)
        return clock() - started

    begun = time.monotonic()
    for own in known:
        run(own)  # not counted: the first run of each shape reserves memory
    ratios: dict[Kernels, list[float]] = {own: [] for own in known[1:]}
    fewest, most = limits.rounds
    for done in range(most):
        if done >= fewest and time.monotonic() - begun > limits.seconds:
            break
        usual = run(known[0])
        for own in known[1:]:
            ratios[own].append(usual / run(own))
    return {own: statistics.median(found) for own, found in ratios.items()}


def _feeds(cores: Cores, ids: np.ndarray[Any, np.dtype[np.int32]]) -> Feeds:
    """Token ids, and zeros for all other inputs: positions of masks, expected tokens, segments."""
    zeros = np.zeros_like(ids)
    return {name: zeros if rank == 2 else zeros[:, 0] for name, rank in cores.inputs.items()} | {INPUTS[0]: ids}


def _sentences(exported: ExportedModel, count: int, length: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Random tokens, int32 [count, length]."""
    ids = np.random.default_rng(0).integers(0, exported.vocab_size, (count, length), dtype=np.int32)
    return np.where(ids == exported.padding_id, (ids + 1) % exported.vocab_size, ids).astype(np.int32)


def fastest(known: Sequence[Kernels], speeds: Mapping[Kernels, float]) -> Kernels:
    """The usual kernels, unless others are clearly faster.

    Args:
        known: The kernels, the usual ones first.
        speeds: How many times as fast as the usual ones each of the others is.
    """
    best = max(known[1:], key=lambda own: speeds[own])
    return best if speeds[best] >= _CLEARLY else known[0]


def _name(own: Kernels) -> str:
    """What the speed of kernels is kept as."""
    return f"speed of {own}"


def _measured(exported: ExportedModel) -> Measured:
    graphs = {name: exported.info["files"].get(name) for graph in FIRST_LAYERS for name in (graph, FIRST_LAYERS[graph])}
    conditions = {**processor(CPU), "graphs": graphs, "usual": str(default_kernels(exported))}
    return Measured.beside(exported.folder, conditions)
