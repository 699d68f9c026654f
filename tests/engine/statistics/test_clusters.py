"""Means in clusters: by hand, against a slow reference, and their coverage."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from negengine.engine.statistics.clusters import (
    bounded_interval,
    cluster_sums,
    clustered_mean,
    crossed_mean,
    proportion_interval,
    student_interval,
)
from scipy import stats
from simulated_intervals import SHAPES, designed_difference, designed_interval


def interval(successes, n):
    return proportion_interval(clustered_mean(np.asarray(successes), np.asarray(n)))


def reference_interval(clusters):
    """The same from the definition: each triplet's influence on the ratio, summed within pairs, then their moments."""
    observations = [(i, y) for i, (r, n) in enumerate(clusters) for y in [1] * r + [0] * (n - r)]
    n, c = len(observations), len(clusters)
    if c < 5 and n > c:
        return None, None
    p = math.fsum(y for _, y in observations) / n
    if p in {0, 1}:
        effective = n**2 / math.fsum(size**2 for _, size in clusters)
    else:
        share = [size / n for _, size in clusters]
        within = [math.fsum((y - p) / n for j, y in observations if j == i) for i in range(c)]
        influence = [own / math.sqrt(1 - w) for own, w in zip(within, share, strict=True)]
        variance = math.fsum(z**2 for z in influence)
        if variance < 1e-18:
            effective = n
        else:
            kurtosis = c * math.fsum(z**4 for z in influence) / math.fsum(z**2 for z in influence) ** 2
            # Satterthwaite's, from the covariances of the z if observations are independent and of one variance 1 / n.
            covariances = [
                (w if i == j else -w * v / math.sqrt((1 - w) * (1 - v)))
                for i, w in enumerate(share)
                for j, v in enumerate(share)
            ]
            freedom = c - 1 if n == c else 1 / math.fsum(one**2 for one in covariances)
            if kurtosis > 1 + 1e-12 and n > c:
                freedom = min(freedom, 2 * c / (kurtosis - 1))
            adjusted = (stats.t.isf(0.025, n - 1) / stats.t.isf(0.025, freedom)) ** 2
            effective = min(n, adjusted * p * (1 - p) / variance)
        equal = n**2 / math.fsum(size**2 for _, size in clusters)
        sides = [r for r, _ in clusters], [size - r for r, size in clusters]
        carriers = min(sum(own) ** 2 / sum(y * y for y in own) for own in sides)
        if carriers < max(1.5, min(10, 0.75 * equal)):
            effective = min(effective, equal)
    x = p * effective
    y = effective - x
    # Clopper and Pearson's bounds by the F distribution instead of the beta distribution.
    low = 0.0 if p == 0 else 1 / (1 + (y + 1) / (x * stats.f.ppf(0.025, 2 * x, 2 * (y + 1))))
    return low, 1.0 if p == 1 else 1 / (1 + y / ((x + 1) * stats.f.isf(0.025, 2 * (x + 1), 2 * y)))


def test_the_interval_of_a_mean_of_correlations_stays_in_their_range():
    """Student's would end above 1; far from the ends both are nearly the same."""
    ones = np.ones(200, int)
    near = clustered_mean(np.array([1.0, 0.99, 0.98, 0.7]), ones[:4], (-1, 1))
    assert student_interval(near)[1] > 1
    low, high = bounded_interval(near, -1, 1)
    assert low < near.value < high < 1
    # As many draws of 0 and 1 as have the variance of the mean's place in the range.
    place = (1 + near.value) / 2
    n = place * (1 - place) / (near.variance / 4) * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 3)) ** 2
    n = min(n, 4)  # the distances from 1 lie in 1.2 of the four
    ends = [stats.beta.ppf(0.025, n * place, n - n * place + 1), stats.beta.ppf(0.975, n * place + 1, n - n * place)]
    assert (low, high) == pytest.approx(tuple(2 * end - 1 for end in ends))
    mirrored = clustered_mean(-np.array([1.0, 0.99, 0.98, 0.7]), ones[:4], (-1, 1))
    assert bounded_interval(mirrored, -1, 1) == pytest.approx((-high, -low))
    far = clustered_mean(np.random.default_rng(0).uniform(-0.5, 0.5, 200), ones, (-1, 1))
    assert bounded_interval(far, -1, 1) == pytest.approx(student_interval(far), abs=0.005)
    for alike in (np.full(4, 0.5), np.ones(1)):
        assert bounded_interval(clustered_mean(alike, np.ones(len(alike), int)), -1, 1) == (None, None)


CLUSTER = st.integers(1, 20).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(st.lists(CLUSTER, min_size=2, max_size=30))
@example([(2, 2), (1, 2), (0, 2), (1, 1)])
@example([(2, 2), (1, 2), (0, 2), (1, 1), (1, 1)])
@example([(1, 1)] * 30 + [(0, 1)] * 71)
@example([(5, 10)] * 50)
@example([(9, 10)] * 2 + [(0, 10)] * 15)
def test_the_interval_equals_the_reference_and_that_of_the_drop_mirrors_it(clusters):
    successes, n = (np.array(column) for column in zip(*clusters, strict=True))
    found, wanted = interval(successes, n), reference_interval(clusters)
    assert found == (wanted if wanted[0] is None else pytest.approx(wanted, abs=1e-6))
    if None not in found:
        assert interval(n - successes, n) == pytest.approx((1 - found[1], 1 - found[0]), abs=1e-9)


