"""The test of a difference between two outcomes of the same items, by sign flips of whole clusters.

If the two outcomes do not differ, the sum of the differences of each cluster is as likely to be +s as -s. So all 2^c
combinations of signs are equally likely, and p is the share of them whose total is at least as far from zero as the
observed one. Items of one cluster keep their signs together, so they may depend on each other in any way. The test is
exact where the sums are symmetric about zero, and right in large clusters without that (Canay, Romano and Shaikh 2017,
Econometrica 85, 1013-1030; their statistic is a t, which orders the combinations as the absolute total does, because
the sum of squares does not depend on signs). With clusters of one item and outcomes that are right or wrong it is
McNemar's exact test.

The distribution is computed from its characteristic function, Π cos(s θ), by one Fourier transform (after Pagano and
Tritchler 1983, Journal of the American Statistical Association 78, 435-440). So it is complete for any number of
clusters, and there is no seed. `scipy.stats.permutation_test` gives the same p by listing the combinations; beyond some
20 clusters it can only draw some of them, and then no p is below one in the number of draws.

The transform needs time and memory for many different sums that are not whole numbers. Beyond 20,000 of them p is the
saddlepoint approximation of the same distribution (Lugannani and Rice 1980, Advances in Applied Probability 12,
475-490), whose relative error falls with the number of clusters: below 0.1 % there, also for a very small p.
"""

import numpy as np
from numpy.typing import NDArray

SMALLEST_P = 1e-12  # the transform is exact to about 1e-15; a smaller p is given as this
# Sums that are not whole numbers are rounded, and the rounded sums are tested exactly: in all to so many steps, and on
# average to so many for each sum, which moves the total by about 1 % of its standard deviation.
_STEPS, _STEPS_EACH = 2**14, 32
MANY = 20_000
"""Beyond so many sums that are not whole numbers, the distribution is approximated."""


def sign_flips(sums: NDArray[np.number], many: int = MANY) -> float:
    """The p of the test that the sums of clusters are symmetric about zero.

    Args:
        sums: [clusters], the sum of the differences within each cluster. Sums that are not whole numbers are
            rounded to steps of at most a thirtieth of their mean size.
        many: beyond so many sums that are not whole numbers, the distribution is approximated.

    Returns:
        p, two-sided, at least `SMALLEST_P`; 1 if all sums are zero.
    """
    sizes = np.abs(sums).astype(np.float64)
    if not sizes.any():
        return 1.0
    are_whole = np.array_equal(sizes, np.rint(sizes))
    if not are_whole and len(sizes) > many:
        return min(max(_approximate_share_as_far(sizes, abs(float(sums.sum()))), SMALLEST_P), 1.0)
    steps = max(_STEPS, _STEPS_EACH * len(sizes))
    step = 1.0 if are_whole else float(sizes.sum()) / steps
    whole = np.rint(sums / step).astype(np.int64)
    p = _share_as_far(np.abs(whole), abs(int(whole.sum())))
    return min(max(p, smallest_p(int(np.count_nonzero(whole))), SMALLEST_P), 1.0)


def smallest_p(clusters: int) -> float:
    """The smallest p that the test can give: two of the 2^c combinations are as extreme as all signs alike."""
    return min(1.0, 2 * 0.5**clusters)


def _share_as_far(sizes: NDArray[np.int64], total: int) -> float:
    """The share of sign combinations whose sum is at least as far from zero as a total.

    With B the sum of the sizes that get a plus, and T that of all, the sum of a combination is 2 B - T. B is from 0 to
    T, and its characteristic function is exp(i θ T / 2) Π cos(θ s / 2).
    """
    values, counts = np.unique(sizes[sizes > 0], return_counts=True)
    largest = int((values * counts).sum())
    frequency = 2 * np.pi * np.arange((largest + 1) // 2 + 1) / (largest + 1)
    spectrum = np.exp(-0.5j * largest * frequency)
    for value, count in zip(values, counts, strict=True):
        spectrum *= np.cos(0.5 * value * frequency) ** int(count)
    share = np.fft.irfft(spectrum, largest + 1)
    far = np.abs(2 * np.arange(largest + 1) - largest) >= total
    return float(np.clip(share[far], 0, None).sum())


def _approximate_share_as_far(sizes: NDArray[np.float64], total: float) -> float:
    """The same for many sizes, by the saddlepoint t at which the mean of the tilted sum is the total.

    With K(t) = Σ log cosh(s t), w = √(2 (t total - K(t))) and u = t √K''(t), both tails together have the share
    2 (1 - Φ(w) + φ(w) (1 / u - 1 / w)).
    """
    from scipy import optimize, special  # noqa: PLC0415 - takes long to import

    scale = float(np.sqrt((sizes**2).sum()))  # K''(0) is 1 then
    sizes, total = sizes / scale, total / scale
    if total < 1e-3:  # the formula is 0 / 0 at zero, where the normal distribution is as good
        return float(2 * special.ndtr(-total))
    if total >= sizes.sum() * (1 - 1e-9):
        return 0.0
    largest = 1.0
    while (sizes * np.tanh(sizes * largest)).sum() < total:
        largest *= 2
    t = float(optimize.brentq(lambda t: float((sizes * np.tanh(sizes * t)).sum()) - total, 0, largest, xtol=1e-12))
    cumulant = float((np.logaddexp(sizes * t, -sizes * t) - np.log(2)).sum())
    w = float(np.sqrt(2 * (t * total - cumulant)))
    u = t * float(np.sqrt((sizes**2 / np.cosh(np.minimum(sizes * t, 300)) ** 2).sum()))
    density = float(np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi))
    return float(2 * (special.ndtr(-w) + density * (1 / u - 1 / w)))
