"""Intervals and paired tests over the items of a probe, from SciPy.

The items are taken as independent draws, unless groups are given: facts of one relation share a template, draws of one
item share its words. What is paired is two outcomes of one item: in two conditions, or by two models.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
FEWEST_GROUPS = 5  # fewer say next to nothing of how groups differ, and a bootstrap over them would seem to know it
_RESAMPLES = 2_000


def proportion(successes: int, n: int) -> tuple[float, float, float]:
    """A fraction with its 95 % interval after Wilson (1927).

    Args:
        successes: how many of the items.
        n: how many items; at least one.

    Returns:
        value, low, high.
    """
    interval = stats.binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson")
    return successes / n, float(interval.low), float(interval.high)


def mean(values: NDArray[np.float64]) -> tuple[float, float | None, float | None]:
    """A mean with Student's 95 % interval; no interval for a single value.

    Args:
        values: float64 [n], without NaN; at least one.

    Returns:
        value, low, high.
    """
    value = float(np.mean(values))
    if len(values) < 2:
        return value, None, None
    if np.ptp(values) == 0:
        return value, value, value
    interval = stats.ttest_1samp(values, 0).confidence_interval(CONFIDENCE)
    return value, float(interval.low), float(interval.high)


def grouped_mean(
    values: NDArray[np.float64], groups: NDArray[np.int64], seed: int = 0
) -> tuple[float, float | None, float | None]:
    """The mean of values that come in groups, with a 95 % percentile interval from a bootstrap over the groups.

    The mean of groups of random size has no closed form. There is no interval for fewer than `FEWEST_GROUPS`.

    Args:
        values: float64 [n], without NaN.
        groups: int64 [n], the group of each value.
        seed: of the resampling.

    Returns:
        value, low, high.
    """
    _, index = np.unique(groups, return_inverse=True)
    sums, sizes = np.bincount(index, values), np.bincount(index).astype(np.float64)
    value = float(sums.sum() / sizes.sum())
    if len(sums) < FEWEST_GROUPS:
        return value, None, None
    drawn = stats.bootstrap(
        (sums, sizes),
        lambda sums, sizes, axis: sums.sum(axis=axis) / sizes.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(seed),
    )
    return value, float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """The p of McNemar's exact test: do the items whose two outcomes differ divide evenly? 1 if none does.

    Args:
        first: bool [n], one outcome of each item.
        second: bool [n], the other outcome of the same item.
    """
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def wilcoxon(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The p of Wilcoxon's signed-rank test: are the differences symmetric about zero? 1 if there are none.

    Args:
        first: float64 [n], one value of each item.
        second: float64 [n], the other value of the same item.
    """
    if np.array_equal(first, second):
        return 1.0
    return float(stats.wilcoxon(first, second).pvalue)


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """p-values adjusted for their number (Holm 1979, Scandinavian Journal of Statistics 6, 65-70).

    In ascending order the i-th of m is multiplied by m - i + 1; none may be below the one before, nor above 1.
    SciPy has no such function.
    """
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return adjusted
