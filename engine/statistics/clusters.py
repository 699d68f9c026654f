"""The mean of observations that come in clusters, such as the triplets of one name and profession.

Observations of one cluster resemble each other, so they are not independent draws. The variance of their mean m is the
linearised variance of a ratio (Cochran 1977, Sampling Techniques, section 6.3):

    v = c / (c - 1) · Σ u_i² / n²,      u_i = (sum of cluster i) - m · (size of cluster i)

where c is the number of clusters and n the number of observations. Two ways of clustering that cross, such as pairs and
verbs, are added up (Cameron, Gelbach and Miller 2011, Journal of Business & Economic Statistics 29, 238-249):

    v = v(first) + v(second) - v(first and second together)

That sum can fall below one of the first two; the largest of the three counts.

v is an estimate too. Its degrees of freedom are Satterthwaite's (1946, Biometrics Bulletin 2, 110-114) with the
variance of v from the kurtosis k of the u_i, and at most c - 1:

    d = 2 c / (k - 1),      k = c · Σ u_i⁴ / (Σ u_i²)²

Where few clusters have any success, k is large and d is near 2 · (the number of those clusters): they alone tell how
clusters differ, however many others there are.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .intervals import UPPER, exact_proportion_interval, student_quantile


@dataclass(frozen=True)
class ClusteredMean:
    """A mean, and how far it may be from the truth."""

    value: float
    n: int
    clusters: int  # the smaller number of two crossed kinds
    variance: float  # of the mean; NaN for a single cluster, which shows no variation between clusters
    freedom: float  # degrees of freedom of the variance; 0 for a single cluster

    @property
    def standard_error(self) -> float:
        return sqrt(self.variance)

    @property
    def design_effect(self) -> float | None:
        """The variance of a proportion as a multiple of that of n independent draws (Kish 1965).

        None where it cannot be told: for a single cluster, one observation, or a proportion of 0 or 1.
        """
        independent = self.value * (1 - self.value) / (self.n - 1) if self.n > 1 else 0.0
        return self.variance / independent if independent > 0 and self.clusters > 1 else None


def clustered_mean(sums: NDArray[np.number], sizes: NDArray[np.integer]) -> ClusteredMean:
    """The mean of observations in clusters, from the sum and the size (int, at least 1) of each: [clusters]."""
    n, clusters = int(sizes.sum()), len(sizes)
    value = float(sums.sum()) / n
    deviations = (sums - value * sizes).astype(np.float64)
    # Where each cluster is one observation, the variance of a proportion follows from the proportion.
    freedom = float(clusters - 1) if n == clusters else _freedom(deviations)
    return ClusteredMean(value, n, clusters, _variance(deviations, n), freedom)


def crossed_mean(
    values: NDArray[np.number] | NDArray[np.bool_], first: NDArray[np.integer], second: NDArray[np.integer]
) -> ClusteredMean:
    """The mean of values [n] in clusters of two kinds that cross; the clusters of each kind are int [n], from 0."""
    n = len(values)
    numbers = values.astype(np.float64)
    value = float(numbers.mean())
    both = np.unique(first.astype(np.int64) * (int(second.max()) + 1) + second, return_inverse=True)[1]
    own, other, together = (cluster_sums(numbers - value, kind)[0] for kind in (first, second, both))
    variances = [_variance(sums, n) for sums in (own, other)]
    return ClusteredMean(
        value=value,
        n=n,
        clusters=min(len(own), len(other)),
        variance=max(*variances, sum(variances) - _variance(together, n)),
        freedom=min(_freedom(own), _freedom(other)),
    )


def proportion_interval(mean: ClusteredMean) -> tuple[float, float]:
    """Clopper and Pearson's interval, (low, high), with the effective sample size for the number of observations.

    The source is Korn and Graubard (1998, Survey Methodology 24, 193-201); ours has the degrees of freedom above in
    place of c - 1. `docs/statistics.md` has the measured coverage. It is (0, 1) for less than two clusters, which show
    no variation between them.
    """
    if mean.clusters < 2:
        return 0.0, 1.0
    return exact_proportion_interval(mean.value, effective_sample_size(mean))


def effective_sample_size(mean: ClusteredMean) -> float:
    """The number of independent observations that would say as much as these clusters (Korn and Graubard 1998).

        n_eff = p (1 - p) / v · (t(n - 1) / t(d))²

    t is Student's quantile. Where p is 0 or 1 the variance cannot be estimated: each cluster then counts as one
    observation. There are never more than n: clusters may happen to be more alike than independent draws.
    """
    p = mean.value
    if p in {0.0, 1.0}:
        return float(mean.clusters)
    if mean.variance == 0:  # all clusters have the same proportion
        return float(mean.n)
    shrunk = (student_quantile(mean.n - 1, UPPER) / student_quantile(mean.freedom, UPPER)) ** 2
    return min(p * (1 - p) / mean.variance * shrunk, float(mean.n))


def student_interval(mean: ClusteredMean) -> tuple[float | None, float | None]:
    """Interval of the mean of any numbers: m ± t(d) · √v; None and None where nothing varies between clusters."""
    if mean.clusters < 2 or mean.variance <= 0:
        return None, None
    half = student_quantile(mean.freedom, UPPER) * mean.standard_error
    return mean.value - half, mean.value + half


def cluster_sums(
    values: NDArray[np.number] | NDArray[np.bool_], clusters: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The sum and the size of each cluster, by ascending cluster: float64 and int64 [clusters].

    Values and clusters are [n]; clusters count from 0, some numbers may be missing.
    """
    sizes = np.bincount(clusters)
    present = sizes > 0
    return np.bincount(clusters, values)[present].astype(np.float64), sizes[present].astype(np.int64)


def _variance(deviations: NDArray[np.float64], n: int) -> float:
    clusters = len(deviations)
    if clusters < 2:
        return float("nan")
    return clusters / (clusters - 1) * float((deviations**2).sum()) / n**2


def _freedom(deviations: NDArray[np.float64]) -> float:
    most = float(len(deviations) - 1)
    squares = float((deviations**2).sum())
    if squares == 0:
        return most
    kurtosis = len(deviations) * float((deviations**4).sum()) / squares**2
    return min(2 * len(deviations) / (kurtosis - 1), most) if kurtosis > 1 else most
