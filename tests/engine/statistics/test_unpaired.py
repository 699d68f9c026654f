"""The difference of two groups, against SciPy and against simulation by hand."""

import numpy as np
import pytest
from negengine.engine.statistics import unpaired_difference
from scipy import stats

RANDOM = np.random.default_rng(0)


def test_independent_numbers_have_welch_s_interval():
    first, second = RANDOM.normal(1, 1, 12), RANDOM.normal(0, 3, 30)
    found = unpaired_difference(first, second)
    wanted = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert found.value == pytest.approx(first.mean() - second.mean())
    assert (found.n, found.clusters) == (42, 42)


def test_independent_proportions_have_newcombe_s_interval():
    """The example (a) of table II in Newcombe (1998): 56/70 and 48/80."""
    found = unpaired_difference(np.arange(70) < 56, np.arange(80) < 48)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_clusters_in_both_groups_take_away_what_they_share():
    """Each cluster adds the same to both groups: the difference is known far better than from independent groups."""
    shared = RANDOM.normal(0, 5, 40)
    first, second = shared + RANDOM.normal(1, 0.1, 40), shared + RANDOM.normal(0, 0.1, 40)
    numbers = np.arange(40)
    within = unpaired_difference(first, second, (numbers, numbers))
    without = unpaired_difference(first, second)
    wanted = stats.ttest_rel(first, second).confidence_interval()
    assert within.high - within.low == pytest.approx(wanted.high - wanted.low, rel=0.05)
    assert without.high - without.low > 10 * (within.high - within.low)


def test_clusters_within_groups_count_once():
    values = RANDOM.normal(0, 1, 10)
    repeated = unpaired_difference(
        values.repeat(8), values.repeat(8) + 1, (np.arange(80) // 8, 10 + np.arange(80) // 8)
    )
    once = unpaired_difference(values, values + 1)
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high))
    assert repeated.clusters == 20


def test_proportions_in_clusters_have_an_interval_within_one():
    first, second = RANDOM.random(60) < 0.9, RANDOM.random(60) < 0.1
    clusters = RANDOM.integers(0, 12, 60), RANDOM.integers(0, 12, 60)
    found = unpaired_difference(first, second, clusters)
    assert -1 <= found.low < found.value < found.high <= 1


@pytest.mark.parametrize("kind", [np.float64, np.bool_])
def test_one_item_a_group_has_no_interval_or_the_widest(kind):
    found = unpaired_difference(np.array([1], kind), np.array([0], kind))
    assert found.value == 1
    assert found.low is None if kind is np.float64 else found.low < 0.5
