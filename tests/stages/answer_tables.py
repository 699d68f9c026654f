"""Models that are tables, and what they are asked: sentence or pair i consists of the token i."""

from typing import Any

import numpy as np
from negengine.engine.inference.batches import Steps, ignored
from negengine.engine.inference.classifier import Classifier, EncodedPairs, Labels, PairBucket
from negengine.engine.inference.exported import PRECISIONS
from negengine.engine.inference.mixed import Calibration
from negengine.engine.inference.model import Asked, Decider, Decisions, main_token
from negengine.engine.text.token_ids import Bucket, EncodedSentences


class LogitsTable(Decider, Classifier):
    """Decides and classifies by a table of logits, whose row is the first token; `decided` are all rows so far."""

    def __init__(self, logits: Any, precision: str = "fp32") -> None:
        self.logits, self.precision = np.asarray(logits, np.float32), precision
        self.decided: list[int] = []

    def deciding(self, ids: Any, mask_position: Any, expected: Any, advance: Any = ignored) -> Steps[Decisions]:
        yield ()
        numbers = ids[:, 0]
        self.decided += numbers.tolist()
        logits, each = self.logits[numbers], np.arange(len(numbers))
        order = np.argsort(-logits, axis=1, kind="stable")
        own = logits[each, main_token(expected)]
        found = Decisions.empty(len(numbers), self.precision)
        found.ids[:] = np.stack([order[:, 0], 1 + (logits > own[:, None]).sum(axis=1)], axis=1)
        first, second = logits[each, order[:, 0]], logits[each, order[:, 1]]
        found.logits[:] = np.stack([first, second, own, np.log(np.exp(logits).sum(axis=1))], axis=1)
        advance(len(numbers))
        return found

    def classifying(self, pairs: EncodedPairs, advance: Any = ignored) -> Steps[Labels]:
        yield ()
        numbers = np.empty(len(pairs), np.int64)
        for bucket in pairs.buckets:
            numbers[bucket.rows] = bucket.ids[:, 0]
            advance(len(bucket.rows))
        self.decided += numbers.tolist()
        return Labels(self.logits[numbers], np.full(len(pairs), PRECISIONS.index(self.precision), np.int8))


class MarginDecider(Decider):
    """Decides by a table of margins, whatever is expected."""

    def __init__(self, margins: Any, precision: str = "fp32") -> None:
        self.margins, self.precision = np.asarray(margins, np.float32), precision
        self.decided: list[int] = []

    def deciding(self, ids: Any, mask_position: Any, expected: Any, advance: Any = ignored) -> Steps[Decisions]:
        yield ()
        margin = self.margins[ids[:, 0]]
        self.decided += ids[:, 0].tolist()
        decisions = Decisions.empty(len(ids), self.precision)
        decisions.ids[:, 0] = np.where(margin > 0, expected, expected + 1)
        decisions.logits[:] = np.stack([np.maximum(margin, 0), np.minimum(0, margin), margin, margin], axis=1)
        decisions.logits[margin > 0, 1] = 0
        advance(len(ids))
        return decisions


def sentences(numbers: Any, length: int = 3) -> Asked:
    """Sentences of one length by their numbers, or so many; they expect the token 0."""
    numbers = np.arange(numbers) if isinstance(numbers, int) else np.asarray(numbers)
    ids = np.repeat(numbers.astype(np.int32)[:, None], length, axis=1)
    return ids, np.ones(len(ids), np.int32), np.zeros(len(ids), np.int32)


def groups(numbers: Any, lengths: int = 3) -> list[Asked]:
    """Sentences in groups by length: sentence i has i % lengths + 2 tokens."""
    numbers = np.asarray(numbers)
    own = [numbers[numbers % lengths == k] for k in range(lengths)]
    return [sentences(found, k + 2) for k, found in enumerate(own) if len(found)]


def sample(n: int, expected: Any = None) -> EncodedSentences:
    ids, position, usual = sentences(n)
    return EncodedSentences([Bucket(np.arange(n), ids, position)], usual if expected is None else expected)


def numbered_pairs(n: int, lengths: int = 3) -> EncodedPairs:
    """Pairs of several lengths in turn."""
    ids = [sentences(np.arange(n)[k::lengths], k + 2)[0] for k in range(min(n, lengths))]
    nothing = np.zeros(n, np.bool_)
    return EncodedPairs(tuple(PairBucket(own[:, 0], own, np.zeros_like(own)) for own in ids), nothing, nothing)


def calibration(bound: float, bias: Any = 0.0, **more: Any) -> Calibration:
    more = {"never": (), "audit_share": 0.0, **more}
    return Calibration(bias=bias, deviation=bound / 4.5, bound=bound, close=0.1, sentences=1000, **more)
