"""Differences: of two outcomes of the same items, in two conditions or by two models; and of two groups of items.

Items may come in clusters. The interval and the test are then for clusters: more items of the same clusters do not make
up for few clusters.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .clusters import ClusteredMean, cluster_sums, clustered_mean, crossed_mean, proportion_interval, student_interval
from .intervals import proportion
from .p_values import sign_flips
from .power import detectable


@dataclass(frozen=True)
class Difference:
    """The mean of the first outcome minus that of the second."""

    value: float  # the difference; of fractions if outcomes are true or false
    low: float | None  # of the 95 % interval; None where there is none
    high: float | None
    p: float
    n: int
    clusters: int  # their number; that of the items if there are no clusters
    detectable: float | None  # the smallest true difference found with a power of 80 %; None where that cannot be told


def paired_difference(
    first: NDArray[np.bool_] | NDArray[np.float64],
    second: NDArray[np.bool_] | NDArray[np.float64],
    clusters: NDArray[np.integer] | None = None,
) -> Difference:
    """The difference of two outcomes, bool or float64 [n], of the same items; at least one item.

    The interval of numbers is Student's for clusters. That of proportions combines the intervals of both sides
    (`combined`), so that it has a width where all items agree, and ends at 1. For independent items it is method 10 of
    Newcombe (1998, Statistics in Medicine 17, 2635-2650).

    Clusters are int [n], from 0; None if items are independent draws. The items of a single cluster are taken as
    independent draws from it.
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

    Outcomes are bool or float64 [n]; `one` and `other` are the clusters of each kind: int [n], from 0.
    """
    difference = crossed_mean(first.astype(np.float64) - second.astype(np.float64), one, other)
    if first.dtype != np.bool_:
        return student_interval(difference)
    return _of_means(crossed_mean(first, one, other), crossed_mean(second, one, other), difference)


def combined(
    first: tuple[float, float, float], second: tuple[float, float, float], correlation: float = 0.0
) -> tuple[float, float]:
    """The interval (low, high) of the difference of two values, from value, low and high of each.

    Below, the distance is √(a² - 2 r a b + b²) with a = value - low of the first, b = high - value of the second, and r
    the correlation of the two estimates (0 for independent samples); above, with the other ends (Zou and Donner 2008,
    Statistics in Medicine 27, 1693-1702).
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


@dataclass(frozen=True)
class Unpaired:
    """The mean of the first group minus that of the second."""

    value: float  # the difference; of fractions if outcomes are true or false
    low: float | None  # of the 95 % interval; None where there is none
    high: float | None
    n: int
    clusters: int  # their number; that of the items if there are no clusters


def unpaired_difference(
    first: NDArray[np.bool_] | NDArray[np.float64],
    second: NDArray[np.bool_] | NDArray[np.float64],
    clusters: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None,
) -> Unpaired:
    """The difference of the means of two groups, bool or float64 [n] and [m], with its interval.

    The variance of the difference is v(first) + v(second) - 2 c, where c is the covariance of the two means. c is not 0
    where clusters have items in both groups: with u_i as in `clusters`, k clusters in all, and n and m items,

        c = k / (k - 1) · Σ u_i(first) · u_i(second) / (n · m)

    The degrees of freedom are those of Welch and Satterthwaite (Welch 1947, Biometrika 34, 28-35) where no cluster is
    in both groups, else the smaller ones of the two means. The interval of numbers is Student's; that of proportions
    combines the intervals of both groups (`combined`), for independent items method 10 of Newcombe (1998, Statistics in
    Medicine 17, 873-890).

    Clusters are int [n] and int [m], from 0; one number is one cluster in both groups. None if items are independent
    draws.
    """
    groups = [first.astype(np.float64), second.astype(np.float64)]
    if clusters is None:
        clusters = (np.arange(len(first)), len(first) + np.arange(len(second)))
    size = 1 + max(int(own.max()) for own in clusters)
    sums = [np.bincount(own, values, size) for own, values in zip(clusters, groups, strict=True)]
    sizes = [np.bincount(own, minlength=size) for own in clusters]
    means = [clustered_mean(total[n > 0], n[n > 0]) for total, n in zip(sums, sizes, strict=True)]
    deviations = [total - mean.value * n for total, n, mean in zip(sums, sizes, means, strict=True)]
    every, shared = int(((sizes[0] + sizes[1]) > 0).sum()), bool(((sizes[0] > 0) & (sizes[1] > 0)).any())
    covariance = _covariance(deviations, every) / (means[0].n * means[1].n) if shared else 0.0
    value, n = means[0].value - means[1].value, means[0].n + means[1].n
    if first.dtype == np.bool_:
        scale = sqrt(means[0].variance * means[1].variance) if shared else 0.0
        correlation = min(max(covariance / scale, -1.0), 1.0) if scale > 0 else 0.0
        low, high = combined(_proportion(means[0]), _proportion(means[1]), correlation)
        return Unpaired(value, low, high, n, every)
    variance = means[0].variance + means[1].variance - 2 * covariance
    spread = ClusteredMean(value, n, min(mean.clusters for mean in means), variance, _freedom(means, shared=shared))
    return Unpaired(value, *student_interval(spread), n, every)


def _covariance(deviations: list[NDArray[np.float64]], clusters: int) -> float:
    return clusters / (clusters - 1) * float(deviations[0] @ deviations[1]) if clusters > 1 else 0.0


def _proportion(mean: ClusteredMean) -> tuple[float, float, float]:
    if mean.clusters == mean.n:
        return proportion(round(mean.value * mean.n), mean.n)
    return mean.value, *proportion_interval(mean)


def _freedom(means: list[ClusteredMean], *, shared: bool) -> float:
    if shared or min(mean.clusters for mean in means) < 2:
        return min(mean.freedom for mean in means)
    parts = [mean.variance for mean in means]
    below = sum(part**2 / mean.freedom for part, mean in zip(parts, means, strict=True))
    return sum(parts) ** 2 / below if below > 0 else min(mean.freedom for mean in means)
