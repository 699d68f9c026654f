"""Differences: of two outcomes of the same items, in two conditions or by two models; and of two groups of items.

Items may come in clusters. The interval of numbers is Student's; that of proportions combines the intervals of both
sides (`combined`), so that it has a width where all items agree, and ends at 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from .clusters import ClusteredMean, cluster_sums, clustered_mean, crossed_mean, proportion_interval, student_interval
from .intervals import CONFIDENCE, UPPER, Ends, proportion, student_quantile, within
from .p_values import sign_flips, smallest_p, student_p

POWER = 0.8
Outcomes = NDArray[np.bool_] | NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The mean of the first outcome, or group, minus that of the second."""

    value: float  # of fractions if outcomes are true or false
    low: float | None  # of the 95 % interval; None where there is none
    high: float | None
    n: int
    clusters: int  # their number; that of the items if there are no clusters


@dataclass(frozen=True)
class PairedDifference(Difference):
    """The same of the same items, with its test."""

    p: float  # by sign flips of clusters; with clusters of two kinds the largest one of three tests
    least: float  # the smallest p that sign flips of the clusters that differ can give
    detectable: float | None  # the smallest true difference found with a power of 80 %; None where that cannot be told
    crossed: int | None = None  # how many clusters of a second kind interval and p allow for, too


def paired_difference(
    first: Outcomes,
    second: Outcomes,
    clusters: NDArray[np.integer] | None = None,
    crossed: NDArray[np.integer] | None = None,
    *,
    range_: tuple[float, float] = (-inf, inf),
) -> PairedDifference:
    """The difference of two outcomes, bool or float64 [n], of the same items; at least one item.

    For independent items that are right or wrong the interval is method 10 of Newcombe (1998, Statistics in Medicine
    17, 2635-2650). Clusters are int [n], from 0; None if items are independent draws. Several items of a single
    cluster have a p of 1, and those of few clusters no interval: they do not show how clusters differ. `range_` is what
    the difference of numbers can be.

    `crossed` has the clusters of a second kind, such as verbs beside pairs. The interval then allows for both, and p is
    the largest one of three: sign flips of either kind, which keep their level where few clusters differ, and Student's
    test with the variance of both, which keeps it where both kinds matter.
    """
    labels = np.arange(len(first)) if clusters is None else clusters
    range_ = (-1.0, 1.0) if first.dtype == np.bool_ else range_
    differences = first.astype(np.float64) - second.astype(np.float64)
    sums, sizes = cluster_sums(differences, labels)
    mean, p, least = clustered_mean(sums, sizes), sign_flips(sums), smallest_p(int(np.count_nonzero(sums)))
    if crossed is not None and min(mean.clusters, kinds := len(np.unique(crossed))) < mean.n:
        if min(mean.clusters, kinds) < 2:
            return PairedDifference(mean.value, None, None, mean.n, mean.clusters, 1.0, 1.0, None, kinds)
        both, others = crossed_mean(differences, labels, crossed), cluster_sums(differences, crossed)[0]
        ends = _interval(first, second, lambda values: crossed_mean(values, labels, crossed))
        p = max(p, sign_flips(others), student_p(both.value, both.standard_error, both.freedom))
        least = max(least, smallest_p(int(np.count_nonzero(others))))
        each = [detectable(both, own, range_[1]) for own in (sums, others)]
        finds = None if None in each else max(own for own in each if own is not None)
        return PairedDifference(mean.value, *within(ends, *range_), mean.n, mean.clusters, p, least, finds, kinds)
    if first.dtype == np.bool_ and mean.clusters == mean.n:
        ends = _newcombe(first.astype(np.bool_), second.astype(np.bool_))
    else:
        ends = _interval(first, second, lambda values: clustered_mean(*cluster_sums(values, labels)))
    ends = within(ends, *range_)
    return PairedDifference(mean.value, *ends, mean.n, mean.clusters, p, least, detectable(mean, sums, range_[1]))


def detectable(mean: ClusteredMean, sums: NDArray[np.float64], largest: float) -> float | None:
    """The smallest true difference, in the unit of the mean, that a two-sided test at 5 % finds with a power of 80 %.

    `sums` [clusters] are those of the differences within clusters. It is (t(1 - α / 2) + t(power)) · √v, with Student's
    quantiles of the variance's degrees of freedom (Bloom 1995, Evaluation Review 19, 547-556).

    Where few clusters differ, that is too small: for a p below 5 % the test by sign flips needs six clusters that
    differ, all in one direction. If each of c clusters differs with the probability π, six do with the probability
    I(π; 6, c - 5), the regularised incomplete beta function. With the π for which that is the power, c · π times the
    mean size of a sum that differs is a total that is found. None where nothing varies, there are fewer than six, or
    a difference is never so large: at most `largest`.
    """
    from scipy import special  # noqa: PLC0415 - takes long to import

    needed = next(number for number in count(1) if smallest_p(number) <= 1 - CONFIDENCE)
    differing = np.abs(sums[sums != 0])
    if len(sums) < needed or not mean.variance > 0 or not len(differing):
        return None
    found = (student_quantile(mean.freedom, UPPER) + student_quantile(mean.freedom, POWER)) * mean.standard_error
    differ = len(sums) * float(special.betaincinv(needed, len(sums) - needed + 1, POWER))
    found = found if len(differing) >= differ else max(found, differ * float(differing.mean()) / mean.n)
    return found if found <= largest else None


