"""Whether mixed precision with an int8 graph would pay: its speed, as a run predicts it, on texts of the model's own.

The rule that a run calibrates by (`engine/inference/mixed.py`) says which decisions are close calls, and its formula
(`precision.py`) what they cost. All wrong decisions of the graph are close calls by that rule, so agreement is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.inference.audit import MOST
from ..engine.inference.batches import Steps
from ..engine.inference.classifier import Labels
from ..engine.inference.machine import MOST_INT8_SPEED
from ..engine.inference.mixed import LABELS, SENTENCES, calibrate
from ..engine.inference.model import Decisions
from ..engine.inference.precision import speedup

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class _Told:
    """Answers that are known, where a run has a model."""

    answers: Any

    def deciding(self, *_: object) -> Steps[Any]:
        yield from ()
        return self.answers

    classifying = deciding


def close_calls(low: Logits, exact: Logits, expected: Sequence[int] | None) -> float:
    """The share of decisions, of logits [n, K], that a run would leave to fp32; of labels, nothing is expected."""
    both: list[Any]
    if expected is None:
        both = [Labels(logits, np.zeros(len(logits), np.int8)) for logits in (low, exact)]
        method, asked = LABELS, None
    else:
        ids = np.array(expected, np.int32)
        both = [Decisions.empty(len(ids)), Decisions.empty(len(ids))]
        for decisions, logits in zip(both, (low, exact), strict=True):
            decisions.judge(logits, ids)
        method, asked = SENTENCES, [(ids, ids, ids)]
    low_model, exact_model = map(_Told, both)
    return calibrate(replace(method, asked=lambda _: asked), low_model, exact_model, None, seed=0).close


def predicted_speed(close: float) -> float:
    """How many times as fast as fp32 mixed precision would be, where int8 is worth most and the audit costs most."""
    return speedup(MOST_INT8_SPEED, close, MOST)
