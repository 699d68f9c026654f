"""Classifiers that are functions of a pair's tokens, and pairs for them: quick, and the same in every batch."""

from typing import Any

import numpy as np
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.classifier import EncodedPairs, Labels, PairBucket
from negengine.engine.inference.exported import PRECISIONS


class LabelTable:
    """Classifies by a table: the pair's first token is its number, its logits the table's row."""

    def __init__(self, logits: Any, precision: str = "fp32") -> None:
        self.logits, self.precision = np.asarray(logits, np.float32), precision
        self.classified: list[int] = []

    def classify(self, pairs: EncodedPairs, advance: Any = ignored) -> Labels:
        numbers = np.empty(len(pairs), np.int64)
        for bucket in pairs.buckets:
            numbers[bucket.rows] = bucket.ids[:, 0]
            advance(len(bucket.rows))
        self.classified += numbers.tolist()
        return Labels(self.logits[numbers], np.full(len(pairs), PRECISIONS.index(self.precision), np.int8))


class HashClassifier:
    """Gives the label that a hash of the pair says. The low-precision one errs on about one pair in 11.

    It is certain of what it gets wrong, so that an audit alone finds it.
    """

    def __init__(self, labels: int, precision: str = "fp32") -> None:
        self.labels, self.precision = labels, precision

    def classify(self, pairs: EncodedPairs, advance: Any = ignored) -> Labels:
        logits = np.zeros((len(pairs), self.labels), np.float32)
        for bucket in pairs.buckets:
            weights = np.arange(1, bucket.ids.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            bits = (bucket.ids.astype(np.uint64) * weights).sum(axis=1) >> np.uint64(20)
            label, hard = bits % np.uint64(self.labels), (bits >> np.uint64(8)) % np.uint64(11) == 0
            margin = np.where(hard, 1.0, 10.0)
            if self.precision != "fp32":
                label = (label + hard) % np.uint64(self.labels)
                margin = np.where(hard, 2.0, 9.5)
            logits[bucket.rows, label.astype(np.int64)] = margin
            advance(len(bucket.rows))
        return Labels(logits, np.full(len(pairs), PRECISIONS.index(self.precision), np.int8))


def numbered_pairs(n: int, lengths: int = 3) -> EncodedPairs:
    """Pair i consists of the token i; the pairs have several lengths in turn."""
    numbers = np.arange(n, dtype=np.int32)
    rows = [np.flatnonzero(numbers % lengths == k) for k in range(min(n, lengths))]
    buckets = tuple(
        PairBucket(own, numbers[own, None].repeat(k + 2, axis=1), np.zeros((len(own), k + 2), np.int32))
        for k, own in enumerate(rows)
    )
    return EncodedPairs(buckets, np.zeros(n, np.bool_))