def _interval(first: Outcomes, second: Outcomes, mean_of: Callable[[Outcomes], ClusteredMean]) -> Ends:
    difference = mean_of(first.astype(np.float64) - second.astype(np.float64))
    if first.dtype != np.bool_:
        return student_interval(difference)
    sides = mean_of(first), mean_of(second)
    covariance = (sides[0].variance + sides[1].variance - difference.variance) / 2
    return _of_proportions(sides, covariance, lambda mean: (mean.value, *proportion_interval(mean)))


def combined(first: tuple[float, *Ends], second: tuple[float, *Ends], correlation: float = 0.0) -> Ends:
    """The interval (low, high) of the difference of two values, from value, low and high of each.

    Below, the distance is √(a² - 2 r a b + b²) with a = value - low of the first, b = high - value of the second, and r
    the correlation of the two estimates (0 for independent samples); above, with the other ends (Zou and Donner 2008,
    Statistics in Medicine 27, 1693-1702). None and None where one of the values has no interval.
    """
    one, one_low, one_high = first
    other, other_low, other_high = second
    if one_low is None or one_high is None or other_low is None or other_high is None:
        return None, None
    difference = one - other
    lengths = ((one - one_low, other_high - other), (one_high - one, other - other_low))
    below, above = (sqrt(max(0.0, a**2 - 2 * correlation * a * b + b**2)) for a, b in lengths)
    return difference - below, difference + above


def _of_proportions(
    sides: tuple[ClusteredMean, ClusteredMean],
    covariance: float,
    interval_of: Callable[[ClusteredMean], tuple[float, *Ends]],
) -> Ends:
    first, second = sides
    scale = sqrt(first.variance * second.variance)
    correlation = min(max(covariance / scale, -1.0), 1.0) if scale > 0 else 0.0
    return combined(interval_of(first), interval_of(second), correlation)


def _newcombe(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Ends:
    """The interval of independent items: Wilson's intervals, and φ, corrected for continuity if positive."""
    n = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    determinant = float(both * neither - only_first * only_second)
    if determinant > 0:
        determinant = max(determinant - n / 2, 0.0)
    phi = determinant / sqrt(margins) if margins else 0.0  # an outcome that is the same for all items has none
    return combined(proportion(both + only_first, n), proportion(both + only_second, n), phi)


def unpaired_difference(
    first: Outcomes, second: Outcomes, clusters: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None
) -> Difference:
    """The difference of the means of two groups, bool or float64 [n] and [m], with its interval.

    The variance of the difference is v(first) + v(second) - 2 c, where c is the covariance of the two means. c is not 0
    where clusters have items in both groups: with z_i as in `clusters`, and n and m items,

        c = Σ z_i(first) · z_i(second) / (n · m)

    The degrees of freedom are those of Welch and Satterthwaite (Welch 1947, Biometrika 34, 28-35) where no cluster is
    in both groups, else the smaller ones of the two means. For independent items the interval of proportions is method
    10 of Newcombe (1998, Statistics in Medicine 17, 873-890). Clusters are int [n] and int [m], from 0; one number is
    one cluster in both groups. None if items are independent draws. A group of few clusters has no interval.
    """
    groups = [first.astype(np.float64), second.astype(np.float64)]
    if clusters is None:
        clusters = (np.arange(len(first)), len(first) + np.arange(len(second)))
    size = 1 + max(int(own.max()) for own in clusters)
    sums = [np.bincount(own, values, size) for own, values in zip(clusters, groups, strict=True)]
    sizes = [np.bincount(own, minlength=size) for own in clusters]
    one, other = (clustered_mean(total[n > 0], n[n > 0]) for total, n in zip(sums, sizes, strict=True))
    both = (sizes[0] > 0) & (sizes[1] > 0)
    every = int((sizes[0] + sizes[1] > 0).sum())
    covariance, value, n = 0.0, one.value - other.value, one.n + other.n
    if min(one.clusters, other.clusters) > 1:
        corrected = [
            (total - mean.value * size)[both] / np.sqrt(1 - size[both] / mean.n) / mean.n
            for total, size, mean in zip(sums, sizes, (one, other), strict=True)
        ]
        covariance = float(corrected[0] @ corrected[1])
    if first.dtype == np.bool_:

        def of_group(mean: ClusteredMean) -> tuple[float, *Ends]:
            if mean.clusters == mean.n:
                return proportion(round(mean.value * mean.n), mean.n)
            return mean.value, *proportion_interval(mean)

        return Difference(value, *_of_proportions((one, other), covariance, of_group), n, every)
    if not (one.shows_variation and other.shows_variation):
        return Difference(value, None, None, n, every)
    freedom = min(one.freedom, other.freedom)
    if not both.any() and freedom > 0:
        below = one.variance**2 / one.freedom + other.variance**2 / other.freedom
        freedom = (one.variance + other.variance) ** 2 / below if below > 0 else freedom
    variance = one.variance + other.variance - 2 * covariance
    # As many draws as clusters: each group has been found to show how they differ.
    spread = ClusteredMean(value, every, every, variance, freedom, every)
    return Difference(value, *student_interval(spread), n, every)
