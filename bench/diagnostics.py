"""`negengine bench diagnostics`: Ettinger's diagnostics, the probabilities of completions and the first five words.

Her program (`run_diagnostics_bert.py` with `access_model.py`) runs each sentence with a completion twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..engine.experiments.diagnostics.contexts import Completion, Item, Rows, read_diagnostics
from ..engine.experiments.diagnostics.diagnostics import COMPARED, Diagnostics
from ..engine.inference.exported import ExportedModel
from ..engine.runs.stage import Stage, changed
from ..engine.text.tokenizer import NOT_ONE_TOKEN
from .made import made_diagnostics, one_token_verbs
from .ours import OwnRun
from .shapes import Measured
from .subject import Measurement, Subject, mixed_up
from .system import PAPER, Answers, Choice, Items
from .torch_models import Loop, TorchSystem

_FIRST = 5
# What every system gives for each item; NaN where an item has no such word.
COLUMNS = ["top1_probability", *(f"{name}_probability" for name in COMPARED)]


@dataclass(frozen=True, eq=False)
class Contexts(Items[Item]):
    """Items, as the engine plans them."""

    ids: dict[Completion, int]  # completion → its token


def contexts(measured: Measured, path: Path | None) -> Contexts:
    """Items whose completions are all one token of the model, in a random order."""
    rows = made_diagnostics(one_token_verbs(measured.exported)) if path is None else read_diagnostics(path)
    stage = changed(Diagnostics(), read=rows).stage(measured.exported)
    items = stage.experiment.items
    ids = {one: stage.tokens[one.text, one.word] for item in items for one in item.completions}
    whole = [item for item in items if all(ids[one] != NOT_ONE_TOKEN for one in item.completions)]
    return Contexts(tuple(whole[row] for row in mixed_up(range(len(whole)))), ids)


class Paper(TorchSystem[Contexts]):
    """Ettinger's program."""

    name, said = PAPER, "Ettinger: one sentence at a time, twice for each completion"
    reference = True
    fewer = 8

    def run(self, work: Contexts, choice: Choice) -> Answers:  # noqa: ARG002
        found = np.full((len(work), len(COLUMNS)), np.nan)
        for row, item in enumerate(work.items):
            rows = item.compared or item.expected[:1]
            texts = [one.text for one in rows]
            first = []
            for logits in self.one_by_one(texts):
                probabilities = logits.softmax(0)
                best = probabilities.argsort(descending=True)[:_FIRST]
                first.append([probabilities[token].item() for token in best])
            found[row, 0] = first[0][0]
            for place, (completion, logits) in enumerate(zip(rows, self.one_by_one(texts), strict=True)):
                probability = logits.softmax(0)[work.ids[completion]].item()
                if item.compared:
                    found[row, 1 + place] = probability
        return found


class TextLoop(Loop[Contexts]):
    """Each text once."""

    def run(self, work: Contexts, choice: Choice) -> Answers:
        wanted: dict[str, list[Completion]] = {}
        for completion in dict.fromkeys(one for item in work.items for one in item.completions):
            wanted.setdefault(completion.text, []).append(completion)
        texts = list(wanted)
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


def _stage(exported: ExportedModel, items: Sequence[Item]) -> Stage[Any, Any]:
    return changed(Diagnostics(), items=items, read=Rows()).stage(exported)


def _measurements(measured: Measured, path: Path | None) -> list[Measurement]:
    own = OwnRun("diagnostics", _stage, COLUMNS)
    return [Measurement([Paper(), TextLoop(), TextLoop(row_alone=True), own], contexts(measured, path).head)]


SUBJECT = Subject("diagnostics", "items", _measurements, data="lm-diagnostics")
