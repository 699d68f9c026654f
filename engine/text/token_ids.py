"""Token ids as arrays: sentences of one length in a bucket, and words as sequences of one or more tokens."""

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Bucket:
    """Sentences with exactly the same number of tokens."""

    rows: NDArray[np.int64]  # int64 [n], their positions in the filler arrays they were composed from
    ids: NDArray[np.int32]  # int32 [n, length], C-contiguous, special tokens included, no padding
    mask_position: NDArray[np.int32]  # int32 [n], the column of each sentence's mask


def rows_by_length(encoded: Sequence[Sized]) -> Iterator[NDArray[np.int64]]:
    """The positions of sentences with the same number of tokens, int64 [n], from the shortest to the longest."""
    lengths = np.array([len(ids) for ids in encoded])
    for length in np.unique(lengths):
        yield np.flatnonzero(lengths == length)


def in_buckets(sentences: Sequence[NDArray[np.int32]], mask_id: int) -> Iterator[Bucket]:
    """Sentences with one mask each, int32 [length], by length."""
    for rows in rows_by_length(sentences):
        ids = np.stack([sentences[row] for row in rows])
        yield Bucket(rows, ids, (ids == mask_id).argmax(axis=1).astype(np.int32))


@dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Sentences of one pattern, grouped by length, and the token expected in each."""

    buckets: Sequence[Bucket]
    expected: NDArray[np.int32]  # by row, int32 [n]; or int32 [n, k] where several tokens are accepted


def n_sentences(fillers: Mapping[str, NDArray[np.integer]]) -> int:
    """The number of sentences that some fillers mean."""
    return len(next(iter(fillers.values())))


NOTHING = -1  # stands in a table of tokens where a word has no token any more


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """The tokens of n words."""

    tokens: NDArray[np.int32]  # int32 [n, widest], the tokens of each word from left to right, then `NOTHING`
    counts: NDArray[np.int64]  # int64 [n], how many tokens each word has; at least 1
    # int32 [n, a], of words of one token: the tokens that are accepted in its place, itself first; rows with fewer are
    # filled up with it. None where each word has one form.
    accepted: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def widest(self) -> int:
        return int(self.counts.max(initial=0))

    @classmethod
    def of(cls, words: Sequence[Sequence[int]]) -> "TokenSequences":
        """A table of the tokens of each word, of which each has one or more."""
        counts = np.array([len(word) for word in words], np.int64)
        if len(counts) and counts.min() < 1:
            raise ValueError(f"word {int(counts.argmin())} has no tokens")
        tokens = np.full((len(words), int(counts.max(initial=0))), NOTHING, np.int32)
        for row, word in enumerate(words):
            tokens[row, : len(word)] = word
        return cls(tokens, counts)

    @classmethod
    def single(cls, tokens: NDArray[np.int32]) -> "TokenSequences":
        """Words of one token each: int32 [n], or int32 [n, a] where several forms are accepted."""
        main = tokens if tokens.ndim == 1 else tokens[:, 0]
        return cls(main[:, None], np.ones(len(main), np.int64), tokens if tokens.ndim == 2 else None)

    @classmethod
    def joined(cls, several: Sequence["TokenSequences"]) -> "TokenSequences":
        """Several tables, which must have the same width, as one."""
        accepted = [own.accepted for own in several if own.accepted is not None]
        tokens = np.concatenate([own.tokens for own in several])
        counts = np.concatenate([own.counts for own in several])
        return cls(tokens, counts, np.concatenate(accepted) if accepted else None)

    def expected(self, token: int) -> NDArray[np.int32]:
        """What is expected as one token of each word: int32 [n]; int32 [n, a] where several forms are accepted."""
        return np.maximum(self.tokens[:, token], 0) if self.accepted is None else self.accepted

    def take(self, rows: NDArray[np.int64]) -> "TokenSequences":
        """The words of some rows, in this order; the table keeps its width."""
        accepted = None if self.accepted is None else self.accepted[rows]
        return TokenSequences(self.tokens[rows], self.counts[rows], accepted)
