"""Words as sequences of tokens: one row a word, each with its own number of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NOTHING = -1
"""Stands in a table of tokens where a word has no token any more."""


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """The tokens of n words.

    Attributes:
        tokens: int32 [n, widest], the tokens of each word from left to right, then `NOTHING`.
        counts: int64 [n], how many tokens each word has; at least 1.
    """

    tokens: NDArray[np.int32]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def widest(self) -> int:
        """The largest number of tokens of a word."""
        return int(self.counts.max(initial=0))

    @classmethod
    def of(cls, words: Sequence[Sequence[int]]) -> "TokenSequences":
        """A table of the tokens of each word.

        Raises:
            ValueError: A word has no tokens.
        """
        counts = np.array([len(word) for word in words], np.int64)
        if len(counts) and counts.min() < 1:
            raise ValueError(f"word {int(counts.argmin())} has no tokens")
        tokens = np.full((len(words), int(counts.max(initial=0))), NOTHING, np.int32)
        for row, word in enumerate(words):
            tokens[row, : len(word)] = word
        return cls(tokens, counts)

    def take(self, rows: NDArray[np.int64]) -> "TokenSequences":
        """The words of some rows, in this order; the table keeps its width."""
        return TokenSequences(self.tokens[rows], self.counts[rows])
