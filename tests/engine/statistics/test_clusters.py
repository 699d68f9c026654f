"""The interval of a proportion in clusters: by hand, against a slow reference, and its coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.statistics import cluster_interval, effective_sample_size
from scipy import stats

# ---------------------------------------------------------------- derived by hand


def test_effective_sample_size_by_hand():
    # Three pairs of 2 with 2, 1, 0 repetitions: p = 1/2, Σ (r - p n)² = 1 + 0 + 1 = 2, v = 3/2 · 2 / 36 = 1/12,
    # p (1 - p) / v = 3. t(5) = 2.570582, t(2) = 4.302653 (tables), so n_eff = 3 · (2.570582 / 4.302653)² = 1.070790.
    effective = 1.070790
    low = stats.beta.ppf(0.025, effective / 2, effective / 2 + 1)
    assert cluster_interval(np.array([2, 1, 0]), np.array([2, 2, 2])) == pytest.approx((low, 1 - low), abs=1e-6)


def test_clusters_of_one_are_independent_draws():
    # With n_i = 1, Σ (r - p)² = n p (1 - p), so v = p (1 - p) / (n - 1) and n_eff = n - 1; both t are t(n - 1).
    repetitions = np.array([1] * 30 + [0] * 71)
    p, effective = 30 / 101, 100
    low = stats.beta.ppf(0.025, p * effective, (1 - p) * effective + 1)
    high = stats.beta.ppf(0.975, p * effective + 1, (1 - p) * effective)
    assert cluster_interval(repetitions, np.ones(101, int)) == pytest.approx((low, high))


def test_clusters_that_agree_with_themselves_count_once():
    # All 20 verbs of a pair fall alike: as many draws as pairs, but for the t quantiles, not 2,020.
    repetitions = np.array([20] * 30 + [0] * 71)
    p, effective = 30 / 101, 100 * (stats.t.ppf(0.975, 2019) / stats.t.ppf(0.975, 100)) ** 2
    low = stats.beta.ppf(0.025, p * effective, (1 - p) * effective + 1)
    assert cluster_interval(repetitions, np.full(101, 20))[0] == pytest.approx(low)


def test_clusters_that_agree_with_each_other_are_no_better_than_independent_triplets():
    # Each of 50 pairs repeats 5 of 10: v = 0. The interval is Clopper and Pearson's for 250 of 500.
    exact = stats.binomtest(250, 500).proportion_ci(0.95, "exact")
    assert cluster_interval(np.full(50, 5), np.full(50, 10)) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("clusters", [2, 7, 400])
def test_no_repetition_or_nothing_else_counts_pairs(clusters):
    # Clopper and Pearson for 0 of c have the bound 1 - 0.025^(1/c).
    bound = 1 - 0.025 ** (1 / clusters)
    n = np.full(clusters, 20)
    assert cluster_interval(0 * n, n) == pytest.approx((0, bound))
    assert cluster_interval(n, n) == pytest.approx((1 - bound, 1))


@pytest.mark.parametrize(("repetitions", "n"), [(3, 7), (0, 7), (7, 7)])
def test_one_pair_tells_nothing(repetitions, n):
    assert cluster_interval(np.array([repetitions]), np.array([n])) == (0, 1)


# ---------------------------------------------------------------- against an independent, slow reference


def reference_interval(clusters: list[tuple[int, int]]) -> tuple[float, float]:
    """The same from the definition: each triplet's influence on the ratio, summed within pairs, then their variance."""
    observations = [(i, y) for i, (r, n) in enumerate(clusters) for y in [1] * r + [0] * (n - r)]
    n = len(observations)
    p = math.fsum(y for _, y in observations) / n
    if p in {0, 1}:
        effective = float(len(clusters))
    else:
        influence = [math.fsum((y - p) / n for j, y in observations if j == i) for i in range(len(clusters))]
        mean = math.fsum(influence) / len(clusters)
        variance = len(clusters) / (len(clusters) - 1) * math.fsum((z - mean) ** 2 for z in influence)
        adjusted = (stats.t.isf(0.025, n - 1) / stats.t.isf(0.025, len(clusters) - 1)) ** 2
        effective = n if variance < 1e-18 else min(n, adjusted * p * (1 - p) / variance)
    x = p * effective
    # Clopper and Pearson's bounds by the F distribution instead of the beta distribution.
    low = 0.0 if p == 0 else 1 / (1 + (effective - x + 1) / (x * stats.f.ppf(0.025, 2 * x, 2 * (effective - x + 1))))
    high = (
        1.0 if p == 1 else 1 / (1 + (effective - x) / ((x + 1) * stats.f.isf(0.025, 2 * (x + 1), 2 * (effective - x))))
    )
    return low, high


@given(
    st.lists(st.integers(1, 20).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=30)
)
def test_interval_equals_the_reference(clusters):
    repetitions, n = (np.array(column) for column in zip(*clusters, strict=True))
    assert cluster_interval(repetitions, n) == pytest.approx(reference_interval(clusters), abs=1e-6)


@given(
    st.lists(st.integers(1, 20).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=30)
)
def test_repetition_and_drop_mirror_each_other(clusters):
    repetitions, n = (np.array(column) for column in zip(*clusters, strict=True))
    low, high = cluster_interval(repetitions, n)
    assert cluster_interval(n - repetitions, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)


# ---------------------------------------------------------------- does it cover?


def samples(pairs: int, rate: float, count: int = 500):
    """Samples of pairs with rates of their own (beta-binomial, correlation 0.3) and 1 to 20 triplets each."""
    random = np.random.default_rng(7)
    spread = 1 / 0.3 - 1
    for _ in range(count):
        n = random.integers(1, 21, pairs)
        yield random.binomial(n, random.beta(rate * spread, (1 - rate) * spread, pairs)), n


def coverage(interval, pairs: int, rate: float) -> float:
    bounds = [interval(repetitions, n) for repetitions, n in samples(pairs, rate)]
    return float(np.mean([low <= rate <= high for low, high in bounds]))


def as_if_independent(repetitions, n):
    exact = stats.binomtest(int(repetitions.sum()), int(n.sum())).proportion_ci(0.95, "exact")
    return exact.low, exact.high


@pytest.mark.parametrize(("pairs", "rate"), [(20, 0.3), (60, 0.1), (60, 0.8), (300, 0.03), (300, 0.3)])
def test_the_interval_covers_the_truth_where_triplets_hang_together(pairs, rate):
    # Of 500 samples 95 % should cover; 0.92 is three standard errors below that.
    assert coverage(cluster_interval, pairs, rate) >= 0.92


def test_with_few_repetitions_the_interval_covers_less_as_the_module_says():
    # About 5 effective repetitions; the true coverage there is 0.90 to 0.91, so 0.86 is three standard errors below.
    assert 0.86 <= coverage(cluster_interval, 60, 0.03) < 0.95


def test_as_if_independent_the_interval_would_not_cover():
    assert coverage(as_if_independent, 60, 0.3) < 0.75


def test_the_interval_is_not_needlessly_wide():
    assert coverage(cluster_interval, 300, 0.3) <= 0.98


def test_clusters_whose_observations_agree_are_one_observation_each():
    """Variance 10/9 · Σ (r - 1.5)² / 30² = 0.0278, ten clusters of three, p = 0.5: 9 draws, before Student's factor."""
    n = np.full(10, 3)
    student = (stats.t.ppf(0.975, 29) / stats.t.ppf(0.975, 9)) ** 2
    assert effective_sample_size(np.array([3, 0] * 5), n) == pytest.approx(9 * student)
    assert effective_sample_size(n, n) == 10
