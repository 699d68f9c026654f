"""Where the time goes: a selection taken apart, and sweeps over lengths, batch sizes and threads."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime as ort

from ..engine.experiments.negation.select import Selection, Settings
from ..engine.inference.batches import Advance, ignored
from ..engine.inference.causal import open_language_model
from ..engine.inference.device import CPU, Device
from ..engine.inference.exported import ExportedModel
from ..engine.inference.model import Decider, Decisions, Ids, LanguageModel
from ..engine.inference.precision import Models
from ..engine.text.token_ids import EncodedSentences
from .lazy import run_selection

_COMPOSED = 200_000  # sentences; a tenth of a second or less
_COPIES = 12
PAIRS = 4  # run from end to end


@dataclass(frozen=True)
class Parts:
    """Seconds for 1,000 sentences in each part, and the model's share of a run."""

    composing: float  # token ids from the ids of the words, on one core
    # ids to the device and decisions back, alone; on CUDA it is part of `model`, which hides most of it
    transfer: float
    model: float  # everything up to the logits at the mask
    decisions: float | None  # top-2, rank and log-sum-exp; None where it cannot be told apart
    writing: float  # finished parts, with fsync
    model_share: float  # time inside the model over the wall time of a selection


class _Timed:
    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self.seconds = 0.0

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        started = time.perf_counter()
        decisions = self._decider.decide(ids, mask_position, expected, advance)
        self.seconds += time.perf_counter() - started
        return decisions


class _Nothing:
    """A model that costs nothing and repeats every fourth sentence."""

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:  # noqa: ARG002
        decisions = Decisions.empty(len(ids))
        repeats = np.arange(len(ids)) % 4 == 0
        decisions.ids[:] = np.stack([np.where(repeats, expected, expected + 1), np.where(repeats, 1, 2)], axis=1)
        decisions.logits[:] = 0
        advance(len(ids))
        return decisions


def take_apart(selection: Selection, model: LanguageModel, sentences: EncodedSentences, *, pairs: int = PAIRS) -> Parts:
    """Time the parts of a selection."""

    def sample(size: int) -> Selection:
        plan = (selection.exported, selection.lexicon, selection.patterns, Settings(pairs=size))
        return Selection.plan(*plan, candidates_per_part=_COMPOSED)

    many = sample(min(len(selection.verbs[0].grid.pairs), max(1, _COMPOSED // selection.verbs[0].grid.verbs)))
    _ = many.composer  # its check with the tokenizer is done once a run
    started = time.perf_counter()
    many.prepare(0)
    composing = (time.perf_counter() - started) / many.sizes[0]

    n = len(sentences.expected)
    started = time.perf_counter()
    for piece in sentences.buckets:
        model.decide(piece.ids, piece.mask_position, sentences.expected[piece.rows])
    both = (time.perf_counter() - started) / n
    share = _decision_share(model.graph, sentences) if model.device == CPU else None

    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        run_selection(many, Models(model), _Nothing(), Path(folder) / "nothing")
        total = (time.perf_counter() - started) / many.verbs[0].grid.size
        few, timed = sample(min(pairs, len(selection.verbs[0].grid.pairs))), _Timed(model)
        started = time.perf_counter()
        run_selection(few, Models(model), timed, Path(folder) / "few")
        model_share = timed.seconds / (time.perf_counter() - started)
    return Parts(
        composing=1000 * composing,
        transfer=1000 * _transfer(model, sentences),
        model=1000 * both * (1 - (share or 0)),
        decisions=1000 * both * share if share is not None else None,
        writing=1000 * max(0.0, total - composing),
        model_share=model_share,
    )


def _transfer(model: LanguageModel, sentences: EncodedSentences) -> float:
    """Seconds per sentence for copying a batch to the device and its decisions back; none on the CPU."""
    if model.device == CPU:
        return 0.0
    place = model.device.kind, model.device.index
    piece = max(sentences.buckets, key=lambda own: len(own.rows))
    n = min(len(piece.rows), model.batch_size(piece.ids.shape[1]))
    inputs = piece.ids[:n], piece.mask_position[:n], sentences.expected[piece.rows[:n]]
    empty = Decisions.empty(n)
    outputs = [ort.OrtValue.ortvalue_from_numpy(array, *place) for array in (empty.ids, empty.logits)]
    seconds = []
    for _ in range(_COPIES):
        started = time.perf_counter()
        kept = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *place) for array in inputs]
        back = [value.numpy() for value in outputs]
        seconds.append(time.perf_counter() - started)
        del kept, back
    return float(np.median(seconds)) / n


def _decision_share(path: Path, sentences: EncodedSentences) -> float:
    """The share of the decision head in the time of all operators, from ONNX Runtime's own profile on the CPU."""
    graph = onnx.load(path, load_external_data=False).graph
    behind = {"logits"}
    head = set()
    for node in graph.node:
        if not behind.isdisjoint(node.input):
            behind.update(node.output)
            head.add(node.name)
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.log_severity_level = 3
    with TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        piece = max(sentences.buckets, key=lambda own: len(own.rows))
        feeds = {
            "input_ids": piece.ids[:128],
            "mask_position": piece.mask_position[:128],
            "expected_id": sentences.expected[piece.rows[:128]],
        }
        for _ in range(3):
            session.run(["decision_ids", "decision_logits"], feeds)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    times = {True: 0.0, False: 0.0}
    for event in events:
        if event.get("cat") == "Node" and str(event["name"]).endswith("_kernel_time"):
            times[str(event["name"]).removesuffix("_kernel_time") in head] += event["dur"]
    return times[True] / (times[True] + times[False])


@dataclass(frozen=True)
class Point:
    """One measurement of a sweep: tokens of a sentence, tokens of a batch, CPU threads, sentences a second."""

    length: int
    batch_tokens: int
    threads: int
    rate: float


def sweep(
    exported: ExportedModel,
    device: Device,
    lengths: Sequence[int],
    batch_tokens: Sequence[int],
    threads: Sequence[int],
    graph: Path | None = None,
) -> list[Point]:
    """Sentences a second of random ids, for every combination."""
    points = []
    random = np.random.default_rng(0)
    for count in threads:
        for tokens in batch_tokens:
            model = open_language_model(exported, device, graph=graph, batch_tokens=tokens, threads=count)
            for length in lengths:
                n = model.batch_size(length)
                ids = random.integers(0, exported.vocab_size, (n, length)).astype(np.int32)
                ids[ids == exported.padding_id] += 1
                position, expected = ids[:, 0] % length, ids[:, 0]
                model.decide(ids, position, expected)
                seconds = []
                for _ in range(3):
                    started = time.perf_counter()
                    model.decide(ids, position, expected)
                    seconds.append(time.perf_counter() - started)
                points.append(Point(length, tokens, count, n / float(np.median(seconds))))
    return points
