"""Select and score with models that are pure functions of a sentence: quick, and the same in every batch and process.

The low-precision model errs on about one sentence in 23: its margin has the wrong sign there, and is wide enough to be
trusted. The calibration here does not know of that, as a calibration that happens not to see an error would not.
"""

from functools import partial
from typing import Any, ClassVar

import numpy as np
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.score import Scoring
from negengine.engine.experiments.negation.select import Selection
from negengine.engine.inference.batches import Steps, ignored
from negengine.engine.inference.mixed import Calibration
from negengine.engine.inference.model import Decider, Decisions
from negengine.engine.inference.precision import Models, Workload, choose_precisions
from negengine.engine.runs.masked_stages import PatternDeciders
from negengine.engine.text.lexicon import Lexicon

LEXICON = Lexicon(
    names=("Jessica", "Maria", "John", "Peter"),
    genders=("f", "f", "m", "m"),
    professions=("a dancer", "an architect", "a doctor"),
    verbs=("smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"),
)
CALIBRATION = Calibration(0.0, 0.1, 0.5, never=(), close=0.1, sentences=1_000, audit_share=0.1)


class HashDecider(Decider):
    """Repeats a verb where a hash of the sentence says so: a third of them."""

    def __init__(self, *, low_precision: bool = False) -> None:
        self.low_precision = low_precision
        self.precision = "int8" if low_precision else "fp32"

    def deciding(self, ids: Any, mask_position: Any, expected: Any, advance: Any = ignored) -> Steps[Decisions]:
        yield ()
        weights = np.arange(1, ids.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = (ids.astype(np.uint64) * weights).sum(axis=1) >> np.uint64(20)
        repeats = self.repeats(bits)
        hard = (bits >> np.uint64(8)) % np.uint64(23) == 0
        margin = np.where(hard, 1.0, 10.0)
        if self.low_precision:
            repeats, margin = repeats ^ hard, np.where(hard, 2.0, 9.5)
        decisions = Decisions.empty(len(ids), self.precision)
        decisions.ids[:, 0] = np.where(repeats, expected, expected + 1)
        decisions.ids[:, 1] = np.where(repeats, 1, 2)
        other = np.zeros(len(ids))
        columns = (np.maximum(margin * repeats, 0), np.where(repeats, 0, -margin), np.where(repeats, margin, -margin))
        decisions.logits[:] = np.stack([*columns, other + 11 + self.low_precision / 4], axis=1)
        advance(len(ids))
        return decisions

    def repeats(self, bits: Any) -> Any:
        return bits % np.uint64(3) == 0


class NeverDecider(HashDecider):
    """Repeats nothing."""

    def repeats(self, bits: Any) -> Any:
        return np.zeros(len(bits), np.bool_)


class FakeModels:
    """What a stage says of fake models: they have a device."""

    def describe(self, model: Any) -> dict[str, Any]:
        return {"device": "cpu"}


class _Fake(FakeModels):
    """Opens fake models, and calibrates without measuring.

    `auto` chooses as always, but that the calibration is the same one that does not know of the errors.
    """

    speed: ClassVar[float] = 3.0  # how many times as fast as fp32 the low-precision model is on this processor

    def open(self, options: Opening) -> PatternDeciders:
        low = partial(HashDecider, low_precision=True) if options.precision is not Precision.FP32 else None
        return PatternDeciders(Models(HashDecider(), low), options.precision)  # type: ignore[arg-type]

    def calibrate(self, model: PatternDeciders, say: Any) -> dict[str, Any]:
        workloads: list[Workload] = self.workloads()  # type: ignore[attr-defined]
        if model.precision is not Precision.AUTO:
            choice: dict[str, Any] = {"precision": str(model.precision)}
            blind = CALIBRATION.to_json() if model.precision is Precision.MIXED else {}
            return {workload.pattern: {**choice, **blind} for workload in workloads}
        chosen = choose_precisions(model.models, model.precision, workloads, seed=0, say=say, speed_ratio=self.speed)
        return {
            pattern: {**choice, **CALIBRATION.to_json()} if choice["precision"] == "mixed" else choice
            for pattern, choice in chosen.items()
        }


class FakeSelection(_Fake, Selection):
    """A selection with fake models."""


class NeverSelection(_Fake, Selection):
    """A selection with a model that repeats nothing."""

    def open(self, options: Opening) -> PatternDeciders:
        return PatternDeciders(Models(NeverDecider()), options.precision)  # type: ignore[arg-type]


class FakeScoring(_Fake, Scoring):
    """A scoring with fake models."""
