"""Two outcomes of the same items, in two conditions or by two models: their difference, and tests of it."""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .intervals import proportion


def paired_difference(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, float, float]:
    """The difference of two proportions of the same items, with its 95 % interval.

    The interval is from Newcombe (1998, Statistics in Medicine 17, 2635-2650), method 10: Wilson's intervals of the
    two proportions are combined, with the correlation φ of the outcomes (corrected for continuity). Student's interval
    of the differences has zero width where all differences are equal; this one has not.

    Args:
        first: bool [n], one outcome of each item; at least one item.
        second: bool [n], the other outcome of the same item.

    Returns:
        share of `first` minus share of `second`, low, high; fractions.
    """
    n = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    one, one_low, one_high = proportion(both + only_first, n)
    other, other_low, other_high = proportion(both + only_second, n)
    phi = _correlation(both, only_first, only_second, neither)
    difference = (only_first - only_second) / n  # one - other, rounded once
    below = _hypotenuse(one - one_low, other_high - other, phi)
    above = _hypotenuse(one_high - one, other - other_low, phi)
    return difference, difference - below, difference + above


def _correlation(both: int, only_first: int, only_second: int, neither: int) -> float:
    """φ of a fourfold table, corrected for continuity if positive; 0 where an outcome is the same for all items."""
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    if margins == 0:
        return 0.0
    determinant = float(both * neither - only_first * only_second)
    if determinant > 0:
        determinant = max(determinant - (both + only_first + only_second + neither) / 2, 0.0)
    return determinant / sqrt(margins)


def _hypotenuse(one: float, other: float, correlation: float) -> float:
    return sqrt(max(0.0, one**2 - 2 * correlation * one * other + other**2))


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """The p of McNemar's exact test: are the two kinds of items whose outcomes differ equally frequent?

    Args:
        first: bool [n], one outcome of each item.
        second: bool [n], the other outcome of the same item.

    Returns:
        p, two-sided; 1 if no item's outcomes differ.
    """
    from scipy import stats  # noqa: PLC0415 - takes long to import

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def wilcoxon(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The p of Wilcoxon's signed-rank test: are the differences symmetric about zero?

    Args:
        first: float64 [n], one value of each item.
        second: float64 [n], the other value of the same item.

    Returns:
        p, two-sided; 1 if there are no differences.
    """
    from scipy import stats  # noqa: PLC0415 - takes long to import

    if np.array_equal(first, second):
        return 1.0
    return float(stats.wilcoxon(first, second).pvalue)
