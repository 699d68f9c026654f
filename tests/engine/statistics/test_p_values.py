"""Sign flips against all combinations and SciPy; corrections against hand-derived cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.statistics.p_values import SMALLEST_P, holm, sign_flips, smallest_p, student_p
from scipy import stats


def share_of_all(sums):
    """Every combination, listed; whole numbers."""
    flipped = (np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums))) & 1
    return np.mean(np.abs((2 * flipped - 1) @ sums) >= abs(int(np.sum(sums))))


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=9), st.sampled_from([1, 2, 3, 4, 7, 60]), st.floats(1e-6, 1e6)
)
def test_sums_have_the_p_of_all_combinations_in_any_unit(whole, parts, unit):
    sums = np.array(whole)
    inexact = (sums + 60) / parts - 60 / parts  # with errors in the last digits
    for same in (sums, sums / parts, sums * unit, inexact):
        assert sign_flips(same) == pytest.approx(share_of_all(sums), abs=1e-9)


def test_large_whole_sums_take_no_more_memory_than_small_ones():
    """They were transformed in steps of 1: 29 GB for sums of a billion."""
    assert sign_flips(np.array([3, 5, -2, 1]) * 10**9) == pytest.approx(share_of_all(np.array([3, 5, -2, 1])))
    large = np.array([10**9 + 7, 2 * 10**9 + 11, 5 * 10**9 + 1])  # no common unit: rounded
    assert sign_flips(large) == pytest.approx(smallest_p(3))


def test_sums_without_a_common_unit_never_have_a_smaller_p():
    random = np.random.default_rng(2)
    for n in [3, 8, 10, 10, 12, 12]:
        sums = random.normal(0.4, size=n)
        wanted = stats.permutation_test(
            (sums,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", n_resamples=np.inf, vectorized=True
        ).pvalue
        assert wanted - 1e-9 <= sign_flips(sums) <= 1.02 * wanted


@pytest.mark.parametrize("n", [150, 250])
def test_rounding_moves_p_upwards_and_by_little(n):
    """The same sums are tested exactly where their unit is known: two decimals, and one that hides it."""
    sums = np.round(np.random.default_rng(n).standard_t(3, n) + 0.15, 2)
    exact = sign_flips(sums)
    assert exact <= sign_flips(np.append(sums, 1e-6 * np.sqrt(2))) <= 1.05 * exact


def test_no_p_is_below_what_the_clusters_can_give_or_can_be_computed():
    for clusters in range(1, 41):
        least = min(1, 2 / 2**clusters)
        assert smallest_p(clusters) == least
        for sums in (np.full(clusters, 20), np.full(clusters, np.pi), np.append(np.full(clusters, 20), 0)):
            assert max(least, SMALLEST_P) <= sign_flips(sums) <= max(1.001 * least, SMALLEST_P)
    assert sign_flips(np.array([*np.pi * np.ones(3), np.e])) == pytest.approx(smallest_p(4))
    assert sign_flips(np.ones(5_000, int)) == SMALLEST_P == 1e-12
    assert sign_flips(np.sqrt(np.arange(2.0, 402.0))) == SMALLEST_P


def test_many_whole_sums_are_close_to_the_normal_distribution():
    """18,200 pairs: their combinations cannot be listed, nor drawn often enough."""
    sums = np.random.default_rng(1).integers(-20, 22, 18_200)
    sums[np.abs(sums) == 1] = 3  # so that the smallest one is not the unit
    wanted = 2 * stats.norm.sf(abs(sums.sum()) / np.sqrt((sums.astype(float) ** 2).sum()))
    assert sign_flips(sums) == pytest.approx(wanted, rel=0.01)
    assert sign_flips(sums / 3) == pytest.approx(sign_flips(sums))


def test_a_total_of_nothing_has_p_one():
    for sums in (np.zeros(7), np.array([3, -3]), np.array([0.5, -0.5]), np.array([np.pi, -np.pi, np.e, -np.e])):
        assert sign_flips(sums) == pytest.approx(1)
    assert sign_flips(np.repeat([np.pi, np.e, -np.pi, -np.e], 100)) == 1  # drawn


@pytest.mark.parametrize(("shift", "far"), [(0.0, 7813), (0.05, 1817), (0.1, 227), (0.15, None), (0.3, None)])
def test_many_sums_without_a_common_unit_have_nearly_the_p_of_whole_ones_and_the_same_each_time(shift, far):
    """Signs are drawn. Draws alone end at 1 / 20,000, and 0.05 is then out of reach of more than 1,000 tests."""
    sums = np.random.default_rng(3).normal(shift, 1, 301)
    found, exact = sign_flips(sums), sign_flips(np.rint(300 * sums))  # whole: exact without draws
    assert found == pytest.approx(sign_flips(1e3 * sums), rel=1e-9)
    if far is None:
        assert exact < 1e-3
        assert found == pytest.approx(exact, rel=0.01)
        return
    assert found == pytest.approx(far / 20_000)
    assert found == pytest.approx(exact, rel=4 / np.sqrt(20_000 * exact))
    rounded = 20_000 * sign_flips(sums[:300])
    assert rounded != pytest.approx(round(rounded))  # not drawn


def test_students_test_has_the_p_of_its_distribution_and_a_mean_of_nothing_has_one():
    assert student_p(-2.0, 0.8, 5.5) == pytest.approx(2 * stats.t.cdf(-2.5, 5.5))
    assert (student_p(0.0, 0.0, 3.0), student_p(1.0, 0.0, 3.0)) == (1.0, SMALLEST_P)


@given(st.lists(st.tuples(st.sampled_from([0.001, 0.01, 0.02, 0.04, 0.3, 1.0]), st.integers(1, 12)), min_size=1))
def test_holm_counts_the_tests_that_can_give_such_a_p_each_once(own):
    """Against a loop over the smallest p, the next one …: a test with c clusters that differ has no p below 2 / 2^c."""
    least = np.array([smallest_p(clusters) for _, clusters in own])
    p = np.maximum([given for given, _ in own], least)
    found, number = holm(p, least)
    wanted, below = {}, 0.0
    for i in sorted(range(len(p)), key=lambda i: p[i]):
        others = [j for j in range(len(p)) if j not in wanted and least[j] <= p[i]]
        below = wanted[i] = min(1.0, max(below, p[i] * len(others)))
    assert found == pytest.approx([wanted[i] for i in range(len(p))])
    assert number == sum(clusters > 1 for _, clusters in own)
    twice, same = holm(np.tile(p, 2), np.tile(least, 2), [*range(len(p))] * 2)
    assert (twice.tolist(), same) == ([*found, *found], number)
