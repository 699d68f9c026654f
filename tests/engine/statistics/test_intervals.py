"""Intervals against hand-derived cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.statistics import (
    exact_proportion_interval,
    grouped_mean,
    mean,
    proportion,
    relative_drop_interval,
)
from scipy import stats


def test_proportion_has_wilsons_interval():
    # Of 8 in 10, with z the normal quantile: (8 + z²/2) / (10 + z²) ± z / (10 + z²) · sqrt(8 · 2 / 10 + z²/4).
    value, low, high = proportion(8, 10)
    z = 1.959963984540054
    centre, half = (8 + z * z / 2) / (10 + z * z), z / (10 + z * z) * (8 * 2 / 10 + z * z / 4) ** 0.5
    assert value == 0.8
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=1e-12)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_proportion_lies_in_its_interval(counts):
    value, low, high = proportion(*counts)
    assert -1e-12 <= low <= value + 1e-12
    assert value - 1e-12 <= high <= 1 + 1e-12


@given(st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_of_a_proportion_is_scipys(counts):
    interval = stats.binomtest(*counts).proportion_ci(0.95, method="wilson")
    assert proportion(*counts)[1:] == (interval.low, interval.high)


@given(st.lists(st.integers(-1_000, 1_000), min_size=2, max_size=50).filter(lambda own: len(set(own)) > 1))
def test_the_interval_of_a_mean_is_scipys(numbers):
    values = np.array(numbers) / 7
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean(values)[1:] == pytest.approx((interval.low, interval.high), rel=1e-12, abs=1e-12)


def test_mean_has_students_interval():
    # Values 1, 2, 3: mean 2, standard error 1/sqrt(3), and Student's quantile for 2 degrees of freedom is 4.302653.
    assert mean(np.array([1.0, 2, 3])) == pytest.approx((2, 2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-6)


def test_mean_of_one_value_has_no_interval():
    assert mean(np.array([0.5])) == (0.5, None, None)


def test_equal_values_have_no_interval():
    """They used to have one of zero width, as if the mean were known exactly."""
    assert mean(np.array([0.5, 0.5])) == (0.5, None, None)
    assert grouped_mean(np.zeros(12), np.arange(12) // 2) == (0, None, None)


def test_grouped_mean_weighs_values_not_groups():
    # One group of three ones, one of one zero: 3/4, not the 1/2 of the groups' means.
    # Deviations 3/4 and -3/4: v = 2 · 2 · (3/4)² / 4² = 9/64, and t(1) = 12.7062.
    value, low, high = grouped_mean(np.array([1.0, 1, 1, 0]), np.array([0, 0, 0, 1]))
    half = 12.7062047 * (9 / 64) ** 0.5
    assert (value, low, high) == pytest.approx((0.75, 0.75 - half, 0.75 + half))


def test_grouped_mean_has_a_wider_interval_than_independent_values():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 40)
    values = rng.normal(size=12)[groups] + 0.1 * rng.normal(size=len(groups))
    _, low, high = grouped_mean(values, groups)
    _, alone_low, alone_high = mean(values)
    assert high - low > 2 * (alone_high - alone_low)


def test_a_relative_drop_has_the_interval_of_the_logarithm_of_the_ratio():
    # From 40 of 50 to 30 of 60: ratio 0.625, variance of its logarithm 1/30 - 1/60 + 1/40 - 1/50 = 0.02166667.
    z, error = 1.959963984540054, 0.021666666666666667**0.5
    wanted = 1 - 0.625 * np.exp(z * error), 1 - 0.625 * np.exp(-z * error)
    assert relative_drop_interval(30, 60, 40, 50) == pytest.approx(wanted)


@given(st.tuples(st.integers(1, 600), st.integers(0, 600), st.integers(1, 600), st.integers(0, 600)))
def test_a_relative_drop_has_scipys_interval(counts):
    after, more_after, before, more_before = counts
    whole = after, after + more_after, before, before + more_before
    ratio = stats.contingency.relative_risk(*whole).confidence_interval()
    wanted = (1 - ratio.high, 1 - ratio.low) if more_after or more_before else (None, None)
    assert relative_drop_interval(*whole) == wanted


def test_a_relative_drop_takes_effective_numbers():
    """Half as many draws make the interval of the ratio's logarithm wider by the square root of two."""
    once, half = (np.log([1 - end for end in relative_drop_interval(0.5 * n, n, 0.8 * n, n)]) for n in (125, 62.5))
    assert half[0] - half[1] == pytest.approx(2**0.5 * (once[0] - once[1]))


@pytest.mark.parametrize("counts", [(0, 60, 40, 50), (30, 60, 0, 50), (0, 60, 0, 50), (60, 60, 50, 50)])
def test_a_relative_drop_from_or_to_nothing_or_between_ones_has_no_interval(counts):
    """SciPy's bounds are then nan, infinite or equal."""
    assert relative_drop_interval(*counts) == (None, None)


@pytest.mark.parametrize(("successes", "n"), [(0, 9), (3, 9), (9, 9)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_whole_numbers_have_scipys_exact_interval(successes, n, confidence):
    wanted = stats.binomtest(successes, n).proportion_ci(confidence, "exact")
    assert exact_proportion_interval(successes / n, n, confidence) == pytest.approx((wanted.low, wanted.high))


def test_the_exact_interval_of_half_an_observation():
    low, high = exact_proportion_interval(0.25, 2.5)
    assert stats.beta.cdf(low, 0.625, 2.875) == pytest.approx(0.025)
    assert stats.beta.cdf(high, 1.625, 1.875) == pytest.approx(0.975)
