"""Exported classifiers on a device: of pairs of texts, a logit for each label; of tokens, one label for each token."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import Task
from ..basics.errors import InputError
from ..text.token_ids import rows_by_length
from ..text.tokenizer import load_tokenizer
from . import tally
from .batches import Advance, Feeds, Steps, finished, ignored, sentences_in
from .exported import PRECISIONS, ExportedModel
from .model import Ids, OpenedModel

SEGMENTS = "token_type_ids"  # name of the second input, in transformers and in the graph


@dataclass(frozen=True, eq=False)
class PairBucket:
    """Encoded pairs of one length."""

    rows: NDArray[np.int64]  # [n], their positions among all pairs that were encoded
    ids: NDArray[np.int32]  # [n, length], special tokens included, no padding
    segments: NDArray[np.int32]  # [n, length], 0 for the tokens of the first text, 1 for those of the second


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Pairs as token ids."""

    buckets: tuple[PairBucket, ...]  # by ascending length; every pair is in one of them
    truncated: NDArray[np.bool_]  # [n], whether a pair lost tokens
    padded: NDArray[np.bool_]  # [n], whether it holds the padding token, which models ignore

    def __len__(self) -> int:
        return len(self.truncated)

    def chosen(self, rows: NDArray[np.int64]) -> "EncodedPairs":
        """Some of the pairs: int64 [m], ascending positions, which become 0 to m - 1."""
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        buckets = []
        for bucket in self.buckets:
            kept = np.flatnonzero(place[bucket.rows] >= 0)
            if len(kept):
                buckets.append(PairBucket(place[bucket.rows[kept]], bucket.ids[kept], bucket.segments[kept]))
        return EncodedPairs(tuple(buckets), self.truncated[rows], self.padded[rows])


@dataclass(frozen=True, eq=False)
class Labels:
    """What a classifier says about n pairs."""

    logits: NDArray[np.float32]  # [n, labels]
    precision: NDArray[np.int8]  # [n], which graph gave the logits of a row: a position in `PRECISIONS`

    @property
    def label(self) -> NDArray[np.int64]:  # [n], the position of the highest logit; the first where two are equal
        return np.asarray(self.logits.argmax(axis=1))

    def put(self, rows: NDArray[np.int64], other: "Labels") -> None:
        self.logits[rows], self.precision[rows] = other.logits, other.precision


class Classifier(ABC):
    """Anything that classifies pairs of texts."""

    @abstractmethod
    def classifying(self, pairs: EncodedPairs, advance: Advance = ignored) -> Steps[Labels]:
        """The labels of all pairs, in the order in which they were given to `encode_pairs`."""

    def classify(self, pairs: EncodedPairs, advance: Advance = ignored) -> Labels:
        return finished(self.classifying(pairs, advance))


def labels(exported: ExportedModel) -> tuple[str, ...]:
    """The names of an exported classifier's labels, in the order of its logits."""
    return tuple(exported.info["labels"])


def encode_pairs(
    exported: ExportedModel, pairs: Sequence[tuple[str, str]], max_length: int | None = None
) -> EncodedPairs:
    """Encode pairs of texts as the model was trained on them; too long ones are truncated."""
    longest = exported.max_length if max_length is None else max_length
    tokenizer = load_tokenizer(exported.folder)
    tokenizer.no_padding()
    special = tokenizer.num_special_tokens_to_add(True)
    if not special + 2 <= longest <= exported.max_length:
        raise InputError(
            f"--max-length {longest}: {exported.name} takes {special + 2} to {exported.max_length} tokens a pair"
        )
    side = exported.info.get("truncation_side", "right")
    tokenizer.enable_truncation(longest, strategy="longest_first", direction=side)
    encodings = tokenizer.encode_batch(list(pairs))
    buckets = []
    for rows in rows_by_length(encodings):
        ids = np.array([encodings[row].ids for row in rows], np.int32)
        buckets.append(PairBucket(rows, ids, np.array([encodings[row].type_ids for row in rows], np.int32)))
    truncated = np.array([bool(encoding.overflowing) for encoding in encodings], bool)
    padded = np.array([exported.padding_id in encoding.ids for encoding in encodings], bool)
    return EncodedPairs(tuple(buckets), truncated, padded)


class PairClassifier(OpenedModel, Classifier):
    """A classifier of text pairs on one device."""

    task = Task.TEXT_CLASSIFICATION

    def classifying(self, pairs: EncodedPairs, advance: Advance = ignored) -> Steps[Labels]:
        """Batches of all lengths run together, the longest first: no core waits for another one."""
        divided = self.divide_together([(len(bucket.rows), bucket.ids.shape[1]) for bucket in pairs.buckets])
        batches = [
            (bucket, part)
            for bucket, parts in zip(reversed(pairs.buckets), reversed(divided), strict=True)
            for part in parts
        ]
        feeds: list[Feeds] = [{"input_ids": bucket.ids[part]} for bucket, part in batches]
        if self.exported.info["segments"]:
            for own, (bucket, part) in zip(feeds, batches, strict=True):
                own[SEGMENTS] = bucket.segments[part]
        logits = np.empty((len(pairs), len(labels(self.exported))), np.float32)
        fetched = yield from self._runner.fetching(["logits"], feeds, advance)
        for (bucket, part), (found,) in zip(batches, fetched, strict=True):
            logits[bucket.rows[part]] = found
        for bucket in pairs.buckets:
            tally.count(*bucket.ids.shape)
        return Labels(logits, np.full(len(pairs), PRECISIONS.index(self.precision), np.int8))


class TokenClassifier(OpenedModel):
    """A token classifier on one device; its graph decides the labels."""

    task = Task.TOKEN_CLASSIFICATION

    def labels(self, sentences: Sequence[Ids], advance: Advance = ignored) -> list[NDArray[np.int32]]:
        """The labels of sentences of any lengths, int32 [L] with special tokens: positions in the export's labels."""
        found: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * len(sentences)
        batches = []
        for rows in reversed(list(rows_by_length(sentences))):  # the longest first, so that no core waits at the end
            size = sentences_in(self.batch_tokens, len(sentences[rows[0]]))
            batches += [rows[start : start + size] for start in range(0, len(rows), size)]
        feeds: list[Feeds] = [{"input_ids": np.stack([sentences[row] for row in rows])} for rows in batches]
        for rows, (own,) in zip(batches, self._runner.fetch(["labels"], feeds, advance), strict=True):
            tally.count(*own.shape)
            for row, labels in zip(rows, own.astype(np.int32, copy=False), strict=True):
                found[row] = labels
        return found
