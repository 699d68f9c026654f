"""Differences of paired outcomes and of two groups, and what a run can find: published cases, SciPy, the formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from negengine.engine.statistics.clusters import (
    cluster_sums,
    clustered_mean,
    crossed_mean,
    proportion_interval,
    student_interval,
)
from negengine.engine.statistics.differences import combined, detectable, paired_difference, unpaired_difference
from negengine.engine.statistics.intervals import proportion
from negengine.engine.statistics.p_values import sign_flips
from scipy import stats


def outcomes(both, only_first, only_second, neither):
    table = [(True, True)] * both + [(True, False)] * only_first + [(False, True)] * only_second
    return np.array(table + [(False, False)] * neither).T


def ends(found):
    return found.value, found.low, found.high


def with_ends(mean):
    return mean.value, *proportion_interval(mean)


def from_the_ends(first, second, correlation):
    """The formula of Zou and Donner (2008), with each step written out."""
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    below = (p - p_low) ** 2 + (q_high - q) ** 2 - 2 * correlation * (p - p_low) * (q_high - q)
    above = (p_high - p) ** 2 + (q - q_low) ** 2 - 2 * correlation * (p_high - p) * (q - q_low)
    return p - q - below**0.5, p - q + above**0.5


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
def test_paired_proportions_have_newcombes_interval(table, wanted):
    """Tables of Newcombe (1998, Statistics in Medicine 17, 2635-2650), with the figures of method 10."""
    assert ends(paired_difference(*outcomes(*table))) == pytest.approx(wanted, abs=5e-5)


def test_unpaired_proportions_have_newcombes_interval():
    """The example (a) of table II, method 10, in Newcombe (1998, Statistics in Medicine 17, 873-890)."""
    found = unpaired_difference(np.arange(70) < 56, np.arange(80) < 48)
    assert ends(found) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    clusters = np.arange(70), 70 + np.arange(80)
    assert unpaired_difference(np.arange(70) < 56, np.arange(80) < 48, clusters) == found


def test_a_correlation_that_the_correction_takes_away_is_none():
    """Newcombe's continuity correction takes n / 2 from the determinant of the table, but not more than there is."""
    for both, only_first, only_second, neither in ((1, 0, 0, 1), (3, 1, 1, 1), (4, 2, 2, 2)):
        n = both + only_first + only_second + neither
        assert 0 < both * neither - only_first * only_second <= n / 2
        sides = [proportion(both + own, n) for own in (only_first, only_second)]
        found = paired_difference(*outcomes(both, only_first, only_second, neither))
        assert ends(found)[1:] == pytest.approx(combined(*sides))


@given(arrays(bool, 20), arrays(bool, 20))
def test_a_difference_lies_in_its_interval_and_has_mcnemars_exact_test(first, second):
    found, turned = paired_difference(first, second), paired_difference(second, first)
    assert -1 - 1e-12 <= found.low <= found.value <= found.high <= 1 + 1e-12
    assert found.low < found.high
    assert ends(turned) == pytest.approx((-found.value, -found.high, -found.low))
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    wanted = stats.binomtest(only_first, only_first + only_second).pvalue if only_first + only_second else 1
    assert found.p == turned.p == pytest.approx(wanted)


def test_numbers_have_students_interval_for_clusters():
    # Sums of the clusters 1, 2, 3 of one item each: mean 2, standard error 1/sqrt(3), t(2) = 4.302653.
    found, half = paired_difference(np.array([1.0, 2, 3]), np.zeros(3)), 4.302653 / 3**0.5
    assert (*ends(found), found.p) == pytest.approx((2, 2 - half, 2 + half, 2 / 2**3), abs=1e-6)


def test_clusters_count_and_not_their_items():
    """240 triplets of 12 pairs, all repeated in one pattern alone: McNemar's p is 1e-72."""
    clusters, every = np.repeat(np.arange(12), 20), np.ones(240, bool)
    apart, same = (paired_difference(every, other, clusters) for other in (~every, every))
    assert (apart.n, apart.clusters, apart.p) == (240, 12, pytest.approx(2 / 2**12))
    assert (apart.low < 1, apart.high) == (True, 1)
    assert (same.low < 0 < same.high, same.detectable) == (True, None)
    for kinds in ([np.zeros(240, int)], [np.zeros(240, int), clusters], [clusters, np.zeros(240, int)]):
        single = paired_difference(every, clusters < 5, *kinds)  # it does not show how clusters differ
        assert (single.low, single.high, single.p, single.detectable) == (None, None, 1.0, None)
        assert (single.value, min(single.clusters, single.crossed or 12)) == (pytest.approx(7 / 12), 1)


