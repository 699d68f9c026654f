"""Natural language inference with negation: a classifier's label for each pair of texts.

The authors' program (`run_glue.py` of transformers 2) judges 8 pairs at a time, each padded to 128 tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification

from ....engine.basics.choices import Precision, Task
from ....engine.experiments.items import ITEMS_FILE
from ....engine.experiments.nli.nli_judgements import PAPER_LENGTH, Judgements
from ....engine.experiments.nli.nli_pairs import NEW, SOURCES, Pair, PairSet, map_head
from ....engine.inference.classifier import EncodedPairs, PairClassifier, encode_pairs, labels
from ....engine.inference.exported import load_exported
from ..system import Answers, Choice, Place, System, batch_sizes
from ..torch_models import TorchSystem
from . import INT8_ALONE, LOOP, LOOP_ALONE, OURS, OURS_ALONE, PAPER
from .masked import in_order
from .own import OwnRun

SORTED = "PyTorch, sorted loop"
_BATCH = 8
_FEWER = 16  # a run of many pairs spends a smaller part of its time on its calibration; other rates stay the same
Batch = tuple[NDArray[np.int64], Any]


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


class _Torch(TorchSystem[Any]):
    kind = AutoModelForSequenceClassification

    def choices(self, place: Place) -> Sequence[Choice]:
        return batch_sizes(place)

    def run(self, work: Judged, choice: Choice) -> Answers:
        """The numbers of the labels, int64 [n]."""
        return self.judge(self.batches(work, choice))

    def judge(self, batches: Iterator[Batch] | list[Batch]) -> Answers:
        """The labels of batches, in the order of the pairs."""
        rows, found = [], []
        for own, encoded in batches:
            with torch.inference_mode():
                found.append(self._model(**encoded).logits.argmax(1).cpu().numpy())
            rows.append(own)
        return in_order(rows, found)

    def batches(self, work: Judged, choice: Choice) -> Iterator[Batch]:
        size, pairs = choice["batch"], work.pairs
        for start in range(0, len(work), size):
            own = pairs[start : start + size]
            yield np.arange(start, start + len(own)), self.encoded(own, "longest")

    def encoded(self, pairs: Sequence[Pair], padding: str) -> Any:
        sides = [pair.text for pair in pairs], [pair.hypothesis for pair in pairs]
        return self._tokenizer(
            *sides, padding=padding, truncation="longest_first", max_length=PAPER_LENGTH, return_tensors="pt"
        ).to(self._device)


class Paper(_Torch):
    """The authors' program."""

    name = PAPER
    reference = True
    fewer = 2 * _FEWER

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return f"run_glue.py: batches of {_BATCH}, each pair padded to {PAPER_LENGTH} tokens"

    def choices(self, place: Place) -> Sequence[Choice]:  # noqa: ARG002
        return [{"batch": _BATCH}]

    def encoded(self, pairs: Sequence[Pair], padding: str) -> Any:  # noqa: ARG002
        return super().encoded(pairs, "max_length")


class Loop(_Torch):
    """In the order of the file."""

    name = LOOP
    reference = True
    fewer = _FEWER

    def about(self, choice: Choice) -> str:
        return f"in the order of the file, batches of {choice['batch']} padded to the longest"


class SortedLoop(_Torch):
    """Sorted by the number of tokens."""

    name = SORTED
    fewer = _FEWER

    def about(self, choice: Choice) -> str:
        return f"sorted by length, batches of {choice['batch']} padded to the longest"

    def batches(self, work: Judged, choice: Choice) -> Iterator[Batch]:
        sides = [pair.text for pair in work.pairs], [pair.hypothesis for pair in work.pairs]
        encoded = self._tokenizer(*sides, truncation="longest_first", max_length=PAPER_LENGTH)
        order = np.argsort([len(ids) for ids in encoded["input_ids"]], kind="stable")
        size = choice["batch"]
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            own = {name: [values[row] for row in rows.tolist()] for name, values in encoded.items()}
            yield rows, self._tokenizer.pad(own, return_tensors="pt").to(self._device)


class LoopAlone(SortedLoop):
    """The model of the sorted loop alone: pairs are encoded, sorted and padded before the clock starts."""

    name = LOOP_ALONE

    def about(self, choice: Choice) -> str:
        return f"sorted, batches of {choice['batch']}; no texts, no results"

    def given(self, work: Judged, choice: Choice) -> list[Batch]:
        return list(self.batches(work, choice))

    def run(self, work: list[Batch], choice: Choice) -> Answers:  # type: ignore[override]  # noqa: ARG002
        return self.judge(work)


class Own(OwnRun):
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
        items = self.finished(stage, lambda run: pl.read_parquet(run / ITEMS_FILE, columns=["predicted"]))
        numbers = {str(label): number for number, label in enumerate(stage.head)}
        found = np.array([numbers[label] for label in items["predicted"]], np.int64)
        return found[np.argsort(np.concatenate(list(rows.values())), kind="stable")]

    def _stage(self, sets: tuple[PairSet, ...]) -> Judgements:
        head = map_head(labels(self.exported), self.exported.name)
        return Judgements.plan(self.exported, head, sets)


class OwnAlone(System[Any]):
    """Our classifier alone: pairs are encoded before the clock starts."""

    ours = True
    fewer = _FEWER

    def __init__(self, *, low_precision: bool = False) -> None:
        self._low_precision = low_precision
        self.name = INT8_ALONE if low_precision else OURS_ALONE
        self.arithmetic = "int8" if low_precision else "fp32"

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return f"batches of one length{', labels unchecked' if self._low_precision else ''}; no texts, no results"

    def open(self, place: Place) -> None:
        self._exported = load_exported(place.exported, task=Task.TEXT_CLASSIFICATION)
        graph = self._exported.low_precision(place.device.kind) if self._low_precision else None
        self._model = PairClassifier(self._exported, place.device, graph=graph, threads=place.threads)

    def given(self, work: Judged, choice: Choice) -> EncodedPairs:  # noqa: ARG002
        texts = [(pair.text, pair.hypothesis) for pair in work.pairs]
        return encode_pairs(self._exported, texts, max_length=PAPER_LENGTH)

    def run(self, work: EncodedPairs, choice: Choice) -> Answers:  # noqa: ARG002
        return self._model.classify(work).label
