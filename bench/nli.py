"""`negengine bench nli`: natural language inference with negation, a classifier's label for each pair of texts.

The authors' program (`run_glue.py` of transformers 2) judges 8 pairs at a time, each padded to 128 tokens. The answers
are the numbers of the labels, int64 [n].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification

from ..engine.basics.choices import Precision, Task
from ..engine.experiments.nli.nli_judgements import PAPER_LENGTH, Judgements
from ..engine.experiments.nli.nli_pairs import NEW, SOURCES, Pair, PairSet, map_head, read_benchmark
from ..engine.inference.classifier import labels
from .made import made_pairs
from .ours import OwnRun
from .shapes import Measured, prepare
from .subject import OF_PAPERS, Measurement, mixed_up, of_paper, share_of_same
from .system import LOOP, OURS, PAPER, Answers, Choice, Place, batch_sizes
from .torch_models import TorchSystem

SORTED = "PyTorch, sorted loop"
_FEWER = 16  # a run of many pairs spends a smaller part of its time on its calibration; other rates stay the same


@dataclass(frozen=True)
class Judged:
    """Pairs of several sources."""

    sourced: tuple[tuple[str, Pair], ...]  # the source of each pair (RTE, SNLI or MNLI), and the pair

    def __len__(self) -> int:
        return len(self.sourced)

    def head(self, n: int) -> "Judged":
        return Judged(self.sourced[:n])

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for _, pair in self.sourced)

    def by_source(self) -> dict[str, NDArray[np.int64]]:
        sources = np.array([source for source, _ in self.sourced])
        return {source: np.flatnonzero(sources == source) for source in SOURCES if (sources == source).any()}


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

    name = LOOP
    kind = AutoModelForSequenceClassification
    reference = True
    fewer = _FEWER
    padding = "longest"

    def about(self, choice: Choice) -> str:
        return f"in the order of the file, batches of {choice['batch']} padded to the longest"

    def choices(self, place: Place) -> Sequence[Choice]:
        return batch_sizes(place)

    def run(self, work: Judged, choice: Choice) -> Answers:
        found = np.empty(len(work), np.int64)
        for rows, padded in self.padded(work.pairs, choice["batch"]):
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

    name = PAPER
    fewer = 2 * _FEWER
    padding = "max_length"

    def about(self, choice: Choice) -> str:
        return f"run_glue.py: batches of {choice['batch']}, each pair padded to {PAPER_LENGTH} tokens"

    def choices(self, place: Place) -> Sequence[Choice]:  # noqa: ARG002
        return [{"batch": 8}]


class SortedLoop(PairLoop):
    """Sorted by the number of tokens."""

    name = SORTED
    reference = False

    def about(self, choice: Choice) -> str:
        return f"sorted by length, batches of {choice['batch']} padded to the longest"

    def padded(self, pairs: Sequence[Pair], size: int) -> Iterator[tuple[Sequence[int], Any]]:
        encoded = self.encoded(pairs)
        order = np.argsort([len(ids) for ids in encoded["input_ids"]], kind="stable").tolist()
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            own = {name: [values[row] for row in rows] for name, values in encoded.items()}
            yield rows, self._tokenizer.pad(own, return_tensors="pt")


class Own(OwnRun[Judged]):
    """`negengine nli`."""

    command = "nli"
    task = Task.TEXT_CLASSIFICATION

    def __init__(self, precision: Precision = Precision.AUTO) -> None:
        super().__init__(precision)
        if precision is Precision.FP32:
            self.name, self.command, self.fewer = f"{OURS}, fp32", "nli --precision fp32", _FEWER
        else:
            self.arithmetic = "mixed"

    def any_stage(self) -> Judgements:
        return self._stage(())

    def run(self, work: Judged, choice: Choice) -> Answers:  # noqa: ARG002
        rows, pairs = work.by_source(), work.pairs
        sets = tuple(PairSet(source, NEW, tuple(pairs[row] for row in own), "") for source, own in rows.items())
        stage = self._stage(sets)
        items = self.items(stage, ["predicted"])
        numbers = {str(label): number for number, label in enumerate(stage.head)}
        found = np.array([numbers[label] for label in items["predicted"]], np.int64)
        return found[np.argsort(np.concatenate(list(rows.values())), kind="stable")]

    def _stage(self, sets: tuple[PairSet, ...]) -> Judgements:
        head = map_head(labels(self.exported), self.exported.name)
        return Judgements.plan(self.exported, head, sets)


def _measurements(_measured: Measured, path: Path | None) -> list[Measurement[Judged]]:
    return [Measurement([Paper(), PairLoop(), SortedLoop(), Own(), Own(Precision.FP32)], judged(path).head)]


SUBJECT = of_paper(
    *("nli", "pairs", share_of_same),
    measurements=_measurements,
    better_loop=SORTED,
    effort=replace(OF_PAPERS, seconds=32),  # so that the paper's 4,500 pairs are judged
    data="negation-nli",
    prepare=partial(prepare, task=Task.TEXT_CLASSIFICATION),
)
