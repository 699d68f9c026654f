"""Two outcomes of the same items, in two conditions or by two models: their difference, its interval, its test.

Items may come in clusters. The interval and the test are then for clusters: more items of the same clusters do not make
up for few clusters.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .clusters import ClusteredMean, cluster_sums, clustered_mean, crossed_mean, proportion_interval, student_interval
from .intervals import proportion
from .power import detectable
from .signs import sign_flips


@dataclass(frozen=True)
class Difference:
    """The mean of the first outcome minus that of the second.

    Attributes:
        value: The difference; of fractions if outcomes are true or false.
        low: Lower end of its 95 % interval; None where there is none.
        high: Upper end.
        p: Of the test by sign flips of clusters.
        n: Number of items.
        clusters: Number of clusters; of items if there are no clusters.
        detectable: The smallest true difference that such a test finds with a power of 80 %; None where that cannot be
            told.
    """

    value: float
    low: float | None
    high: float | None
    p: float
    n: int
    clusters: int
    detectable: float | None


def paired_difference(
    first: NDArray[np.bool_] | NDArray[np.float64],
    second: NDArray[np.bool_] | NDArray[np.float64],
    clusters: NDArray[np.integer] | None = None,
) -> Difference:
    """The difference of two outcomes of the same items.

    The interval of numbers is Student's for clusters. That of proportions combines the intervals of both sides
    (`combined`), so that it has a width where all items agree, and ends at 1. For independent items it is method 10 of
    Newcombe (1998, Statistics in Medicine 17, 2635-2650).

    Args:
        first: bool or float64 [n], one outcome of each item; at least one item.
        second: the other outcome of the same item.
        clusters: int [n], the cluster of each item, from 0; None if items are independent draws. The items of a single
            cluster are taken as independent draws from it.
    """
    alone = clusters is None or clusters.min() == clusters.max()
    labels = np.arange(len(first)) if alone or clusters is None else clusters
    sums, sizes = cluster_sums(first.astype(np.float64) - second.astype(np.float64), labels)
    mean = clustered_mean(sums, sizes)
    if first.dtype != np.bool_:
        low, high = student_interval(mean)
    elif mean.clusters == mean.n:
        low, high = _newcombe(first.astype(np.bool_), second.astype(np.bool_))
    else:
        sides = [clustered_mean(*cluster_sums(side, labels)) for side in (first, second)]
        low, high = _of_means(sides[0], sides[1], mean)
    return Difference(mean.value, low, high, sign_flips(sums), mean.n, mean.clusters, detectable(mean))


def crossed_interval(
    first: NDArray[np.bool_] | NDArray[np.float64],
    second: NDArray[np.bool_] | NDArray[np.float64],
    one: NDArray[np.integer],
    other: NDArray[np.integer],
) -> tuple[float | None, float | None]:
    """The 95 % interval of the difference of two outcomes of items that are in two clusters each.

    Args:
        first: bool or float64 [n], one outcome of each item.
        second: the other outcome of the same item.
        one: int [n], the cluster of one kind, from 0.
        other: int [n], the cluster of the other kind, from 0.
    """
    difference = crossed_mean(first.astype(np.float64) - second.astype(np.float64), one, other)
    if first.dtype != np.bool_:
        return student_interval(difference)
    return _of_means(crossed_mean(first, one, other), crossed_mean(second, one, other), difference)


def combined(
    first: tuple[float, float, float], second: tuple[float, float, float], correlation: float = 0.0
) -> tuple[float, float]:
    """The interval of the difference of two values, from the interval of each.

    Below, the distance is √(a² - 2 r a b + b²) with a = value - low of the first, b = high - value of the second, and r
    the correlation of the two estimates; above, with the other ends (Zou and Donner 2008, Statistics in Medicine 27,
    1693-1702).

    Args:
        first: value, low, high.
        second: value, low, high.
        correlation: of the two estimates; 0 for samples that are independent of each other.

    Returns:
        low, high.
    """
    one, one_low, one_high = first
    other, other_low, other_high = second
    difference = one - other
    below = _hypotenuse(one - one_low, other_high - other, correlation)
    above = _hypotenuse(one_high - one, other - other_low, correlation)
    return difference - below, difference + above


def _newcombe(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, float]:
    """The interval of independent items: Wilson's intervals, and the correlation φ of the outcomes."""
    n = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    phi = _correlation(both, only_first, only_second, neither)
    return combined(proportion(both + only_first, n), proportion(both + only_second, n), phi)


def _of_means(first: ClusteredMean, second: ClusteredMean, difference: ClusteredMean) -> tuple[float, float]:
    """The interval of a difference of proportions in clusters.

    The correlation of the two estimates follows from the variances: v(first) + v(second) - v(difference) is twice their
    covariance.
    """
    scale = sqrt(first.variance * second.variance)
    covariance = (first.variance + second.variance - difference.variance) / 2
    correlation = min(max(covariance / scale, -1.0), 1.0) if scale > 0 else 0.0
    return combined(_with_interval(first), _with_interval(second), correlation)


def _with_interval(mean: ClusteredMean) -> tuple[float, float, float]:
    return mean.value, *proportion_interval(mean)


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
