"""The interval of a proportion in clusters: by hand, against a slow reference, and its coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.statistics import (
    cluster_interval,
    cluster_sums,
    clustered_mean,
    crossed_mean,
    effective_sample_size,
    grouped_mean,
    proportion_interval,
    student_interval,
)
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
    """The same from the definition: each triplet's influence on the ratio, summed within pairs, then their moments."""
    observations = [(i, y) for i, (r, n) in enumerate(clusters) for y in [1] * r + [0] * (n - r)]
    n, c = len(observations), len(clusters)
    p = math.fsum(y for _, y in observations) / n
    if p in {0, 1}:
        effective = float(c)
    else:
        influence = [math.fsum((y - p) / n for j, y in observations if j == i) for i in range(c)]
        variance = c / (c - 1) * math.fsum(z**2 for z in influence)
        if variance < 1e-18:
            effective = n
        else:
            kurtosis = c * math.fsum(z**4 for z in influence) / math.fsum(z**2 for z in influence) ** 2
            freedom = c - 1 if kurtosis <= 1 + 1e-12 or n == c else min(max(1, 2 * c / (kurtosis - 1)), c - 1)
            adjusted = (stats.t.isf(0.025, n - 1) / stats.t.isf(0.025, freedom)) ** 2
            effective = min(n, adjusted * p * (1 - p) / variance)
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


@pytest.mark.parametrize(
    ("pairs", "rate"), [(6, 0.5), (12, 0.03), (20, 0.3), (30, 0.97), (60, 0.03), (60, 0.8), (200, 0.002), (300, 0.3)]
)
def test_the_interval_covers_the_truth_where_triplets_hang_together(pairs, rate):
    # Of 500 samples 95 % should cover; 0.92 is three standard errors below that. With c - 1 degrees of freedom, (30,
    # 0.97), (60, 0.03) and (200, 0.002) cover 0.87 to 0.91.
    assert coverage(cluster_interval, pairs, rate) >= 0.92


def test_as_if_independent_the_interval_would_not_cover():
    assert coverage(as_if_independent, 60, 0.3) < 0.75


def test_the_interval_is_not_needlessly_wide():
    assert coverage(cluster_interval, 300, 0.3) <= 0.98


def test_clusters_whose_observations_agree_are_one_observation_each():
    """Variance 10/9 · Σ (r - 1.5)² / 30² = 0.0278, ten clusters of three, p = 0.5: 9 draws, before Student's factor."""
    n = np.full(10, 3)
    student = (stats.t.ppf(0.975, 29) / stats.t.ppf(0.975, 9)) ** 2
    assert effective_sample_size(clustered_mean(np.array([3, 0] * 5), n)) == pytest.approx(9 * student)
    assert effective_sample_size(clustered_mean(n, n)) == 10


# ---------------------------------------------------------------- what a mean knows of itself


def test_few_clusters_with_any_success_have_few_degrees_of_freedom():
    # One of ten clusters of 20 repeats, in all of its triplets: deviations 18 and nine times -2, so Σ u² = 360,
    # Σ u⁴ = 105120, k = 10 · 105120 / 360² = 8.1111 and d = 20 / 7.1111.
    mean = clustered_mean(np.array([20] + [0] * 9), np.full(10, 20))
    assert mean.freedom == pytest.approx(20 / (10 * 105120 / 360**2 - 1))
    assert clustered_mean(np.array([20, 0] * 5), np.full(10, 20)).freedom == 9


def test_the_design_effect_of_clusters_that_agree_is_their_size():
    # Kish: 1 + (20 - 1) · 1, but for c / (c - 1) in place of n / (n - 1).
    mean = clustered_mean(np.array([20, 0] * 50), np.full(100, 20))
    assert mean.design_effect == pytest.approx(20 * (100 / 99) * (1999 / 2000))
    assert clustered_mean(np.array([1, 0] * 50), np.ones(100, int)).design_effect == pytest.approx(1)


@pytest.mark.parametrize("sums", [[0, 0], [3, 3], [2]])
def test_a_design_effect_that_nothing_tells_is_none(sums):
    assert clustered_mean(np.array(sums), np.full(len(sums), 3)).design_effect is None
    assert clustered_mean(np.array(sums[:1]) / 3, np.ones(1, int)).design_effect is None


