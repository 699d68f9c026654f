"""The baselines on the device, beside the engine: each in a process of its own, in alternation."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...engine.inference.device import cpu_threads
from ..baselines import AtMask, AuthorsSelection, Optimum, TensorRt
from ..main_job import LowPrecision, MixedPrecision, Reference, Sentences, candidates, main_job
from ..rounds import Start, compare
from ..system import Place, System
from .setting import Found, Model, Setting

_MOST = 500_000  # sentences of a round
_TRIED = 4_096


def baselines(setting: Setting, *, start: Start | None = None) -> Found:
    """Model → a row for each system, and why others did not run."""
    return {model.name: _compared(model, setting, start) for model in setting.models}


def _compared(model: Model, setting: Setting, start: Start | None) -> Found:
    place = Place(model.checkpoint, Path(model.folder), setting.device, cpu_threads(), Path(setting.cache))
    job, amount = main_job(model.exported), setting.amount
    systems: list[System[Sentences]] = [
        AuthorsSelection(),
        AtMask("fp16"),
        AtMask("fp16", compiled=True),
        Optimum(),
        TensorRt(),
        Reference(),
        LowPrecision(setting.kind),
        *([] if model.is_random else [MixedPrecision()]),
    ]

    def work(rates: Mapping[str, float]) -> Sentences:
        wanted = rates[AuthorsSelection.name] * amount.baseline_seconds
        return candidates(job, int(min(max(wanted, amount.baseline_sentences), _MOST)))

    tried = candidates(job, min(_TRIED, amount.timed))
    found = compare(systems, place, tried, work, max(1, amount.rounds // 2), lambda _: None, start=start)
    reference = found.outcomes[0]
    return {
        "sentences": reference.items,
        "systems": [
            {
                **outcome.row(),
                "times authors": outcome.rate / reference.rate,
                "same top-1": float(np.mean(outcome.answers == reference.answers[: outcome.items])),
            }
            for outcome in found.outcomes
        ],
        "missing": dict(found.missing),
    }
