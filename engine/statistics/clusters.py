"""The mean of observations that come in clusters, such as the triplets of one name and profession.

Observations of one cluster resemble each other, so they are not independent draws. The variance of their mean m is the
bias-reduced one, CR2, of a regression on a constant alone (Bell and McCaffrey 2002, Survey Methodology 28, 169-181):

    v = Σ z_i² / n²,      z_i = u_i / √(1 - w_i),      u_i = (sum of cluster i) - m · (size of cluster i)

where n is the number of observations and w_i the share of them in cluster i. In clusters of one size v is Cochran's
variance of a ratio (1977, Sampling Techniques, section 6.3). For two ways of clustering that cross, such as pairs and
verbs, v(first) + v(second) - v(first and second together) counts (Cameron, Gelbach and Miller 2011, Journal of Business
& Economic Statistics 29, 238-249), or one of the first two if that is larger.

v has the smaller one of two degrees of freedom, both after Satterthwaite (1946, Biometrics Bulletin 2, 110-114): Bell
and McCaffrey's, for observations of one variance (Pustejovsky and Tipton 2018, Journal of Business & Economic
Statistics 36, 672-683), which is c - 1 for c clusters of one size; and one that follows from the kurtosis k of the z_i.

    d = 1 / (Σ w_i² + (Σ q_i)² - Σ q_i²),      q_i = w_i² / (1 - w_i)
    d = 2 c / (k - 1),      k = c · Σ z_i⁴ / (Σ z_i²)²

A variance that few clusters carry cannot be trusted: three of five clusters may have no success though the true
proportion is 10 %. As Kish counts observations (1965, Survey Sampling, section 11.7), the successes y_i lie in

    (Σ y_i)² / Σ y_i²

equal clusters. If these, or those of the failures, are fewer than 3/4 of all equal clusters (at most 10, at least 1.5),
each equal cluster counts as one observation. Nothing varies more than clusters of which each has successes alone or
failures alone (Hoeffding 1963, Journal of the American Statistical Association 58, 13-30).

Fewer than five clusters have no interval: with fewer than four degrees of freedom, which five equal clusters have, such
a variance is not to be trusted (Tipton 2015, Psychological Methods 20, 375-393).
"""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from .intervals import UPPER, Ends, exact_proportion_interval, normal_quantile, student_quantile

FEWEST = 5
"""So many clusters, of several items each, show how clusters differ: means of fewer have no interval."""


@dataclass(frozen=True)
class ClusteredMean:
    """A mean, and how far it may be from the truth."""

    value: float
    n: int
    clusters: int  # the smaller number of two crossed kinds
    variance: float  # of the mean; NaN for a single cluster, which shows no variation between clusters
    freedom: float  # degrees of freedom of the variance; 0 for a single cluster
    equal_clusters: float  # 1 / Σ w_i²: how many clusters of one size these are like; the smaller number of two kinds
    # how many equal clusters the successes lie in, or the failures: the smallest of these numbers, also of two kinds
    carriers: float = inf

    @property
    def standard_error(self) -> float:
        return sqrt(self.variance)

    @property
    def shows_variation(self) -> bool:
        """Whether it can have an interval: of `FEWEST` clusters or more, or of items that are independent draws."""
        return self.clusters >= FEWEST or self.clusters == self.n > 1

    @property
    def has_few_carriers(self) -> bool:
        """Whether too few clusters carry the variance; the limits are those with which all of the simulation covers."""
        return self.carriers < min(max(0.75 * self.equal_clusters, 1.5), 10.0)

    @property
    def design_effect(self) -> float | None:
        """The variance of a proportion as a multiple of that of n independent draws (Kish 1965).

        None where it cannot be told: for a single cluster, one observation, or a proportion of 0 or 1.
        """
        independent = self.value * (1 - self.value) / (self.n - 1) if self.n > 1 else 0.0
        return self.variance / independent if independent > 0 and self.clusters > 1 else None


def clustered_mean(
    sums: NDArray[np.number], sizes: NDArray[np.integer], range_: tuple[float, float] = (0, 1)
) -> ClusteredMean:
    """The mean of observations in clusters, from the sum and the size (int, at least 1) of each: [clusters].

    `range_` is what observations lie in: its ends are failure and success.
    """
    n, clusters = int(sizes.sum()), len(sizes)
    value = float(sums.sum()) / n
    equal, variance, freedom = _spread((sums - value * sizes).astype(np.float64), sizes)
    # Where each cluster is one observation, the variance of a proportion follows from the proportion.
    freedom = float(clusters - 1) if n == clusters else freedom
    return ClusteredMean(value, n, clusters, variance, freedom, equal, _carriers(sums, sizes, range_))


