"""Values with their 95 % intervals; items are independent draws. One that cannot be computed is None, never a NaN.

SciPy gives the quantiles: its module with the same intervals takes half a second to import.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

Ends = tuple[float | None, float | None]  # low and high; None where no method can tell them
CONFIDENCE = 0.95
_TAIL = (1 - CONFIDENCE) / 2
UPPER = (1 + CONFIDENCE) / 2  # the share below the upper end of a two-sided interval


def normal_quantile(share: float) -> float:
    """What a standard normal number is below with this probability."""
    from scipy import special  # noqa: PLC0415 - takes long to import

    return float(special.ndtri(share))


def student_quantile(freedom: float, share: float) -> float:
    """The same of Student's distribution."""
    from scipy import special  # noqa: PLC0415 - takes long to import

    return float(special.stdtrit(freedom, share))


def proportion(successes: int, n: int) -> tuple[float, float, float]:
    """Value, low, high: the interval of Wilson (1927, Journal of the American Statistical Association 22, 209-212)."""
    share, z = successes / n, normal_quantile(UPPER)
    scale = 2 * (n + z**2)
    middle, half = (2 * n * share + z**2) / scale, z / scale * sqrt(4 * n * share * (1 - share) + z**2)
    return share, middle - half if successes else 0.0, middle + half if successes < n else 1.0


def exact_proportion_interval(share: float, n: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson (1934, Biometrika 26, 404-413): low and high, as fractions.

    n is an effective number, which need not be whole, where observations are not independent.
    """
    from scipy import special  # noqa: PLC0415 - takes long to import

    successes = share * n
    low = float(special.betaincinv(successes, n - successes + 1, _TAIL)) if share > 0 else 0.0
    high = float(special.betaincinv(successes + 1, n - successes, 1 - _TAIL)) if share < 1 else 1.0
    return low, high


def mean(values: NDArray[np.float64]) -> tuple[float, float | None, float | None]:
    """Value, low, high of float64 [n] without NaN: Student's interval; none for one value, or equal ones."""
    value, n = float(np.mean(values)), len(values)
    if n < 2 or np.ptp(values) == 0:
        return value, None, None
    error = sqrt(np.var(values) * (n / (n - 1)) / n)
    low, high = (student_quantile(n - 1, share) for share in (_TAIL, 1 - _TAIL))
    return value, low * error + value, high * error + value


def within(ends: Ends, lowest: float, highest: float) -> Ends:
    """The part of an interval in which the quantity can be; what is cut off cannot hold the truth."""
    low, high = ends
    return (None, None) if low is None or high is None else (max(low, lowest), min(high, highest))


def relative_drop_interval(after: float, n_after: float, before: float, n_before: float) -> Ends:
    """The interval of a relative drop: of 1 minus the ratio of two proportions of independent items.

    It follows from the interval of the ratio of Katz et al. (1978, Biometrics 34, 469-474); SciPy has it for whole
    numbers only. There is none where one of the two counts is zero, or both proportions are 1.
    """
    if after == 0 or before == 0:
        return None, None
    error = np.sqrt(max(0.0, 1 / after - 1 / n_after + 1 / before - 1 / n_before))
    if not error:
        return None, None
    ratio, spread = (after / n_after) / (before / n_before), normal_quantile(UPPER) * error
    return 1 - float(ratio * np.exp(spread)), 1 - float(ratio * np.exp(-spread))
