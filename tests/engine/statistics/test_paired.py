"""Differences and tests of paired outcomes, against hand-derived and published cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from negengine.engine.statistics import mcnemar, paired_difference, wilcoxon


def outcomes(both, only_first, only_second, neither):
    table = [(True, True)] * both + [(True, False)] * only_first + [(False, True)] * only_second
    return np.array(table + [(False, False)] * neither).T


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ((20, 12, 2, 16), (0.2, 0.0562, 0.3292)),
        ((36, 12, 2, 0), (0.2, 0.0569, 0.3404)),
        ((0, 29, 0, 1), (0.9667, 0.7915, 0.9941)),
        ((53, 1, 0, 0), (0.0185, -0.0496, 0.0977)),
        ((54, 0, 0, 0), (0, -0.0664, 0.0664)),
    ],
)
def test_a_difference_has_newcombes_interval(table, wanted):
    """Tables of Newcombe (1998), with the figures of method 10."""
    assert paired_difference(*outcomes(*table)) == pytest.approx(wanted, abs=5e-5)


@pytest.mark.parametrize("same", [True, False])
def test_outcomes_that_are_all_the_same_do_not_make_a_difference_certain(same):
    """Student's interval is then [0.0, 0.0]. Wilson's interval of 0 in 30 ends at z² / (30 + z²)."""
    always = np.full(30, same)
    end = 1.959964**2 / (30 + 1.959964**2)
    assert paired_difference(always, always) == pytest.approx((0, -end, end), abs=1e-6)


@given(arrays(bool, 20), arrays(bool, 20))
def test_a_difference_lies_in_its_interval_and_changes_its_sign_with_the_side(first, second):
    value, low, high = paired_difference(first, second)
    assert -1 - 1e-12 <= low <= value <= high <= 1 + 1e-12
    assert low < high
    assert paired_difference(second, first) == pytest.approx((-value, -high, -low))


def test_the_interval_of_a_difference_covers_the_truth():
    """500 samples of 80 items with shares of 0.3 and 0.2, which depend on each other; 0.92 is three standard errors
    below 95 %."""
    random = np.random.default_rng(3)
    kinds = random.choice(4, (500, 80), p=[0.15, 0.15, 0.05, 0.65])
    intervals = [paired_difference(own <= 1, (own == 0) | (own == 2)) for own in kinds]
    assert np.mean([low <= 0.1 <= high for _, low, high in intervals]) >= 0.92


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
