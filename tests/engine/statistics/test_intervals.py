"""Intervals of independent items, and rank correlations, against SciPy's and hand-derived cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from negengine.engine.statistics.clusters import cluster_sums, clustered_mean, student_interval
from negengine.engine.statistics.intervals import exact_proportion_interval, mean, proportion, relative_drop_interval
from negengine.engine.statistics.rank_correlation import mean_ranks, spearman
from scipy import stats


@given(st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_proportion_has_wilsons_interval(counts):
    wanted = stats.binomtest(*counts).proportion_ci(0.95, method="wilson")
    value, low, high = proportion(*counts)
    assert (value, low, high) == (counts[0] / counts[1], wanted.low, wanted.high)
    assert low - 1e-12 <= value <= high + 1e-12


@given(st.lists(st.integers(-1_000, 1_000), min_size=2, max_size=50).filter(lambda own: len(set(own)) > 1))
def test_a_mean_has_students_interval(numbers):
    values = np.array(numbers) / 7
    wanted = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean(values)[1:] == pytest.approx((wanted.low, wanted.high), rel=1e-12, abs=1e-12)
    grouped = clustered_mean(*cluster_sums(values, np.arange(len(values))))
    assert student_interval(grouped) == pytest.approx((wanted.low, wanted.high))


@given(st.tuples(st.integers(1, 600), st.integers(0, 600), st.integers(1, 600), st.integers(0, 600)))
def test_a_relative_drop_has_scipys_interval(counts):
    after, more_after, before, more_before = counts
    whole = after, after + more_after, before, before + more_before
    ratio = stats.contingency.relative_risk(*whole).confidence_interval()
    wanted = (1 - ratio.high, 1 - ratio.low) if more_after or more_before else (None, None)
    assert relative_drop_interval(*whole) == wanted


def test_a_relative_drop_takes_effective_numbers_and_has_no_interval_from_or_to_nothing_or_between_ones():
    """Half as many draws make the interval of the ratio's logarithm wider by the square root of two."""
    once, half = (np.log([1 - end for end in relative_drop_interval(0.5 * n, n, 0.8 * n, n)]) for n in (125, 62.5))
    assert half[0] - half[1] == pytest.approx(2**0.5 * (once[0] - once[1]))
    for counts in ((0, 60, 40, 50), (30, 60, 0, 50), (0, 60, 0, 50), (60, 60, 50, 50)):
        assert relative_drop_interval(*counts) == (None, None)


def test_the_exact_interval_is_scipys_also_of_half_an_observation_and_equal_values_have_none():
    assert mean(np.array([0.5])) == mean(np.array([0.5, 0.5])) == (0.5, None, None)
    for successes, n in ((0, 9), (3, 9), (9, 9)):
        wanted = stats.binomtest(successes, n).proportion_ci(0.95, "exact")
        assert exact_proportion_interval(successes / n, n) == pytest.approx((wanted.low, wanted.high))
    low, high = exact_proportion_interval(0.25, 2.5)
    assert stats.beta.cdf(low, 0.625, 2.875) == pytest.approx(0.025)
    assert stats.beta.cdf(high, 1.625, 1.875) == pytest.approx(0.975)


@given(arrays(np.float32, st.tuples(st.just(2), st.integers(1, 4), st.integers(2, 12)), elements=st.integers(-3, 3)))
def test_rank_correlation_is_scipys(sides):
    first, second = sides
    for one, other, found in zip(first, second, spearman(first, second), strict=True):
        if len(set(one.tolist())) == 1 or len(set(other.tolist())) == 1:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-9)


@given(st.lists(st.sampled_from([-1.5, -0.0, 0.0, 0.25, 3.0]), min_size=1, max_size=30))
def test_equal_values_have_the_mean_of_their_ranks(values):
    scores = np.array(values, np.float32)
    np.testing.assert_array_equal(mean_ranks(scores), stats.rankdata(scores))
