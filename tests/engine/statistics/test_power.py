"""What a run can find, by hand and by simulation."""

import numpy as np
import pytest
from negengine.engine.statistics import (
    clustered_mean,
    clusters_needed,
    detectable,
    expected_design_effect,
    normal_quantiles,
    paired_difference,
    proportion_interval,
)
from scipy import stats


def test_the_detectable_difference_by_hand():
    # Ten clusters of one, 1 and 3 in turn: variance 10/9 · 10 / 100 = 1/9; t(9) has the quantiles 2.262157, 0.883404.
    mean = clustered_mean(np.array([1.0, 3.0] * 5), np.ones(10, int))
    assert detectable(mean) == pytest.approx((2.262157 + 0.883404) / 3, abs=1e-6)


def test_five_clusters_cannot_show_a_difference():
    """All signs alike have p = 2 / 2⁵ = 0.0625."""
    assert detectable(clustered_mean(np.array([1, 2, 1, 2, 1]), np.full(5, 3))) is None
    assert detectable(clustered_mean(np.array([1, 2, 1, 2, 1, 2]), np.full(6, 3))) is not None


def test_what_does_not_vary_does_not_tell_what_it_can_find():
    assert detectable(clustered_mean(np.full(30, 2), np.full(30, 4))) is None


def test_a_detectable_difference_is_found_in_about_four_of_five_samples():
    """40 clusters of 10 with differences of their own: three standard errors of 200 samples are 0.085."""
    random = np.random.default_rng(6)

    def sample(effect):
        return (effect + 0.2 * random.normal(size=40)[:, None] + random.normal(size=(40, 10))).ravel()

    clusters = np.repeat(np.arange(40), 10)
    smallest = np.mean([paired_difference(sample(0), np.zeros(400), clusters).detectable for _ in range(30)])
    found = [paired_difference(sample(smallest), np.zeros(400), clusters).p <= 0.05 for _ in range(200)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.09)


def test_kishs_design_effect():
    assert expected_design_effect(20, 0) == 1
    assert expected_design_effect(20, 0.05) == pytest.approx(1.95)
    assert expected_design_effect(20, 1) == 20


def test_clusters_of_one_need_cochrans_sample_size():
    """A width of 0.1 at a rate of 0.5: 1.96² · 4 · 0.25 / 0.1² = 384.1, a little more with Student's quantile."""
    assert 385 <= clusters_needed(0.1, 0.5, 1, 0.0) <= 388


def test_the_clusters_that_are_needed_make_the_width():
    """Simulated with as many clusters as are needed for a width of 12 points: the mean width is near that."""
    clusters = clusters_needed(0.12, 0.3, 20, 0.1)
    random = np.random.default_rng(8)
    own = random.beta(0.3 * 9, 0.7 * 9, (100, clusters))
    widths = []
    for sums in random.binomial(20, own):
        low, high = proportion_interval(clustered_mean(sums, np.full(clusters, 20)))
        widths.append(high - low)
    assert np.mean(widths) == pytest.approx(0.12, rel=0.1)
    assert stats.sem(widths) < 0.002


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


def test_the_normal_quantiles_of_five_and_eighty_percent():
    assert normal_quantiles() == pytest.approx((1.959964, 0.841621), abs=1e-6)
    assert normal_quantiles(0.5)[1] == pytest.approx(0)


def test_a_power_of_a_half_needs_no_more_than_the_test_itself():
    """Student's quantile of a half is 0."""
    mean = clustered_mean(np.array([1.0, 3.0] * 5), np.ones(10, int))
    assert detectable(mean, 0.5) == pytest.approx(2.262157 / 3, abs=1e-6)


def test_two_clusters_are_needed_at_least():
    assert clusters_needed(1.0, 0.01, 1_000, 0.0) == 2
