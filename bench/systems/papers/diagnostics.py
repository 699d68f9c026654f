"""Ettinger's diagnostics: the probabilities of completions, and the first five words.

Her program (`run_diagnostics_bert.py` with `access_model.py`) runs one sentence at a time. Each row of its input is a
sentence with one completion, and it runs every row twice: once for the first five words, sorting the whole vocabulary,
and once for the probability of the completion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

from ....engine.experiments.diagnostics.contexts import Completion, Item
from ....engine.experiments.diagnostics.diagnostics import COMPARED, Diagnostics
from ....engine.experiments.diagnostics.files import Rows
from ....engine.experiments.items import ITEMS_FILE
from ....engine.runs.stage import Stage, changed
from ..system import Answers, Choice, Place, batch_sizes
from . import LOOP, PAPER, ROW
from .masked import TorchMasked, TorchMaskRow
from .own import OwnRun

_FIRST = 5
COLUMNS = ("top1_probability", *(f"{name}_probability" for name in COMPARED))
"""What every system gives for each item; NaN where an item has no such word."""


@dataclass(frozen=True, eq=False)
class Items:
    """Items, as the engine plans them."""

    items: tuple[Item, ...]
    ids: dict[Completion, int]  # completion → its token

    def __len__(self) -> int:
        return len(self.items)

    def head(self, n: int) -> "Items":
        return Items(self.items[:n], self.ids)

    @property
    def texts(self) -> list[str]:
        """The texts, each once."""
        return list(dict.fromkeys(one.text for item in self.items for one in item.completions))


class Paper(TorchMasked):
    """Ettinger's program."""

    name = PAPER
    reference = True
    fewer = 8

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return "Ettinger: one sentence at a time, twice for each completion"

    def run(self, work: Items, choice: Choice) -> Answers:  # noqa: ARG002
        found = np.full((len(work), len(COLUMNS)), np.nan)
        for row, item in enumerate(work.items):
            rows = item.compared or item.expected[:1]
            first, own = [], []
            for completion, logits in zip(rows, self.one_by_one([one.text for one in rows]), strict=True):
                del completion
                probabilities = logits.softmax(0)
                best = probabilities.argsort(descending=True)[:_FIRST]
                first.append([probabilities[token].item() for token in best])
            for completion, logits in zip(rows, self.one_by_one([one.text for one in rows]), strict=True):
                own.append(logits.softmax(0)[work.ids[completion]].item())
            found[row, 0] = first[0][0]
            if item.compared:
                found[row, 1 : 1 + len(own)] = own
        return found


class _Looped(TorchMasked):
    name = LOOP
    reference = True

    def about(self, choice: Choice) -> str:
        return f"each text once, sorted, batches of {choice['batch']}"

    def choices(self, place: Place) -> Sequence[Choice]:
        return batch_sizes(place)

    def run(self, work: Items, choice: Choice) -> Answers:
        texts = work.texts
        wanted: dict[str, list[Completion]] = {}
        for completion in dict.fromkeys(one for item in work.items for one in item.completions):
            wanted.setdefault(completion.text, []).append(completion)
        first, own = dict[str, float](), dict[Completion, float]()
        for rows, logits in self.batches(texts, choice["batch"]):
            probabilities = logits.softmax(1)
            best = probabilities.topk(_FIRST).values
            for place, row in enumerate(rows.tolist()):
                completions = wanted[texts[row]]
                first[texts[row]] = float(best[place, 0])
                picked = probabilities[place, torch.tensor([work.ids[one] for one in completions])]
                own.update(zip(completions, picked.tolist(), strict=True))
        found = np.full((len(work), len(COLUMNS)), np.nan)
        for number, item in enumerate(work.items):
            found[number, 0] = first[item.completions[0].text]
            found[number, 1 : 1 + len(item.compared)] = [own[one] for one in item.compared]
        return found


class Loop(_Looped):
    """All logits, then the row of the mask."""


class RowLoop(_Looped, TorchMaskRow):
    """The same, but the head sees the mask's row alone."""

    name = ROW
    reference = False


class Own(OwnRun):
    """`negengine diagnostics`."""

    command = "diagnostics"

    def any_stage(self) -> Stage[Any, Any]:
        return self._stage(())

    def run(self, work: Items, choice: Choice) -> Answers:  # noqa: ARG002
        stage = self._stage(work.items)
        items = self.finished(stage, lambda run: pl.read_parquet(run / ITEMS_FILE, columns=[*COLUMNS]))
        return items.select(COLUMNS).to_numpy().astype(np.float64)

    def _stage(self, items: tuple[Item, ...]) -> Stage[Any, Any]:
        return changed(Diagnostics(), items=items, read=Rows()).stage(self.exported)
