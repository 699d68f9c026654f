"""The p of a difference between two outcomes of the same items, and its correction for the number of tests.

The test is by sign flips of whole clusters, as docs/statistics.md explains. It is exact where the sums of the clusters
are symmetric about zero, and right in large clusters without that (Canay, Romano and Shaikh 2017, Econometrica 85,
1013-1030; their statistic is a t, which orders the combinations as the absolute total does). Sums are counted in a unit
that makes them whole, and their distribution is computed from its characteristic function, Π cos(s θ), by one Fourier
transform (after Pagano and Tritchler 1983, Journal of the American Statistical Association 78, 435-440). Sums without a
common unit are rounded to fine steps, so that p is never too small. Where there are many, signs are drawn (Phipson and
Smyth 2010, Statistical Applications in Genetics and Molecular Biology 9, 39); a p that draws cannot tell is the tail of
the saddlepoint approximation (Robinson 1982, Journal of the Royal Statistical Society B 44, 91-101).
"""

from collections.abc import Hashable, Sequence
from math import exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray


def holm(
    p: NDArray[np.float64], least: NDArray[np.float64], tests: Sequence[Hashable] | None = None
) -> tuple[NDArray[np.float64], int]:
    """p-values, float64 [m], adjusted for the number of tests, and this number.

    After Holm (1979, Scandinavian Journal of Statistics 6, 65-70): in ascending order, a p is multiplied by how many of
    the tests from it on can give such a p, whose `least` p is not above it (Westfall and Wolfinger 1997, The American
    Statistician 51, 3-8); none may be below the one before, nor above 1. So a test that cannot differ, with a least p
    of 1, does not count, and the number has no such test. Equal `tests` are one test.
    """
    tests = range(len(p)) if tests is None else tests
    places = {test: place for place, test in reversed(list(enumerate(tests)))}
    order = np.array(sorted(places.values(), key=lambda place: p[place]), dtype=np.intp)
    factors = np.array([(least[order[i:]] <= p[place]).sum() for i, place in enumerate(order)], dtype=np.float64)
    adjusted = dict(zip(order, np.minimum(np.maximum.accumulate(p[order] * factors), 1), strict=True))
    return np.array([adjusted[places[test]] for test in tests], dtype=np.float64), int((least[order] < 1).sum())


SMALLEST_P = 1e-12  # the transform is exact to about 1e-15; a smaller p is given as this
MANY = 300  # beyond so many sums without a common unit, signs are drawn
_EQUAL = 1e-9  # of the largest sum: as far as the same numbers can differ, added up in another order
_MOST_PARTS = 10_000  # of the smallest sum
_MOST_UNITS = 2**20  # steps of the transform: a tenth of a second
_MOST_WHOLE = 2**22  # the same of counts; larger whole numbers may have a larger unit, or are rounded
_STEPS = 2**17  # of 300 sums, rounding moves the total by 1 % of its standard deviation at most
_DRAWS, _AT_ONCE = 19_999, 2**22
_ENOUGH = 100  # draws that are as far; fewer do not tell p


def sign_flips(sums: NDArray[np.number]) -> float:
    """The two-sided p, at least `SMALLEST_P`, of the test that the sums of clusters are symmetric about zero.

    `sums` is [clusters], in any unit: the sum of the differences within each.
    """
    sizes = np.abs(sums).astype(np.float64)
    if not sizes.any():
        return 1.0
    unit, lost = _common_unit(sizes), 0.0
    if unit is None:
        if len(sizes) > MANY:
            return max(_drawn_share_as_far(sizes, abs(float(sums.sum()))), SMALLEST_P)
        unit = float(sizes.sum()) / _STEPS
        lost = float(np.abs(sizes / unit - np.rint(sizes / unit)).sum())
    whole = np.rint(sums / unit).astype(np.int64)
    total = abs(float(sums.sum())) / unit - lost - 1e-6 if lost else abs(int(whole.sum()))
    p = _share_as_far(np.abs(whole), total)
    return min(max(p, smallest_p(int(np.count_nonzero(whole))), SMALLEST_P), 1.0)


