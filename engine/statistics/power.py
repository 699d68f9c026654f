"""What a run can find: the smallest difference that its clusters can show."""

from itertools import count

import numpy as np
from numpy.typing import NDArray

from .clusters import ClusteredMean
from .intervals import CONFIDENCE, UPPER, student_quantile
from .p_values import smallest_p

POWER = 0.8


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
