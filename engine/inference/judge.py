"""What the logits at masks say: the best tokens, and the rank and log-probability of others. It is computed here alone.

Log-probabilities are natural logarithms, computed in double precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Tokens = NDArray[np.integer]
_FEW = 16  # up to so many tokens, repeated maxima are faster than a partition of the vocabulary


@dataclass(frozen=True, eq=False)
class Judged:
    """What the logits of n masks say of m tokens, each at one of the masks."""

    top: NDArray[np.int64]  # [n, k], the best tokens: the highest logit first, then the smaller id
    top_logprob: NDArray[np.float64]  # [n, k]
    rank: NDArray[np.int32]  # [m], 1 + the number of ranked tokens with a larger logit
    logprob: NDArray[np.float64]  # [m]


def judge(
    logits: Logits,
    k: int,
    place: NDArray[np.int64],
    tokens: Tokens,
    ranked: Tokens | None = None,
    *,
    among_ranked: bool = False,
) -> Judged:
    """Judge `tokens` [m], each at the mask `place` [m], and find the k best tokens, from logits float32 [n, V].

    `ranked` are the tokens that compete for ranks and first choices, ascending; None stands for all. `among_ranked`:
    they also compete for probability, else the whole vocabulary does.
    """
    kept = logits if ranked is None else logits[:, ranked]
    first, total = _normal(kept if among_ranked else logits)
    best = top_tokens(kept, k)
    chances = np.take_along_axis(kept, best, axis=1).astype(np.float64)
    own = logits[place, tokens]
    return Judged(
        best if ranked is None else ranked[best].astype(np.int64),
        chances - first[:, None] - total[:, None],
        (1 + (kept[place] > own[:, None]).sum(axis=1)).astype(np.int32),
        own.astype(np.float64) - first[place] - total[place],
    )


def _normal(logits: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each row its largest logit, and the logarithm of the sum of exponentials of what the others are below it."""
    exact = logits.astype(np.float64)
    first = exact.max(axis=1)
    exact -= first[:, None]
    return first, np.log(np.exp(exact, out=exact).sum(axis=1))


def log_sum_exp(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """The logarithm of the sum of exponentials of each row, float64 [n]."""
    first, total = _normal(logits)
    return first + total


def log_softmax(logits: Logits) -> NDArray[np.float64]:
    """The log-probabilities of all tokens, over the last axis."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def logprobs_of(logits: Logits, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """The log-probabilities of some tokens, int64 [n, k]; one row at a time in double precision."""
    return np.array([log_softmax(own)[some] for own, some in zip(logits, tokens, strict=True)])


def top_tokens(logits: NDArray[np.floating], k: int, excluded: Sequence[int] | Tokens = ()) -> NDArray[np.int64]:
    """The k tokens with the highest logits of each sentence, int64 [n, k]: the highest first, then the smaller id."""
    excluded = np.unique(np.asarray(excluded, np.int64))
    if not 0 <= k <= logits.shape[1] - len(excluded):
        raise ValueError(f"{k} tokens wanted, of {logits.shape[1]} with {len(excluded)} excluded")
    ranked = logits.copy()
    ranked[:, excluded] = -np.inf
    best = np.empty((len(logits), k), np.int64)
    if k <= _FEW:
        rows = np.arange(len(logits))
        for i in range(k):
            best[:, i] = ranked.argmax(axis=1)  # the first of equal ones
            ranked[rows, best[:, i]] = -np.inf
        return best
    for row, own in enumerate(ranked):
        candidates = np.flatnonzero(own >= np.partition(own, -k)[-k])
        best[row] = candidates[np.argsort(-own[candidates], kind="stable")[:k]]
    return best