@given(arrays(float, 9, elements=st.sampled_from([0, 0.5, 1])), arrays(float, 9, elements=st.sampled_from([0, 0.5, 1])))
def test_differences_of_rates_that_are_means_of_rows_stay_between_minus_1_and_1(first, second):
    """Student's interval of nine differences of rates ends beyond what a difference of rates can be."""
    for clusters in (None, np.arange(9) // 2):
        free, found = (paired_difference(first, second, clusters, **own) for own in ({}, {"range_": (-1, 1)}))
        if free.low is None:
            assert ends(found) == ends(free)
        else:
            assert ends(found)[1:] == (max(free.low, -1), min(free.high, 1))


@pytest.mark.parametrize("seed", range(4))
def test_a_clustered_difference_has_the_interval_of_the_formulas(seed):
    """The correlation is that of the clusters' sums of deviations, the interval of each side its own."""
    random, labels = np.random.default_rng(seed), np.repeat(np.arange(15), 6)
    common, own = random.normal(size=15), random.normal(size=(2, 15))
    sides = zip((common + own)[:, labels], (-0.5, 0.7), strict=True)
    first, second = (side + 0.5 * random.normal(size=90) > limit for side, limit in sides)
    second = second if seed % 2 else ~second  # goes against the first one
    sides = [clustered_mean(*cluster_sums(side, labels)) for side in (first, second)]
    one, other = (
        np.bincount(labels, side) - mean.value * np.bincount(labels)
        for side, mean in zip((first, second), sides, strict=True)
    )
    correlation = (one @ other) / ((one @ one) * (other @ other)) ** 0.5
    assert correlation * (1 if seed % 2 else -1) > 0.1
    found = paired_difference(first, second, labels)
    assert (found.low, found.high) == pytest.approx(from_the_ends(*map(with_ends, sides), correlation))
    assert found.value == pytest.approx(first.mean() - second.mean())
    # Each item has a verb of its own, so verbs add nothing to what pairs explain.
    assert ends(paired_difference(first, second, labels, np.arange(90))) == pytest.approx(ends(found))
    # And the same with a pair of its own for each item, as with `--max-verbs 1`: the verbs are clusters all the same.
    by_verb = paired_difference(first, second, np.arange(90), labels)
    assert ends(by_verb) == pytest.approx(ends(found))
    assert by_verb.p >= found.p > paired_difference(first, second, np.arange(90)).p
    same = np.full(90, bool(seed % 2))  # a side that does not vary has no correlation
    side = clustered_mean(*cluster_sums(same, labels))
    constant = paired_difference(same, second, labels)
    assert ends(constant)[1:] == pytest.approx(from_the_ends(with_ends(side), with_ends(sides[1]), 0.0))


def test_a_crossed_difference_has_the_interval_of_the_formulas():
    random = np.random.default_rng(2)
    pairs, verbs = np.divmod(np.arange(120), 10)
    common = random.normal(size=12)[pairs] + random.normal(size=10)[verbs]
    first, second = (common + random.normal(size=120) > limit for limit in (-0.5, 0.5))
    one, other = (crossed_mean(side, pairs, verbs) for side in (first, second))
    both = crossed_mean(first.astype(float) - second, pairs, verbs)
    correlation = (one.variance + other.variance - both.variance) / 2 / (one.variance * other.variance) ** 0.5
    assert 0.1 < correlation < 1
    wanted = from_the_ends(with_ends(one), with_ends(other), correlation)
    found = paired_difference(first, second, pairs, verbs)
    assert (found.low, found.high) == pytest.approx(wanted)
    # p and what is found are those of the test that finds least: by pairs, by verbs, and by Student's with both.
    differences = first.astype(float) - second
    flips = [sign_flips(cluster_sums(differences, kind)[0]) for kind in (pairs, verbs)]
    assert found.p == pytest.approx(max(*flips, 2 * stats.t.sf(abs(both.value) / both.standard_error, both.freedom)))
    assert found.detectable == pytest.approx(detectable(both, differences, 1.0))
    numbers = paired_difference(first.astype(float), second.astype(float), pairs, verbs)
    assert (numbers.low, numbers.high) == student_interval(both)
    few = paired_difference(first, second, pairs, pairs % 4)  # the fewer ones of the two kinds count
    assert (few.crossed, few.low, few.high) == (4, None, None)
    assert paired_difference(first, second, pairs, pairs % 5).low is not None
    same = paired_difference(first | ~first, first | ~first, pairs, verbs)
    assert (same.low, same.p, same.detectable) == (pytest.approx(-same.high), 1.0, None)
    assert 0.2 < same.high < 0.35  # none of ten verbs has an upper bound of 31 %


def test_independent_numbers_have_welchs_interval():
    random = np.random.default_rng(0)
    first, second = random.normal(1, 1, 12), random.normal(0, 3, 30)
    found = unpaired_difference(first, second)
    wanted = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert ends(found) == pytest.approx((first.mean() - second.mean(), wanted.low, wanted.high))
    assert (found.n, found.clusters) == (42, 42)
    eight = [np.repeat(own, 8) for own in (first, second, np.arange(12), 12 + np.arange(30))]
    repeated = unpaired_difference(*eight[:2], (eight[2], eight[3]))  # clusters of alike items count once
    assert (*ends(repeated), repeated.clusters) == pytest.approx((*ends(found), 42))


def variances(first, second, clusters):
    """Of both means, and their covariance, from the definition: each observation's influence on its mean."""
    influences = []
    for values, labels in zip((first, second), clusters, strict=True):
        own = {}
        for value, label in zip(values, labels, strict=True):
            corrected = len(values) * math.sqrt(1 - np.count_nonzero(labels == label) / len(values))
            own[label] = own.get(label, 0.0) + (value - np.mean(values)) / corrected
        influences.append(own)
    one, other = influences
    shared = math.fsum(one[label] * other[label] for label in one if label in other)
    return *(math.fsum(x**2 for x in own.values()) for own in influences), shared


@pytest.mark.parametrize("kind", ["the same", "others", "some"])
@pytest.mark.parametrize("seed", range(4))
def test_groups_in_clusters_have_the_interval_of_the_formulas(seed, kind):
    """60 and 40 items; some numbers of clusters are missing: in both groups, in one alone, or some of each."""
    random = np.random.default_rng(seed)
    one, other = random.integers(1, 9, 60), random.integers(0, 7, 40)
    one[0], other[0] = 0, 8  # clusters of a single item
    clusters = {"the same": (one, other), "others": (2 * one, 2 * other + 1), "some": (one, other + 4)}[kind]
    numbers = [random.normal(0, 1, 20)[labels] + random.normal(0, 1, len(labels)) for labels in clusters]
    for first, second in (numbers, [own > 0.3 for own in numbers]):
        found = unpaired_difference(first, second, clusters)
        one, other, covariance = variances(first, second, clusters)
        means = [clustered_mean(*cluster_sums(side, own)) for side, own in zip((first, second), clusters, strict=True)]
        value = first.mean() - second.mean()
        if first.dtype == bool:
            wanted = from_the_ends(*map(with_ends, means), covariance / math.sqrt(one * other))
        else:
            freedom = min(mean.freedom for mean in means)
            if kind == "others":
                parts = [variance**2 / mean.freedom for variance, mean in zip((one, other), means, strict=True)]
                freedom = (one + other) ** 2 / sum(parts)
            half = stats.t.ppf(0.975, freedom) * math.sqrt(one + other - 2 * covariance)
            wanted = value - half, value + half
        assert ends(found) == pytest.approx((value, *wanted))
        assert (found.n, found.clusters) == (100, len({*clusters[0], *clusters[1]}))


def test_groups_that_tell_nothing_have_no_interval():
    for first, second in (([1.0, 1.0], [0.0, 0.0]), ([1.0, 2.0], [0.0]), ([1.0], [0.0])):
        assert ends(unpaired_difference(np.array(first), np.array(second)))[1:] == (None, None)
    for clusters in (4, 5):  # fewer than five clusters of several items, in one of the groups
        of = np.arange(9) % clusters
        own = unpaired_difference(np.arange(9.0), np.arange(3.0), (of, np.array([9, 10, 11])))
        assert (own.low is None) == (clusters < 5)
    single = unpaired_difference(np.array([True]), np.array([False]))
    assert (single.value, single.low < 0.5) == (1, True)
    one_cluster = np.zeros(4, int), np.zeros(2, int)
    for other in (one_cluster[1], np.array([1, 2])):  # both groups of single clusters, or one of them
        for kind in (float, bool):
            found = unpaired_difference(np.array([1, 0, 1, 0], kind), np.array([0, 1], kind), (one_cluster[0], other))
            assert ends(found) == (0, None, None)


def found_by(sums, size=1):
    sums = np.array(sums)
    return detectable(clustered_mean(sums, np.full(len(sums), size)), sums, np.inf)


def test_the_detectable_difference_by_hand():
    # Ten clusters of one, 1 and 3 in turn: variance 10/9 · 10 / 100 = 1/9; t(9) has the quantiles 2.262157, 0.883404.
    assert found_by([1.0, 3.0] * 5) == pytest.approx((2.262157 + 0.883404) / 3, abs=1e-6)
    # All signs of five clusters alike have p = 2 / 2⁵ = 0.0625; and what does not vary does not tell what it can find.
    assert found_by([1.0, 2, 1, 2, 1], 3) is None
    assert found_by([1.0, 2, 1, 2, 1, 2], 3) is not None
    assert found_by([2.0] * 30, 4) is None
    # Eight items, +1 and -1 in turn: (2.364624 + 0.896030) · √(8/7 / 8) is 1.23, and rates differ by 1 at most.
    odd = np.arange(8) % 2 == 1
    assert found_by(odd - (~odd).astype(float)) == pytest.approx((2.364624 + 0.896030) / 7**0.5, abs=1e-6)
    assert paired_difference(odd, ~odd).detectable is None


@pytest.mark.parametrize(("items", "differing"), [(300, 1), (300, 5), (1000, 3)])
def test_where_few_items_differ_the_detectable_difference_is_found_in_four_of_five_samples(items, differing):
    """Items that differ do so in one direction, which is the best case: six are needed for a p below 5 %."""
    smallest = found_by([1.0] * differing + [0.0] * (items - differing))
    found = np.random.default_rng(4).random((400, items)) < smallest
    shares = np.mean([sign_flips(sums) <= 0.05 for sums in found.astype(float)])
    assert stats.binom.sf(5, items, smallest) == pytest.approx(0.8)
    assert shares == pytest.approx(0.8, abs=0.06)  # three standard errors
