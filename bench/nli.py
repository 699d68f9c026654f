"""`negengine bench nli`: natural language inference with negation, a classifier's label for each pair of texts.

The authors' program (`run_glue.py` of transformers 2) judges 8 pairs at a time, each padded to 128 tokens. The answers
are the numbers of the labels, int64 [n].
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from ..engine.basics.choices import Precision, Task
from ..engine.experiments.nli.nli_judgements import PAPER_LENGTH, Judgements
from ..engine.experiments.nli.nli_pairs import NEW, SOURCES, Pair, PairSet, map_head, read_benchmark
from ..engine.inference.classifier import labels
from ..engine.inference.exported import ExportedModel
from .made import made_pairs
from .ours import OwnRun
from .shapes import Measured, prepare
from .subject import OF_PAPERS, TIMES_OF_PAPERS, Measurement, Subject, mixed_up
from .system import LOOP, OURS, PAPER, Answers, Choice, Items, Place
from .torch_models import TorchSystem

SORTED = "PyTorch, sorted loop"
_FEWER = 16  # a run of many pairs spends a smaller part of its time on its calibration; other rates stay the same

Sourced = tuple[str, Pair]  # with its source: RTE, SNLI or MNLI
Judged = Items[Sourced]


def judged(path: Path | None) -> Judged:
    """The pairs of all sources, in a random order."""
    by_source = {
        source: made_pairs(source) if path is None else read_benchmark(path / f"{source}.txt", source).pairs
        for source in SOURCES
    }
    together = [(source, pair) for source, pairs in by_source.items() for pair in pairs]
    return Judged(tuple(together[row] for row in mixed_up(range(len(together)))))


class PairLoop(TorchSystem[Judged]):
    """In the order of the file."""

    name, said = LOOP, "in the order of the file, batches of {batch} padded to the longest"
    kind = AutoModelForSequenceClassification
    reference = True
    batched = True
    fewer = _FEWER
    padding = "longest"

    def run(self, work: Judged, choice: Choice) -> Answers:
        found = np.empty(len(work), np.int64)
        for rows, padded in self.padded([pair for _, pair in work.items], choice["batch"]):
            with torch.inference_mode():
                found[rows] = self._model(**padded.to(self._device)).logits.argmax(1).cpu().numpy()
        return found

    def padded(self, pairs: Sequence[Pair], size: int) -> Iterator[tuple[Sequence[int], Any]]:
        for start in range(0, len(pairs), size):
            own = pairs[start : start + size]
            encoded = self.encoded(own, padding=self.padding, return_tensors="pt")
            yield range(start, start + len(own)), encoded

    def encoded(self, pairs: Sequence[Pair], **options: Any) -> Any:
        sides = [pair.text for pair in pairs], [pair.hypothesis for pair in pairs]
        return self._tokenizer(*sides, truncation="longest_first", max_length=PAPER_LENGTH, **options)


class Paper(PairLoop):
    """The authors' program."""

    name, said = PAPER, f"run_glue.py: batches of {{batch}}, each pair padded to {PAPER_LENGTH} tokens"
    fewer = 2 * _FEWER
    padding = "max_length"

    def choices(self, place: Place) -> Sequence[Choice]:  # noqa: ARG002
        return [{"batch": 8}]


class SortedLoop(PairLoop):
    """Sorted by the number of tokens."""

    name, said = SORTED, "sorted by length, batches of {batch} padded to the longest"
    reference = False

    def padded(self, pairs: Sequence[Pair], size: int) -> Iterator[tuple[Sequence[int], Any]]:
        encoded = self.encoded(pairs)
        order = np.argsort([len(ids) for ids in encoded["input_ids"]], kind="stable").tolist()
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            own = {name: [values[row] for row in rows] for name, values in encoded.items()}
            yield rows, self._tokenizer.pad(own, return_tensors="pt")


class Own(OwnRun):
    """`negengine nli`, whose items stand source by source."""

    def __init__(self, precision: Precision = Precision.AUTO) -> None:
        is_exact = precision is Precision.FP32
        command = "nli --precision fp32" if is_exact else "nli"
        super().__init__(command, _stage, ["predicted"], Task.TEXT_CLASSIFICATION, precision)
        if is_exact:
            self.name, self.fewer = f"{OURS}, fp32", _FEWER
        else:
            self.arithmetic = "mixed"

    def run(self, work: Judged, choice: Choice) -> Answers:  # noqa: ARG002
        stage = _stage(self.exported, work.items)
        numbers = {str(label): number for number, label in enumerate(stage.head)}
        found = np.array([numbers[label] for label in self.items(stage)["predicted"]], np.int64)
        order = np.argsort([list(SOURCES).index(source) for source, _ in work.items], kind="stable")
        return found[np.argsort(order)]


def _stage(exported: ExportedModel, items: Sequence[Sourced]) -> Judgements:
    sets = {source: tuple(pair for own, pair in items if own == source) for source in SOURCES}
    head = map_head(labels(exported), exported.name)
    given = tuple(PairSet(source, NEW, pairs, "") for source, pairs in sets.items() if pairs)
    return Judgements(exported, head, tuple(given), min(PAPER_LENGTH, exported.max_length))


def _measurements(_measured: Measured, path: Path | None) -> list[Measurement]:
    return [Measurement([Paper(), PairLoop(), SortedLoop(), Own(), Own(Precision.FP32)], judged(path).head)]


SUBJECT = Subject(
    "nli",
    "pairs",
    _measurements,
    replace(OF_PAPERS, seconds=32),  # so that the paper's 4,500 pairs are judged
    times=TIMES_OF_PAPERS | {"times better loop": SORTED},
    data="negation-nli",
    prepare=partial(prepare, task=Task.TEXT_CLASSIFICATION),
)