def crossed_mean(
    values: NDArray[np.number] | NDArray[np.bool_], first: NDArray[np.integer], second: NDArray[np.integer]
) -> ClusteredMean:
    """The mean of values [n] in clusters of two kinds that cross; the clusters of each kind are int [n], from 0."""
    n = len(values)
    numbers = values.astype(np.float64)
    value = float(numbers.mean())
    both = np.unique(first.astype(np.int64) * (int(second.max()) + 1) + second, return_inverse=True)[1]
    own, other, together = (cluster_sums(numbers - value, kind) for kind in (first, second, both))
    (equal, variance, freedom), (other_equal, other_variance, other_freedom) = _spread(*own), _spread(*other)
    added = variance + other_variance - _spread(*together)[1]
    return ClusteredMean(
        value=value,
        n=n,
        clusters=min(len(own[0]), len(other[0])),
        variance=max(variance, other_variance, added),
        freedom=min(freedom, other_freedom),
        equal_clusters=min(equal, other_equal),
        carriers=min(_carriers(*cluster_sums(numbers, kind)) for kind in (first, second)),
    )


def proportion_interval(mean: ClusteredMean) -> Ends:
    """Clopper and Pearson's interval, (low, high), with the effective sample size for the number of observations.

    The source is Korn and Graubard (1998, Survey Methodology 24, 193-201); ours has the degrees of freedom above in
    place of c - 1. None and None for fewer clusters than `FEWEST`: they do not show how clusters differ.
    """
    if not mean.shows_variation:
        return None, None
    return exact_proportion_interval(mean.value, effective_sample_size(mean))


def effective_sample_size(mean: ClusteredMean) -> float:
    """The number of independent observations that would say as much as these clusters (Korn and Graubard 1998).

        n_eff = p (1 - p) / v · (t(n - 1) / t(d))²

    t is Student's quantile. It is at most n; where p is 0 or 1, or few clusters carry it, at most the equal clusters.
    """
    p = mean.value
    if p in {0.0, 1.0}:
        return mean.equal_clusters
    most = mean.equal_clusters if mean.has_few_carriers else float(mean.n)
    if mean.variance == 0:  # all clusters have the same proportion
        return most
    shrunk = (student_quantile(mean.n - 1, UPPER) / student_quantile(mean.freedom, UPPER)) ** 2
    return min(p * (1 - p) / mean.variance * shrunk, most)


def student_interval(mean: ClusteredMean) -> Ends:
    """Interval of the mean of any numbers: m ± t(d) · √v; None and None for few clusters, or where nothing varies."""
    if not mean.shows_variation or mean.variance <= 0:
        return None, None
    half = student_quantile(mean.freedom, UPPER) * mean.standard_error
    return mean.value - half, mean.value + half


def bounded_interval(mean: ClusteredMean, lowest: float, highest: float) -> Ends:
    """Interval of the mean of numbers that cannot leave a range, such as correlations; it stays in the range.

    The mean's place in the range, from 0 to 1, gets the interval of `proportion_interval`, with as many independent
    draws of 0 and 1 as have its variance. None and None for few clusters, or where nothing varies.
    """
    width = highest - lowest
    place = (mean.value - lowest) / width
    if not mean.shows_variation or mean.variance <= 0 or not 0 < place < 1:
        return None, None
    shrunk = normal_quantile(UPPER) / student_quantile(mean.freedom, UPPER)
    draws = place * (1 - place) / mean.variance * (width * shrunk) ** 2
    low, high = exact_proportion_interval(place, min(draws, mean.equal_clusters) if mean.has_few_carriers else draws)
    return lowest + width * low, lowest + width * high


def cluster_sums(
    values: NDArray[np.number] | NDArray[np.bool_], clusters: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The sum and the size of each cluster, by ascending cluster: float64 and int64 [clusters].

    Values and clusters are [n]; clusters count from 0, some numbers may be missing.
    """
    sizes = np.bincount(clusters)
    present = sizes > 0
    return np.bincount(clusters, values)[present].astype(np.float64), sizes[present].astype(np.int64)


def _carriers(sums: NDArray[np.number], sizes: NDArray[np.integer], range_: tuple[float, float] = (0, 1)) -> float:
    """How many equal clusters the successes lie in, or the failures, whichever are fewer; 0 if there are none."""
    sides = sums - range_[0] * sizes, range_[1] * sizes - sums
    return min(float(own.sum()) ** 2 / square if (square := float((own**2).sum())) else 0.0 for own in sides)


def _spread(deviations: NDArray[np.float64], sizes: NDArray[np.integer]) -> tuple[float, float, float]:
    """How many clusters of one size these are like, the variance of the mean, and its degrees of freedom."""
    n, clusters = int(sizes.sum()), len(sizes)
    if clusters < 2:
        return 1.0, float("nan"), 0.0
    shares = sizes / n
    squares = deviations**2 / (1 - shares)
    total, alike = float(squares.sum()), float((shares**2).sum())
    pulls = shares**2 / (1 - shares)
    freedom = 1 / (alike + float(pulls.sum()) ** 2 - float((pulls**2).sum()))
    if total > 0 and (kurtosis := clusters * float((squares**2).sum()) / total**2) > 1:
        freedom = min(freedom, 2 * clusters / (kurtosis - 1))
    return 1 / alike, total / n**2, freedom
