"""What a run can find: the smallest difference that its clusters can show, and how many clusters a width needs."""

from math import ceil

from .clusters import ClusteredMean
from .intervals import CONFIDENCE, UPPER, normal_quantile, student_quantile
from .p_values import smallest_p

POWER = 0.8


def detectable(mean: ClusteredMean) -> float | None:
    """The smallest true difference, in the unit of the mean, that a two-sided test at 5 % finds with a power of 80 %.

    (t(1 - α / 2) + t(power)) · √v, with Student's quantiles of the variance's degrees of freedom (Bloom 1995,
    Evaluation Review 19, 547-556); normal quantiles are those for many clusters. The variance of the observed
    difference is taken as that of others. None where nothing varies between clusters, or where there are so few that
    the test by sign flips cannot give a p of 5 %.
    """
    if smallest_p(mean.clusters) > 1 - CONFIDENCE or not mean.variance > 0:
        return None
    return (student_quantile(mean.freedom, UPPER) + student_quantile(mean.freedom, POWER)) * mean.standard_error


def clusters_needed(width: float, rate: float, size: float, correlation: float) -> int:
    """How many clusters, at least two, make the 95 % interval of a proportion at most so wide, as a fraction above 0.

    The interval is rate ± t √(rate (1 - rate) · design effect / (clusters · size)), with Student's quantile for one
    degree of freedom less than clusters: Cochran's sample size (1977, Sampling Techniques, section 4.4) with the design
    effect 1 + (size - 1) · correlation of clusters of one size (Kish 1965, Survey Sampling, 5.4). A rate of 0.5 needs
    most.
    """
    spread = rate * (1 - rate) * (1 + (size - 1) * correlation) / size

    def needed(quantile: float) -> int:
        return max(2, ceil(4 * quantile**2 * spread / width**2))

    clusters = needed(normal_quantile(UPPER))
    while clusters < needed(student_quantile(clusters - 1, UPPER)):
        clusters += 1  # a few times: Student's quantile is soon near the normal one
    return clusters
