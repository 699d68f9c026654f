"""Lazy selection: test a pair's verbs in the order in which they would be kept, and stop once enough repeat.

Testing the verbs by ascending key and stopping at the 20th that repeats gives the same triplets as testing all of them.
Pairs advance together, in rounds, so that batches stay full. How many verbs repeat in all is then an estimate. Of a
pair that reached its k-th repetition in the n-th test, out of V verbs, Haldane's estimator (1945, Biometrika 33,
222-225) is unbiased, also without replacement:

    R = V (k - 1) / (n - 1)        var R = V² p (1 - p) / (n - 2) · (1 - (n - 1) / V),   p = (k - 1) / (n - 1)

The variance is unbiased, too, if 0/0 stands for 1 in R where k = n = 1, and in var R for 0, except where n = 2 and
k = 1: there p (1 - p) / (n - 2) stands for 1. The estimator also counts where the last verb of a pair was tested: the
exact count only there would add a bias. A pair with fewer than k repeating verbs is counted exactly.

With k = 1, all that a pair tells is its first verb. These are draws from different pairs, so their number is more
certain than a binomial one (Hoeffding 1956, Annals of Mathematical Statistics 27, 713-721), whose interval is used.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...statistics.intervals import exact_proportion_interval

# Share of the tests that a pair is expected to need which its next round makes. A smaller share gives more and smaller
# rounds; a larger one tests verbs that are not needed.
_ROUND = 0.8


@dataclass(frozen=True, eq=False)
class LazyRepeats:
    """The results of lazy tests, each [pairs]."""

    tested: NDArray[np.int64]  # how many verbs
    repeating: NDArray[np.float64]  # how many of all verbs: an estimate for pairs that have enough, else exact
    variance: NDArray[np.float64]  # of that estimate
    stopped: NDArray[np.bool_]  # the pair has enough, so its number is an estimate


def first_repeating(
    order: NDArray[np.int64],
    enough: int,
    decide: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]],
    advance: Callable[[int], None] = lambda _: None,
) -> LazyRepeats:
    """Test each pair's verbs in order ([pairs, verbs], by ascending key) until enough of them repeat.

    `decide` gets pairs and verbs, and says which repeat. After each round, `advance` gets the number of newly found
    verbs; the sum is pairs × `enough` at the end.
    """
    pairs, verbs = order.shape
    in_order = np.zeros((pairs, verbs), np.bool_)
    tested, found = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    told = 0
    while len(active := np.flatnonzero((found < enough) & (tested < verbs))):
        lacking = enough - found[active]
        rate = (found[active] + 1) / (tested[active] + 1)  # 1 at first: no needless test before anything is known
        step = np.maximum(lacking, np.ceil(_ROUND * lacking / rate)).astype(np.int64)
        step = np.minimum(step, verbs - tested[active])
        pair = np.repeat(active, step)
        position = np.arange(len(pair)) - np.repeat(np.cumsum(step) - step, step) + tested[pair]
        in_order[pair, position] = decide(pair, order[pair, position])
        tested[active] += step
        found[active] = in_order[active].sum(axis=1)
        so_far = int(np.where(tested < verbs, np.minimum(found, enough), enough).sum())
        advance(so_far - told)
        told = so_far
    repeating, variance = _estimate(in_order, enough)
    return LazyRepeats(tested, repeating, variance, found >= enough)


def share_interval(share: float, variance: float, pairs: int, stopped: int, enough: int) -> tuple[float, float]:
    """The 95 % interval of the share of candidates that repeat; it has no width where no pair's count is estimated.

    It is Clopper and Pearson's, for as many independent candidates as have the variance of the estimate: the sum over
    pairs is not normal for few pairs or extreme shares, and its variance is sometimes estimated as 0.
    """
    if not stopped:
        return share, share
    known = enough > 1 and variance > 0 and 0 < share < 1
    independent = share * (1 - share) / variance if known else pairs
    low, high = exact_proportion_interval(min(share, 1.0), max(independent, 1.0))
    return low, high


def _estimate(in_order: NDArray[np.bool_], enough: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Haldane's estimate and its variance for pairs that have enough; the exact count for the others."""
    verbs = in_order.shape[1]
    counts = in_order.sum(axis=1)
    # A round may have gone on beyond the k-th repetition: the estimator counts the tests up to it.
    n = (in_order.cumsum(axis=1) < enough).sum(axis=1) + 1
    p = np.where(n > 1, (enough - 1) / np.maximum(n - 1, 1), 1.0)
    spread = np.where(n > 2, p * (1 - p) / np.maximum(n - 2, 1), (n == 2) & (enough == 1))
    reached = counts >= enough
    repeating = np.where(reached, verbs * p, counts)
    variance = np.where(reached, verbs**2 * spread * (1 - (n - 1) / verbs), 0.0)
    return repeating.astype(np.float64), variance.astype(np.float64)
