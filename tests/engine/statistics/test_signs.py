"""The test by sign flips of clusters, against all combinations one by one and against SciPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.statistics import SMALLEST_P, sign_flips, smallest_p
from scipy import stats


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=9))
def test_whole_numbers_have_the_p_of_all_combinations(sums):
    totals = [sum(sign * one for sign, one in zip(signs, sums, strict=True)) for signs in signs_of(len(sums))]
    wanted = np.mean([abs(total) >= abs(sum(sums)) for total in totals])
    assert sign_flips(np.array(sums)) == pytest.approx(wanted, abs=1e-12)


def signs_of(n):
    return itertools.product((1, -1), repeat=n)


def test_other_numbers_have_scipys_p():
    random = np.random.default_rng(2)
    for _ in range(10):
        sums = random.normal(0.4, size=10)
        wanted = stats.permutation_test(
            (sums,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", n_resamples=np.inf, vectorized=True
        ).pvalue
        assert sign_flips(sums) == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize("clusters", [1, 2, 6, 12, 30])
def test_few_clusters_have_a_smallest_p(clusters):
    assert sign_flips(np.full(clusters, 20)) == pytest.approx(smallest_p(clusters))
    assert smallest_p(clusters) == min(1, 2 / 2**clusters)


def test_many_clusters_are_close_to_the_normal_distribution():
    """18,200 pairs: their combinations cannot be listed, nor drawn often enough."""
    sums = np.random.default_rng(1).integers(-20, 22, 18_200)
    wanted = 2 * stats.norm.sf(abs(sums.sum()) / np.sqrt((sums.astype(float) ** 2).sum()))
    assert sign_flips(sums) == pytest.approx(wanted, rel=0.01)


def test_a_p_below_what_can_be_computed_is_not_given():
    assert sign_flips(np.ones(5_000, int)) == 1e-12


def test_no_difference_has_p_one():
    assert sign_flips(np.zeros(7)) == 1
    assert sign_flips(np.array([3, -3])) == 1


@pytest.mark.parametrize("shift", [0.0, 0.02, 0.05, 0.1])
def test_many_sums_have_nearly_the_same_p_as_by_the_transform(shift):
    sums = np.random.default_rng(0).normal(shift, 1, 2_000)
    assert sign_flips(sums, many=1_000) == pytest.approx(sign_flips(sums), rel=0.03)  # the transform rounds the sums


def test_the_p_of_many_equal_sums_is_that_of_the_binomial_distribution():
    n, plus = 20_001, 10_300
    sums = np.where(np.arange(n) < plus, 0.5, -0.5)
    assert sign_flips(sums, many=100) == pytest.approx(stats.binomtest(plus, n).pvalue, rel=0.05)  # which has steps


@pytest.mark.parametrize("sums", [np.full(300, 0.5), np.zeros(300), np.resize([0.5, -0.5], 300)])
def test_the_ends_of_many_sums(sums):
    expected = SMALLEST_P if sums.all() and sums.min() > 0 else 1.0
    assert sign_flips(sums, many=100) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("shift", [0.01, 0.1, 0.2, 0.3])
def test_many_sums_have_the_p_of_the_exact_distribution(shift):
    """Halves are not whole numbers, so they are approximated. Twice as large they are whole, and the same test.

    A few sums are far larger than the others: the normal distribution would be wrong by 0.3 to 19 %.
    """
    doubled = np.rint(80 * (np.random.default_rng(3).standard_t(3, 400) + shift))
    doubled[0] += 1 - doubled[0] % 2  # an odd one
    assert sign_flips(doubled / 2, many=100) == pytest.approx(sign_flips(doubled), rel=4e-3)


def test_sums_that_all_have_one_sign_are_the_extreme_also_where_their_total_is_rounded():
    """Scaled first or summed first, the same total can differ in its last digit."""
    random = np.random.default_rng(5)
    assert {sign_flips(random.random(300), many=100) for _ in range(30)} == {SMALLEST_P}


def test_a_total_of_almost_nothing_has_the_p_of_the_normal_distribution():
    sums = np.resize([1.5, -1.5], 300)
    sums[0] += 0.01
    wanted = 2 * stats.norm.sf(0.01 / np.sqrt((sums**2).sum()))
    assert 1 - wanted > 2e-4
    assert sign_flips(sums, many=100) == pytest.approx(wanted, abs=1e-6)


def test_the_approximation_is_for_more_sums_than_are_given():
    sums = np.random.default_rng(4).normal(0.2, 1, 50)
    assert sign_flips(sums, many=50) == sign_flips(sums)
    assert sign_flips(sums, many=49) != sign_flips(sums)


def test_a_total_of_nothing_has_p_one_also_where_sums_are_rounded():
    assert sign_flips(np.array([0.5, -0.5])) == 1.0
