"""The difference of two groups, against SciPy and against simulation by hand."""

import math

import numpy as np
import pytest
from negengine.engine.statistics import cluster_sums, clustered_mean, proportion_interval, unpaired_difference
from scipy import stats


@pytest.fixture
def random():
    return np.random.default_rng(0)


def test_independent_numbers_have_welch_s_interval(random):
    first, second = random.normal(1, 1, 12), random.normal(0, 3, 30)
    found = unpaired_difference(first, second)
    wanted = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert found.value == pytest.approx(first.mean() - second.mean())
    assert (found.n, found.clusters) == (42, 42)


def test_independent_proportions_have_newcombe_s_interval():
    """The example (a) of table II in Newcombe (1998): 56/70 and 48/80."""
    found = unpaired_difference(np.arange(70) < 56, np.arange(80) < 48)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_clusters_in_both_groups_take_away_what_they_share(random):
    """Each cluster adds the same to both groups: the difference is known far better than from independent groups."""
    shared = random.normal(0, 5, 40)
    first, second = shared + random.normal(1, 0.1, 40), shared + random.normal(0, 0.1, 40)
    numbers = np.arange(40)
    within = unpaired_difference(first, second, (numbers, numbers))
    without = unpaired_difference(first, second)
    wanted = stats.ttest_rel(first, second).confidence_interval()
    assert within.high - within.low == pytest.approx(wanted.high - wanted.low, rel=0.05)
    assert without.high - without.low > 10 * (within.high - within.low)


def test_clusters_within_groups_count_once(random):
    values = random.normal(0, 1, 10)
    repeated = unpaired_difference(
        values.repeat(8), values.repeat(8) + 1, (np.arange(80) // 8, 10 + np.arange(80) // 8)
    )
    once = unpaired_difference(values, values + 1)
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high))
    assert repeated.clusters == 20


def test_proportions_in_clusters_have_an_interval_within_one(random):
    first, second = random.random(60) < 0.9, random.random(60) < 0.1
    clusters = random.integers(0, 12, 60), random.integers(0, 12, 60)
    found = unpaired_difference(first, second, clusters)
    assert -1 <= found.low < found.value < found.high <= 1


@pytest.mark.parametrize("kind", [np.float64, np.bool_])
def test_one_item_a_group_has_no_interval_or_the_widest(kind):
    found = unpaired_difference(np.array([1], kind), np.array([0], kind))
    assert found.value == 1
    assert found.low is None if kind is np.float64 else found.low < 0.5


# ---------------------------------------------------------------- against the formulas, observation by observation


def variances(first, second, clusters):
    """Of both means, and their covariance, from the definition: each observation's influence on its mean."""
    influences = []
    for values, labels in zip((first, second), clusters, strict=True):
        own = {}
        for value, label in zip(values, labels, strict=True):
            own[label] = own.get(label, 0.0) + (value - np.mean(values)) / len(values)
        influences.append(own)
    one, other = influences
    k = len({**one, **other})
    shared = math.fsum(one[label] * other[label] for label in one if label in other)
    found = [len(own) / (len(own) - 1) * math.fsum(x**2 for x in own.values()) for own in influences]
    return *found, k / (k - 1) * shared if k > 1 else 0.0


def some_clusters(random, kind):
    """Labels of 60 and 40 items, of which some numbers are missing: in both groups, in one alone, or some of each."""
    one, other = random.integers(0, 9, 60), random.integers(0, 7, 40)
    return {"the same": (one, other), "others": (2 * one, 2 * other + 1), "some": (one, other + 4)}[kind]


@pytest.mark.parametrize("kind", ["the same", "others", "some"])
def test_proportions_in_clusters_have_the_interval_of_the_formulas(random, kind):
    for _ in range(5):
        clusters = some_clusters(random, kind)
        first, second = (random.random(20)[labels] + 0.3 * random.random(len(labels)) > 0.6 for labels in clusters)
        found = unpaired_difference(first, second, clusters)
        one, other, covariance = variances(first, second, clusters)
        correlation = covariance / math.sqrt(one * other)
        ends = [
            (side.mean(), *proportion_interval(clustered_mean(*cluster_sums(side, labels))))
            for side, labels in zip((first, second), clusters, strict=True)
        ]
        a, b = ends[0][0] - ends[0][1], ends[1][2] - ends[1][0]
        c, d = ends[0][2] - ends[0][0], ends[1][0] - ends[1][1]
        below, above = (math.sqrt(x**2 - 2 * correlation * x * y + y**2) for x, y in ((a, b), (c, d)))
        value = first.mean() - second.mean()
        assert (found.value, found.low, found.high) == pytest.approx((value, value - below, value + above))
        assert (found.n, found.clusters) == (100, len({*clusters[0], *clusters[1]}))


@pytest.mark.parametrize("kind", ["the same", "others", "some"])
def test_numbers_in_clusters_have_the_interval_of_the_formulas(random, kind):
    for _ in range(5):
        clusters = some_clusters(random, kind)
        first, second = (random.normal(0, 1, 20)[labels] + random.normal(0, 1, len(labels)) for labels in clusters)
        found = unpaired_difference(first, second, clusters)
        one, other, covariance = variances(first, second, clusters)
        means = [clustered_mean(*cluster_sums(side, own)) for side, own in zip((first, second), clusters, strict=True)]
        freedom = min(mean.freedom for mean in means)
        if kind == "others":
            parts = [variance**2 / mean.freedom for variance, mean in zip((one, other), means, strict=True)]
            freedom = (one + other) ** 2 / sum(parts)
        half = stats.t.ppf(0.975, freedom) * math.sqrt(one + other - 2 * covariance)
        value = first.mean() - second.mean()
        assert (found.low, found.high) == pytest.approx((value - half, value + half))


@pytest.mark.parametrize(("first", "second"), [([1.0, 1.0], [0.0, 0.0]), ([1.0, 2.0], [0.0])])
def test_numbers_of_which_a_group_does_not_vary_or_is_alone(first, second):
    found = unpaired_difference(np.array(first), np.array(second))
    assert (found.low, found.high) == (None, None)


def test_clusters_of_one_item_are_independent_items():
    first, second = np.arange(10) < 7, np.arange(8) < 2
    alone = unpaired_difference(first, second)
    assert unpaired_difference(first, second, (np.arange(10), 10 + np.arange(8))) == alone


@pytest.mark.parametrize(("kind", "ends"), [(np.float64, (None, None)), (np.bool_, (-(0.5**0.5), 0.5**0.5))])
def test_a_single_cluster_in_both_groups_tells_nothing(kind, ends):
    first, second = np.array([1, 0, 1, 0], kind), np.array([0, 1], kind)
    found = unpaired_difference(first, second, (np.zeros(4, int), np.zeros(2, int)))
    assert (found.value, found.clusters) == (0, 1)
    assert (found.low, found.high) == (pytest.approx(ends) if kind is np.bool_ else ends)
