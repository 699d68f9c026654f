"""What a run can find: the smallest difference that its clusters can show, and how many clusters a width needs."""

from math import ceil

from .clusters import ClusteredMean
from .intervals import CONFIDENCE
from .p_values import smallest_p

POWER = 0.8


def detectable(mean: ClusteredMean, power: float = POWER) -> float | None:
    """The smallest true difference, in the unit of the mean, that a two-sided test at 5 % finds with this power.

    (t(1 - α / 2) + t(power)) · √v, with Student's quantiles of the variance's degrees of freedom (Bloom 1995,
    Evaluation Review 19, 547-556). The variance of the observed difference is taken as that of others. None where
    nothing varies between clusters, or where there are so few that the test by sign flips cannot give a p of 5 %.
    """
    from scipy import special  # noqa: PLC0415 - takes long to import

    if smallest_p(mean.clusters) > 1 - CONFIDENCE or not mean.variance > 0:
        return None
    quantiles = special.stdtrit(mean.freedom, [(1 + CONFIDENCE) / 2, power])
    return float(quantiles.sum()) * mean.standard_error


def normal_quantiles(power: float = POWER) -> tuple[float, float]:
    """The normal quantiles of a two-sided 5 % and of a power: those of `detectable` for many clusters."""
    from scipy import special  # noqa: PLC0415 - takes long to import

    return float(special.ndtri((1 + CONFIDENCE) / 2)), float(special.ndtri(power))


def expected_design_effect(size: float, correlation: float) -> float:
    """1 + (size - 1) · correlation: the design effect of clusters of one size (Kish 1965, Survey Sampling, 5.4)."""
    return 1 + (size - 1) * correlation


def clusters_needed(width: float, rate: float, size: float, correlation: float) -> int:
    """How many clusters, at least two, make the 95 % interval of a proportion at most so wide, as a fraction above 0.

    The interval is rate ± t √(rate (1 - rate) · design effect / (clusters · size)), with Student's quantile for one
    degree of freedom less than clusters: Cochran's sample size (1977, Sampling Techniques, section 4.4) with Kish's
    design effect. A rate of 0.5 needs most.
    """
    from scipy import special  # noqa: PLC0415 - takes long to import

    spread = rate * (1 - rate) * expected_design_effect(size, correlation) / size

    def needed(quantile: float) -> int:
        return max(2, ceil(4 * quantile**2 * spread / width**2))

    clusters = needed(float(special.ndtri((1 + CONFIDENCE) / 2)))
    while clusters < needed(float(special.stdtrit(clusters - 1, (1 + CONFIDENCE) / 2))):
        clusters += 1  # a few times: Student's quantile is soon near the normal one
    return clusters
