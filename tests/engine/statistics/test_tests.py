"""Intervals and tests against hand-derived cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from negengine.engine.statistics import grouped_mean, holm, mcnemar, mean, proportion, wilcoxon


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


def test_mean_has_students_interval():
    # Values 1, 2, 3: mean 2, standard error 1/sqrt(3), and Student's quantile for 2 degrees of freedom is 4.302653.
    assert mean(np.array([1.0, 2, 3])) == pytest.approx((2, 2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-6)


def test_mean_of_one_value_has_no_interval():
    assert mean(np.array([0.5])) == (0.5, None, None)


def test_mean_of_equal_values_is_certain():
    assert mean(np.array([0.5, 0.5])) == (0.5, 0.5, 0.5)


def test_grouped_mean_weighs_values_not_groups():
    # One group of three ones, one of one zero: 3/4, not the 1/2 of the groups' means.
    value, low, high = grouped_mean(np.array([1.0, 1, 1, 0]), np.array([0, 0, 0, 1]))
    assert (value, low, high) == (0.75, None, None)


def test_grouped_mean_has_a_wider_interval_than_independent_values():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 40)
    values = rng.normal(size=12)[groups] + 0.1 * rng.normal(size=len(groups))
    _, low, high = grouped_mean(values, groups)
    _, alone_low, alone_high = mean(values)
    assert high - low > 2 * (alone_high - alone_low)


def test_grouped_mean_is_the_same_for_the_same_seed():
    values, groups = np.random.default_rng(1).normal(size=60), np.arange(60) % 7
    assert grouped_mean(values, groups, seed=3) == grouped_mean(values, groups, seed=3)


def test_mcnemar_of_hand_made_items():
    # Six items differ, five of them one way: 2 · (C(6,0) + C(6,1)) / 2^6 = 14/64.
    first = np.array([True] * 5 + [False] + [True] * 10)
    second = np.array([False] * 5 + [True] + [True] * 10)
    assert mcnemar(first, second) == pytest.approx(14 / 64)


def test_mcnemar_without_differences_is_one():
    assert mcnemar(np.array([True, False]), np.array([True, False])) == 1


@given(arrays(bool, 20), arrays(bool, 20))
def test_mcnemar_does_not_depend_on_the_side(first, second):
    assert mcnemar(first, second) == pytest.approx(mcnemar(second, first))


def test_wilcoxon_of_hand_made_items():
    # All six differences are positive: of the 2^6 signs, two (all plus, all minus) are as extreme.
    first = np.array([1.0, 2, 3, 4, 5, 6])
    assert wilcoxon(first, first - np.array([1, 2, 3, 4, 5, 6]) / 10) == pytest.approx(2 / 64)


def test_wilcoxon_without_differences_is_one():
    assert wilcoxon(np.array([1.0, 2]), np.array([1.0, 2])) == 1


def test_holm_of_hand_made_values():
    # Ascending 0.01, 0.03, 0.04 times 3, 2, 1: 0.03, 0.06, 0.04, and the last may not be below the one before.
    assert holm(np.array([0.04, 0.01, 0.03])) == pytest.approx([0.06, 0.03, 0.06])


@given(arrays(float, st.integers(1, 12), elements=st.floats(0, 1)))
def test_holm_keeps_the_order_and_raises_every_value(p):
    adjusted = holm(p)
    assert (adjusted >= p).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