def test_crossed_clusters_add_up():
    """By a plain loop over pairs of observations that share a cluster, for the variance without c / (c - 1)."""
    random = np.random.default_rng(3)
    first, second = np.repeat(np.arange(40), 5), random.integers(0, 30, 200)
    values = (random.random(200) < 0.3 + 0.4 * (first % 2) * (second % 2)).astype(float)
    mean = crossed_mean(values, first, second)
    u = values - values.mean()
    sums = {}
    for kind, labels in {"first": first, "second": second, "both": list(zip(first, second, strict=True))}.items():
        totals = {}
        for label, deviation in zip(labels, u, strict=True):
            totals[label] = totals.get(label, 0) + deviation
        c = len(totals)
        sums[kind] = c / (c - 1) * math.fsum(total**2 for total in totals.values()) / 200**2
    assert mean.variance == pytest.approx(sums["first"] + sums["second"] - sums["both"])
    assert mean.clusters == 30


def test_crossed_clusters_are_never_better_than_one_kind_alone():
    random = np.random.default_rng(0)
    first, second = np.repeat(np.arange(6), 4), np.tile(np.arange(4), 6)
    for _ in range(50):
        values = (random.random(24) < 0.5).astype(float)
        both = crossed_mean(values, first, second).variance
        assert both >= clustered_mean(np.bincount(first, values), np.full(6, 4)).variance - 1e-12
        assert both >= clustered_mean(np.bincount(second, values), np.full(4, 6)).variance - 1e-12


def test_crossed_clusters_cover_where_pairs_and_verbs_have_rates_of_their_own():
    """60 pairs with 20 of 300 verbs each, which all have effects on the logit; pairs alone would cover too little."""
    random = np.random.default_rng(4)
    both = alone = 0
    truth = float(stats.logistic.cdf(stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000) * 1.25**0.5 + 1).mean())
    for _ in range(200):
        verbs, pairs = random.normal(size=300), 0.5 * random.normal(size=60)
        verb = np.concatenate([random.choice(300, 20, replace=False) for _ in range(60)])
        pair = np.repeat(np.arange(60), 20)
        values = random.random(1200) < stats.logistic.cdf(1 + verbs[verb] + pairs[pair])
        low, high = proportion_interval(crossed_mean(values, pair, verb))
        both += low <= truth <= high
        low, high = proportion_interval(clustered_mean(np.bincount(pair, values), np.full(60, 20)))
        alone += low <= truth <= high
    assert both >= 0.90 * 200
    assert alone < both


def test_sums_are_those_of_the_clusters_that_there_are():
    sums, sizes = cluster_sums(np.array([1.0, 2.0, 4.0, 8.0]), np.array([5, 0, 5, 2]))
    assert (sums.tolist(), sizes.tolist()) == ([2.0, 8.0, 5.0], [1, 1, 2])
    assert cluster_sums(np.array([True, True]), np.array([0, 0]))[0].tolist() == [2.0]


def test_the_degrees_of_freedom_of_crossed_clusters_are_the_fewer_ones():
    random = np.random.default_rng(5)
    first, second = np.repeat(np.arange(12), 10), np.tile(np.arange(10), 12)
    values = random.normal(0, 1, 12)[first] ** 3 + random.normal(0, 1, 10)[second]
    mean = crossed_mean(values, first, second)
    kinds = [clustered_mean(*cluster_sums(values, kind)).freedom for kind in (first, second)]
    assert mean.freedom == pytest.approx(min(kinds))
    assert min(kinds) < max(kinds) - 0.5
    swapped = crossed_mean(values, second, first)
    assert (swapped.freedom, swapped.variance, swapped.clusters) == pytest.approx((min(kinds), mean.variance, 10))


@pytest.mark.parametrize(("sums", "freedom"), [([2, 0], 1), ([3, 3, 3], 2), ([5], 0), ([1, 1, 0, 0], 3)])
def test_the_degrees_of_freedom_by_hand(sums, freedom):
    assert clustered_mean(np.array(sums), np.full(len(sums), 5)).freedom == freedom


def test_an_interval_of_another_confidence():
    repetitions, n = np.array([2, 1, 0, 2]), np.full(4, 2)
    mean = clustered_mean(repetitions, n)
    narrow, wide = (cluster_interval(repetitions, n, confidence) for confidence in (0.8, 0.95))
    assert wide[0] < narrow[0] < mean.value < narrow[1] < wide[1]
    effective = effective_sample_size(mean, 0.8)
    low = stats.beta.ppf(0.1, effective * mean.value, effective * (1 - mean.value) + 1)
    assert narrow[0] == pytest.approx(low)
    half = stats.t.ppf(0.9, mean.freedom) * mean.standard_error
    assert student_interval(mean, 0.8) == pytest.approx((mean.value - half, mean.value + half))


def test_a_single_cluster_has_no_interval_of_numbers():
    assert grouped_mean(np.array([1.0, 2.0]), np.zeros(2, int)) == (1.5, None, None)
