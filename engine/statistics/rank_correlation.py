"""Spearman's rank correlation of two models' scores, or of one model's scores for two sentences, row by row."""

import math

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]


def spearman(first: Scores, second: Scores) -> NDArray[np.float64]:
    """Spearman's rank correlation of each row with its counterpart: float32 [n, m] → float64 [n].

    Ties have their mean rank; NaN where all values of a row are equal.
    """
    middle = (first.shape[1] + 1) / 2
    correlation = np.empty(len(first))
    for row, (scores, others) in enumerate(zip(first, second, strict=True)):
        one, other = mean_ranks(scores) - middle, mean_ranks(others) - middle
        # Not `@`, whose own threads would take the cores of other batches. Ranks are halves, so the sums are exact.
        together, spread, other_spread = (
            np.einsum("i,i->", *pair) for pair in ((one, other), (one, one), (other, other))
        )
        both = math.sqrt(spread * other_spread)
        correlation[row] = together / both if both else math.nan
    return correlation


def mean_ranks(scores: Scores) -> NDArray[np.float64]:
    """The rank of each value from the lowest one, 1, up; equal values have the mean of their ranks, float64 [m].

    The same numbers as `scipy.stats.rankdata`, in a quarter of the time: only few values are equal.
    """
    order = ascending(scores)
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    values = scores[order]
    like_next = np.flatnonzero(values[:-1] == values[1:])
    if len(like_next):
        begins = np.flatnonzero(np.diff(like_next, prepend=-2) != 1)
        first = like_next[begins]
        last = like_next[np.append(begins[1:], len(like_next)) - 1] + 1
        sizes = last - first + 1
        equal = np.repeat(first, sizes) + np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        ranks[order[equal]] = np.repeat((first + last) / 2 + 1, sizes)
    return ranks


def ascending(scores: Scores) -> NDArray[np.int64]:
    """The positions of values from the lowest to the highest one, int64 [m]; of equal ones the first position first.

    The bits of floating-point numbers of one sign have their order, and NumPy sorts whole numbers of 16 bits by
    counting: two such sorts of 30,522 values take 0.5 ms on an AMD EPYC, where `argsort` takes 1.2 ms.
    """
    bits = (scores + np.float32(0)).view(np.uint32)  # -0 is 0
    negative = (bits.view(np.int32) >> 31).view(np.uint32)
    keys = bits ^ (negative | np.uint32(1 << 31))
    by_last_bits = np.argsort(keys.astype(np.uint16), kind="stable")
    first_bits = (keys >> np.uint32(16)).astype(np.uint16)[by_last_bits]
    order: NDArray[np.int64] = by_last_bits[np.argsort(first_bits, kind="stable")]
    return order
