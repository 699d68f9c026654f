"""Models that are tables of logits, and sentences for them: sentence i consists of the token i."""

from typing import Any

import numpy as np
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.model import Asked, Decisions, main_token
from negengine.engine.text.token_ids import Bucket, EncodedSentences

EXPECTED = 0  # the token that every sentence expects


class LogitsTable:
    """Decides by a table: the sentence's first token is its number, its logits are the table's row."""

    def __init__(self, logits: Any, precision: str = "fp32") -> None:
        self.logits, self.precision = np.asarray(logits, np.float32), precision
        self.decided: list[int] = []

    def decide(self, ids: Any, mask_position: Any, expected: Any, advance: Any = ignored) -> Decisions:
        return self._decide(ids[:, 0], main_token(expected), advance)

    def decide_each(self, groups: list[Asked], advance: Any = ignored) -> list[Decisions]:
        return [self._decide(ids[:, 0], expected, advance) for ids, _, expected in groups]

    def _decide(self, numbers: Any, expected: Any, advance: Any) -> Decisions:
        self.decided += numbers.tolist()
        logits, each = self.logits[numbers], np.arange(len(numbers))
        order = np.argsort(-logits, axis=1, kind="stable")
        own = logits[each, expected]
        found = Decisions.empty(len(numbers), self.precision)
        found.ids[:] = np.stack([order[:, 0], 1 + (logits > own[:, None]).sum(axis=1)], axis=1)
        first, second = logits[each, order[:, 0]], logits[each, order[:, 1]]
        found.logits[:] = np.stack([first, second, own, np.log(np.exp(logits).sum(axis=1))], axis=1)
        advance(len(numbers))
        return found


def numbered(numbers: Any, lengths: int = 3) -> list[Asked]:
    """Sentences by their numbers, in groups by length: sentence i has i % lengths + 2 tokens."""
    numbers = np.asarray(numbers, np.int32)
    groups = [numbers[numbers % lengths == k] for k in range(lengths)]
    return [_group(own, k + 2) for k, own in enumerate(groups) if len(own)]


def sample(n: int, lengths: int = 3) -> EncodedSentences:
    """The sentences from 0 to n - 1, for a calibration."""
    buckets = [Bucket(ids[:, 0].astype(np.int64), ids, position) for ids, position, _ in numbered(range(n), lengths)]
    return EncodedSentences(buckets, np.full(n, EXPECTED, np.int32))


def by_number(groups: list[Asked], found: list[Decisions]) -> dict[int, int]:
    """The top-1 token of each sentence."""
    numbers = np.concatenate([ids[:, 0] for ids, _, _ in groups])
    return dict(zip(numbers.tolist(), Decisions.joined(found).top1.tolist(), strict=True))


def _group(numbers: Any, length: int) -> Asked:
    ids = numbers[:, None].repeat(length, axis=1)
    return ids, np.ones(len(numbers), np.int32), np.full(len(numbers), EXPECTED, np.int32)