def student_p(value: float, standard_error: float, freedom: float) -> float:
    """The two-sided p, at least `SMALLEST_P`, of Student's test that a mean is 0; it is 1 for a mean of 0."""
    from scipy import special  # noqa: PLC0415 - takes long to import

    if value == 0:
        return 1.0
    if standard_error == 0:
        return SMALLEST_P
    return max(2 * float(special.stdtr(freedom, -abs(value) / standard_error)), SMALLEST_P)


def smallest_p(clusters: int) -> float:
    """The smallest p that the test can give: two of the 2^c combinations are as extreme as all signs alike."""
    return min(1.0, 2 * 0.5**clusters)


def _common_unit(sizes: NDArray[np.float64]) -> float | None:
    """A number of which all sizes are multiples, apart from their last digits; None if no such number is found."""
    values, total = np.unique(sizes[sizes > 0]), float(sizes.sum())
    if total <= _MOST_WHOLE and np.array_equal(values, np.rint(values)):
        return 1.0
    units = values[0] / np.arange(1, _MOST_PARTS + 1)
    units = units[units * _MOST_UNITS >= total]
    for value in values:
        units = units[np.abs(value - units * np.rint(value / units)) <= _EQUAL * values[-1]]
        if not len(units):
            return None
    return total / float(np.rint(sizes / units[0]).sum())  # without the errors of the last digits


def _share_as_far(sizes: NDArray[np.int64], total: float) -> float:
    """The share of sign combinations whose sum is at least as far from zero as a total.

    With B the sum of the sizes that get a plus, and T that of all, the sum of a combination is 2 B - T. B is from 0 to
    T, and its characteristic function is exp(i θ T / 2) Π cos(θ s / 2).
    """
    values, counts = np.unique(sizes, return_counts=True)
    largest = int((values * counts).sum())
    frequency = 2 * np.pi * np.arange((largest + 1) // 2 + 1) / (largest + 1)
    spectrum = np.exp(-0.5j * largest * frequency)
    for value, count in zip(values, counts, strict=True):
        spectrum *= np.cos(0.5 * value * frequency) ** int(count)
    share = np.fft.irfft(spectrum, largest + 1)
    far = np.abs(2 * np.arange(largest + 1) - largest) >= total
    return float(np.clip(share[far], 0, None).sum())


def _drawn_share_as_far(sizes: NDArray[np.float64], total: float) -> float:
    """The same from combinations that are drawn, with the observed one among them."""
    random, far, left = np.random.default_rng(0), 1, _DRAWS
    while left:
        n = min(left, max(1, _AT_ONCE // len(sizes)))
        bits = np.unpackbits(np.frombuffer(random.bytes(-(-n * len(sizes) // 8)), np.uint8), count=n * len(sizes))
        totals = 2 * (bits.reshape(n, -1).astype(np.float64) @ sizes) - sizes.sum()
        far += int((np.abs(totals) >= total - _EQUAL * sizes.sum()).sum())
        left -= n
    return far / (_DRAWS + 1) if far > _ENOUGH else _tail(sizes, total)


def _tail(sizes: NDArray[np.float64], total: float) -> float:
    """The same, far from zero: with K(t) = Σ log cosh(t s) and K'(t) = total, after Lugannani and Rice.

    2 (1 - Φ(w) + φ(w) (1 / v - 1 / w)),      w = √(2 (t K'(t) - K(t))),      v = t √K''(t)
    """
    from scipy import optimize, special  # noqa: PLC0415 - take long to import

    scaled = sizes / sizes.max()
    wanted = total / float(sizes.max())
    most = float(scaled.sum())
    if wanted >= most * (1 - _EQUAL):  # all signs are alike
        return smallest_p(len(sizes))
    top = 1.0
    while float((scaled * np.tanh(top * scaled)).sum()) < wanted:
        top *= 2
    t = float(optimize.brentq(lambda t: float((scaled * np.tanh(t * scaled)).sum()) - wanted, 0.0, top))
    cumulant = float((t * scaled + np.log1p(np.exp(-2 * t * scaled)) - np.log(2)).sum())
    decay = np.exp(-2 * t * scaled)  # 1 / cosh² is 4 decay / (1 + decay)², and never too large
    w, v = sqrt(2 * (t * wanted - cumulant)), t * sqrt(float((4 * decay * (scaled / (1 + decay)) ** 2).sum()))
    return 2 * (float(special.ndtr(-w)) + exp(-(w**2) / 2) / sqrt(2 * pi) * (1 / v - 1 / w))