# Shape of clusters, their number, a rate, a design effect; without a limit for few carriers 82 to 90 % are covered.
FEW = [("equal", 5, 0.1, 50), ("equal", 200, 0.003, 50), ("falling, 100:1", 60, 0.997, 50)]
FINE = [("equal", 200, 0.98, 5), ("one larger, 100:1", 60, 0.3, 20)]


@pytest.mark.parametrize(("shape", "clusters", "rate", "effect"), FEW + FINE)
def test_intervals_of_a_rate_and_of_a_difference_of_the_same_items_cover_the_truth(shape, clusters, rate, effect):
    """A sample of the table in docs/statistics.md; 0.92 is three standard errors below 95 %."""
    random, sizes = np.random.default_rng(7), SHAPES[shape](clusters)
    ends = [designed_interval(random, sizes, rate, effect) for _ in range(500)]
    assert np.mean([low <= rate <= high for low, high in ends]) >= 0.92
    ends = [designed_difference(random, sizes, (rate, 0.5), effect) for _ in range(300)]
    assert np.mean([low <= rate - 0.5 <= high for low, high in ends]) >= 0.9


def test_clusters_count_one_by_one_only_where_few_of_them_carry_the_rate():
    """By hand: 16² / 10² of 1 and 3 is 1.6; 0.75 of five clusters are 3.75. Even clusters keep their precision."""
    size = np.full(5, 100)
    few, even = (clustered_mean(np.array(own), size) for own in ([0, 0, 0, 1, 3], [30, 28, 35, 31, 29]))
    assert (few.carriers, few.has_few_carriers, even.has_few_carriers) == (pytest.approx(1.6), True, False)
    assert proportion_interval(few) == pytest.approx(stats_interval(0.008, 5))
    assert np.diff(proportion_interval(even)) < 0.15
    values = np.array([1.0, 0.99, 0.98, 1.0, 1.0, 0.9])
    bounded = clustered_mean(values, np.ones(6, int), (-1, 1))
    wanted = stats_interval((1 + values.mean()) / 2, 6)
    assert bounded_interval(bounded, -1, 1) == pytest.approx([2 * end - 1 for end in wanted])


def stats_interval(share, n):
    """Clopper and Pearson's, from SciPy's distribution."""
    x = share * n
    return stats.beta.ppf(0.025, x, n - x + 1), stats.beta.ppf(0.975, x + 1, n - x)


def test_the_degrees_of_freedom_do_not_depend_on_the_unit():
    sums, sizes = np.array([9.0, 1, 2, 1, 3, 2]), np.array([4, 2, 3, 1, 5, 2])
    wide, narrow = clustered_mean(sums, sizes), clustered_mean(1e-3 * sums, sizes)
    assert narrow.freedom == pytest.approx(wide.freedom)


def test_a_single_cluster_tells_nothing_and_the_design_effect_of_clusters_that_agree_is_their_size():
    """Kish: 1 + (20 - 1) · 1, but for c / (c - 1) in place of n / (n - 1)."""
    assert [interval([successes], [7]) for successes in (0, 3, 7)] == [(None, None)] * 3
    single = clustered_mean(np.array([3.0]), np.array([2]))
    assert (single.freedom, single.equal_clusters, student_interval(single)) == (0.0, 1.0, (None, None))
    assert student_interval(clustered_mean(np.zeros(6), np.full(6, 2))) == (None, None)
    mean = clustered_mean(np.array([20, 0] * 50), np.full(100, 20))
    assert mean.design_effect == pytest.approx(20 * (100 / 99) * (1999 / 2000))
    assert clustered_mean(np.array([1, 0] * 50), np.ones(100, int)).design_effect == pytest.approx(1)
    assert clustered_mean(np.array([5, 0]), np.array([5, 5])).design_effect == pytest.approx(5 * 2 * (9 / 10))
    for sums, size in (([0, 0], 3), ([3, 3], 3), ([2], 3), ([1 / 3], 1)):  # nothing tells it
        assert clustered_mean(np.array(sums), np.full(len(sums), size)).design_effect is None


def test_crossed_clusters_add_up_and_are_never_better_than_one_kind_alone():
    """By a plain loop over pairs of observations that share a cluster."""
    random = np.random.default_rng(3)
    first, second = np.repeat(np.arange(40), 5), random.integers(0, 30, 200)
    values = (random.random(200) < 0.3 + 0.4 * (first % 2) * (second % 2)).astype(float)
    mean, swapped = crossed_mean(values, first, second), crossed_mean(values, second, first)
    sums = {}
    for kind, labels in {"first": first, "second": second, "both": list(zip(first, second, strict=True))}.items():
        totals, sizes = {}, Counter(labels)
        for label, deviation in zip(labels, values - values.mean(), strict=True):
            totals[label] = totals.get(label, 0) + deviation
        sums[kind] = math.fsum(total**2 / (1 - sizes[label] / 200) for label, total in totals.items()) / 200**2
    assert [mean.variance, swapped.variance] == pytest.approx([sums["first"] + sums["second"] - sums["both"]] * 2)
    assert mean.clusters == swapped.clusters == 30
    for _ in range(50):
        first, second = np.repeat(np.arange(6), 4), np.tile(np.arange(4), 6)
        values = random.random(24) ** 3
        both = crossed_mean(values, first, second)
        alone = [clustered_mean(*cluster_sums(values, kind)) for kind in (first, second)]
        assert both.variance >= max(one.variance for one in alone) - 1e-12
        assert both.freedom == pytest.approx(min(one.freedom for one in alone))
