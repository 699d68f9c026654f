"""Models that are tables of margins, and sentences for them: sentence i consists of the token i."""

from typing import Any

import numpy as np
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.mixed import Calibration
from negengine.engine.inference.model import Decisions
from negengine.engine.text.token_ids import Bucket, EncodedSentences


class MarginDecider:
    """Decides by a table: the sentence's first token is its number, its margin the table's entry."""

    def __init__(self, margins: Any, precision: str = "fp32") -> None:
        self.precision = precision
        self.margins = np.asarray(margins, np.float32)
        self.decided: list[int] = []

    def decide(self, ids: Any, mask_position: Any, expected: Any, advance: Any = ignored) -> Decisions:
        margin = self.margins[ids[:, 0]]
        self.decided += ids[:, 0].tolist()
        decisions = Decisions.empty(len(ids), self.precision)
        decisions.ids[:, 0] = np.where(margin > 0, expected, expected + 1)
        decisions.logits[:] = np.stack([np.maximum(margin, 0), np.minimum(0, margin), margin, margin], axis=1)
        decisions.logits[margin > 0, 1] = 0
        advance(len(ids))
        return decisions


def sentences(n: int) -> Any:
    ids = np.repeat(np.arange(n, dtype=np.int32)[:, None], 3, axis=1)
    return ids, np.ones(n, np.int32), np.full(n, 5, np.int32)


def sample(n: int, expected: Any = None) -> EncodedSentences:
    ids, position, usual = sentences(n)
    return EncodedSentences([Bucket(np.arange(n), ids, position)], usual if expected is None else expected)


def calibration(bound: float, bias: float = 0.0, **more: Any) -> Calibration:
    more = {"never": (), "audit_share": 0.0, **more}
    return Calibration(bias=bias, deviation=bound / 4.5, bound=bound, close=0.1, sentences=1000, **more)
