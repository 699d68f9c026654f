"""What a run can find, by hand and by simulation."""

import numpy as np
import pytest
from negengine.engine.statistics.clusters import clustered_mean
from negengine.engine.statistics.p_values import sign_flips
from negengine.engine.statistics.power import clusters_needed, detectable
from scipy import stats


def found_by(sums, size=1):
    sums = np.array(sums)
    return detectable(clustered_mean(sums, np.full(len(sums), size)), sums)


def test_the_detectable_difference_by_hand():
    # Ten clusters of one, 1 and 3 in turn: variance 10/9 · 10 / 100 = 1/9; t(9) has the quantiles 2.262157, 0.883404.
    assert found_by([1.0, 3.0] * 5) == pytest.approx((2.262157 + 0.883404) / 3, abs=1e-6)
    # All signs of five clusters alike have p = 2 / 2⁵ = 0.0625; and what does not vary does not tell what it can find.
    assert found_by([1.0, 2, 1, 2, 1], 3) is None
    assert found_by([1.0, 2, 1, 2, 1, 2], 3) is not None
    assert found_by([2.0] * 30, 4) is None


@pytest.mark.parametrize(("items", "differing"), [(300, 1), (300, 5), (1000, 3)])
def test_where_few_items_differ_the_detectable_difference_is_found_in_four_of_five_samples(items, differing):
    """Items that differ do so in one direction, which is the best case: six are needed for a p below 5 %."""
    smallest = found_by([1.0] * differing + [0.0] * (items - differing))
    found = np.random.default_rng(4).random((400, items)) < smallest
    shares = np.mean([sign_flips(sums) <= 0.05 for sums in found.astype(float)])
    assert shares == pytest.approx(0.8, abs=0.06)  # three standard errors


@pytest.mark.parametrize("width", [0.04, 0.12, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("rate", "size", "correlation"), [(0.5, 1, 0.0), (0.02, 20, 0.05), (0.3, 63, 0.3)])
def test_one_cluster_less_does_not_make_the_width(width, rate, size, correlation):
    """The few clusters that a wide interval needs are counted with their own quantile, not with that of still fewer."""

    def wide(clusters):
        variance = rate * (1 - rate) * (1 + (size - 1) * correlation) / (clusters * size)
        return 2 * stats.t.ppf(0.975, clusters - 1) * variance**0.5

    clusters = clusters_needed(width, rate, size, correlation)
    assert wide(clusters) <= width
    assert clusters == 2 or wide(clusters - 1) > width
    # Cochran: 1.96² · 4 · 0.25 / 0.1² = 384.1, a little more with Student's quantile; and two at least.
    assert 385 <= clusters_needed(0.1, 0.5, 1, 0.0) <= 388
    assert clusters_needed(1.0, 0.01, 1_000, 0.0) == 2
