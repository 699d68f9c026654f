"""The difference of two groups of items: of the affirmative and the negated sentences, say, that are not pairs."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .clusters import ClusteredMean, clustered_mean, proportion_interval, student_interval
from .intervals import proportion
from .paired import combined


@dataclass(frozen=True)
class Unpaired:
    """The mean of the first group minus that of the second.

    Attributes:
        value: The difference; of fractions if outcomes are true or false.
        low: Lower end of its 95 % interval; None where there is none.
        high: Upper end.
        n: Number of items of both groups.
        clusters: Number of clusters; of items if there are no clusters.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int


def unpaired_difference(
    first: NDArray[np.bool_] | NDArray[np.float64],
    second: NDArray[np.bool_] | NDArray[np.float64],
    clusters: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None,
) -> Unpaired:
    """The difference of the means of two groups, with its interval.

    The variance of the difference is v(first) + v(second) - 2 c, where c is the covariance of the two means. c is not 0
    where clusters have items in both groups: with u_i as in `clusters`, k clusters in all, and n and m items,

        c = k / (k - 1) · Σ u_i(first) · u_i(second) / (n · m)

    The degrees of freedom are those of Welch and Satterthwaite (Welch 1947, Biometrika 34, 28-35) where no cluster is
    in both groups, else the smaller ones of the two means. The interval of numbers is Student's; that of proportions
    combines the intervals of both groups (`combined`), for independent items method 10 of Newcombe (1998, Statistics in
    Medicine 17, 873-890).

    Args:
        first: bool or float64 [n], the outcomes of one group; at least one.
        second: the same of the other group.
        clusters: int [n] and int [m], the cluster of each item, from 0; one number is one cluster in both groups. None
            if items are independent draws.
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
