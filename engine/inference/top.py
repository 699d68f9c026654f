"""The tokens with the highest logits."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_FEW = 16  # up to so many tokens, repeated maxima are faster than a partition of the vocabulary


def top_tokens(
    logits: NDArray[np.float32], k: int, excluded: Sequence[int] | NDArray[np.integer] = ()
) -> NDArray[np.int64]:
    """The k tokens with the highest logits of each sentence, the highest first; of equal ones the smaller id first.

    Args:
        logits: float32 [n, V].
        k: How many tokens; at most V minus the excluded ones.
        excluded: Ids that are not ranked, such as those of special tokens.

    Returns:
        Token ids, int64 [n, k].

    Raises:
        ValueError: There are fewer than k tokens to rank.
    """
    excluded = np.unique(np.asarray(excluded, np.int64))
    if not 0 <= k <= logits.shape[1] - len(excluded):
        raise ValueError(f"{k} tokens wanted, of {logits.shape[1]} with {len(excluded)} excluded")
    ranked = logits.copy()
    ranked[:, excluded] = -np.inf
    return _by_maxima(ranked, k) if k <= _FEW else _by_partition(ranked, k)


def _by_maxima(logits: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The k highest of each row; overwrites them."""
    rows, best = np.arange(len(logits)), np.empty((len(logits), k), np.int64)
    for i in range(k):
        best[:, i] = logits.argmax(axis=1)  # the first of equal ones
        logits[rows, best[:, i]] = -np.inf
    return best


def _by_partition(logits: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The k highest of each row: all that are not below the last one wanted, stably sorted."""
    best = np.empty((len(logits), k), np.int64)
    for row, own in enumerate(logits):
        candidates = np.flatnonzero(own >= np.partition(own, -k)[-k])
        best[row] = candidates[np.argsort(-own[candidates], kind="stable")[:k]]
    return best
