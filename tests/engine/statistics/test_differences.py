"""Differences of paired outcomes and of two groups: published cases, SciPy, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from negengine.engine.statistics import (
    cluster_sums,
    clustered_mean,
    combined,
    crossed_interval,
    crossed_mean,
    paired_difference,
    proportion,
    proportion_interval,
    student_interval,
    unpaired_difference,
)
from scipy import stats


def outcomes(both, only_first, only_second, neither):
    table = [(True, True)] * both + [(True, False)] * only_first + [(False, True)] * only_second
    return np.array(table + [(False, False)] * neither).T


def interval(first, second):
    found = paired_difference(first, second)
    return found.value, found.low, found.high


def test_two_samples_have_newcombes_interval_of_unpaired_proportions():
    """Newcombe (1998, Statistics in Medicine 17, 873-890), table II, method 10: 56/70 - 48/80."""
    assert combined(proportion(56, 70), proportion(48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)


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
    assert interval(*outcomes(*table)) == pytest.approx(wanted, abs=5e-5)


@pytest.mark.parametrize("table", [(2, 2, 1, 2), (3, 1, 1, 1), (4, 2, 2, 2)])
def test_a_correlation_that_the_correction_takes_away_is_none(table):
    """Newcombe's continuity correction takes n / 2 from the determinant of the table, but not more than there is."""
    both, only_first, only_second, neither = table
    assert 0 < both * neither - only_first * only_second <= sum(table) / 2
    sides = [proportion(both + own, sum(table)) for own in (only_first, only_second)]
    assert interval(*outcomes(*table))[1:] == pytest.approx(combined(*sides))


@pytest.mark.parametrize("same", [True, False])
def test_outcomes_that_are_all_the_same_do_not_make_a_difference_certain(same):
    """Student's interval is then [0.0, 0.0]. Wilson's interval of 0 in 30 ends at z² / (30 + z²)."""
    always = np.full(30, same)
    end = 1.959964**2 / (30 + 1.959964**2)
    assert interval(always, always) == pytest.approx((0, -end, end), abs=1e-6)


@given(arrays(bool, 20), arrays(bool, 20))
def test_a_difference_lies_in_its_interval_and_changes_its_sign_with_the_side(first, second):
    value, low, high = interval(first, second)
    assert -1 - 1e-12 <= low <= value <= high <= 1 + 1e-12
    assert low < high
    assert interval(second, first) == pytest.approx((-value, -high, -low))


def test_the_interval_of_a_difference_covers_the_truth():
    """500 samples of 80 items with shares of 0.3 and 0.2, which depend on each other; 0.92 is three standard errors
    below 95 %."""
    random = np.random.default_rng(3)
    kinds = random.choice(4, (500, 80), p=[0.15, 0.15, 0.05, 0.65])
    intervals = [interval(own <= 1, (own == 0) | (own == 2)) for own in kinds]
    assert np.mean([low <= 0.1 <= high for _, low, high in intervals]) >= 0.92


@given(arrays(bool, 20), arrays(bool, 20))
def test_items_that_are_right_or_wrong_have_mcnemars_exact_test(first, second):
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    wanted = stats.binomtest(only_first, only_first + only_second).pvalue if only_first + only_second else 1
    assert paired_difference(first, second).p == pytest.approx(wanted)


def test_numbers_have_students_interval_for_clusters():
    # Sums of the clusters 1, 2, 3 of one item each: mean 2, standard error 1/sqrt(3), t(2) = 4.302653.
    found = paired_difference(np.array([1.0, 2, 3]), np.zeros(3))
    assert (found.value, found.low, found.high) == pytest.approx(
        (2, 2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-6
    )
    assert found.p == pytest.approx(2 / 2**3)


def test_twelve_pairs_never_give_more_than_twelve_pairs_can():
    """240 triplets of 12 pairs, all repeated in one pattern alone: McNemar's p is 1e-72."""
    clusters = np.repeat(np.arange(12), 20)
    found = paired_difference(np.ones(240, bool), np.zeros(240, bool), clusters)
    assert (found.n, found.clusters) == (240, 12)
    assert found.p == pytest.approx(2 / 2**12)


def test_items_of_a_single_cluster_are_draws_from_it():
    first, second = np.arange(9) < 7, np.arange(9) < 2
    alone, one = paired_difference(first, second), paired_difference(first, second, np.zeros(9, int))
    assert one == alone
    assert one.clusters == 9


def test_a_clustered_difference_has_a_width_where_all_items_agree_and_ends_at_one():
    clusters = np.repeat(np.arange(8), 5)
    same = paired_difference(np.ones(40, bool), np.ones(40, bool), clusters)
    assert same.low < 0 < same.high
    assert same.detectable is None
    apart = paired_difference(np.ones(40, bool), np.zeros(40, bool), clusters)
    assert apart.low < 1
    assert apart.high == 1


def clustered_samples(clusters, size, rates, count, correlation=0.3, seed=11):
    """Two outcomes of the same items; clusters have rates of their own, which go together."""
    random = np.random.default_rng(seed)
    spread = 1 / correlation - 1
    labels = np.repeat(np.arange(clusters), size)
    for _ in range(count):
        common = random.normal(size=clusters)
        sides = []
        for rate in rates:
            place = stats.norm.cdf(np.sqrt(0.7) * common + np.sqrt(0.3) * random.normal(size=clusters))
            own = stats.beta.ppf(place, rate * spread, (1 - rate) * spread)
            sides.append(random.random(clusters * size) < own[labels])
        yield *sides, labels


@pytest.mark.parametrize(("clusters", "rates"), [(12, (0.5, 0.4)), (30, (0.2, 0.2)), (60, (0.98, 0.8))])
def test_the_interval_of_a_clustered_difference_covers_the_truth(clusters, rates):
    """Of 200 samples; 0.905 is three standard errors below 95 %. As if independent, it would cover 73 to 82 %."""
    truth = rates[0] - rates[1]
    samples = list(clustered_samples(clusters, 20, rates, 200))
    found = [paired_difference(*sample) for sample in samples]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.905
    alone = [paired_difference(first, second) for first, second, _ in samples]
    assert np.mean([one.low <= truth <= one.high for one in alone]) < 0.9


def test_the_clustered_test_rejects_no_more_than_it_says():
    """Two patterns with the same rate, 12 pairs of 20: at most 5 % of 200 samples, and three standard errors."""
    samples = list(clustered_samples(12, 20, (0.3, 0.3), 200))
    p = [paired_difference(*sample).p for sample in samples]
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5
    alone = [paired_difference(first, second).p for first, second, _ in samples]
    assert np.mean(np.array(alone) <= 0.05) > 0.1


def test_pairs_and_verbs_that_do_not_matter_give_the_interval_of_pairs():
    """Each item has a verb of its own, so verbs add nothing to what pairs explain."""
    first, second = next(iter(clustered_samples(20, 5, (0.6, 0.4), 1)))[:2]
    pairs = np.repeat(np.arange(20), 5)
    alone = paired_difference(first, second, pairs)
    assert crossed_interval(first, second, pairs, np.arange(100)) == pytest.approx((alone.low, alone.high))


def test_crossed_numbers_have_students_interval():
    random = np.random.default_rng(4)
    first, second = random.normal(0.5, 1, 60), random.normal(0, 1, 60)
    pairs, verbs = np.divmod(np.arange(60), 6)
    difference = crossed_mean(first - second, pairs, verbs)
    assert crossed_interval(first, second, pairs, verbs) == student_interval(difference)
    assert difference.clusters == 6


def test_crossed_outcomes_that_are_all_the_same_are_not_certain():
    every = np.ones(60, bool)
    pairs, verbs = np.divmod(np.arange(60), 6)
    low, high = crossed_interval(every, every, pairs, verbs)
    assert low == pytest.approx(-high)
    assert 0.3 < high < 0.6  # six verbs: none of six has an upper bound of 46 %


def from_the_ends(first, second, correlation):
    """The formula of Zou and Donner (2008), with each step written out."""
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    below = (p - p_low) ** 2 + (q_high - q) ** 2 - 2 * correlation * (p - p_low) * (q_high - q)
    above = (p_high - p) ** 2 + (q - q_low) ** 2 - 2 * correlation * (p_high - p) * (q - q_low)
    return p - q - below**0.5, p - q + above**0.5


@pytest.mark.parametrize("correlation", [-1.0, -0.4, 0.0, 0.5])
def test_two_values_are_combined_with_the_ends_that_face_each_other(correlation):
    first, second = (0.7, 0.6, 0.75), (0.4, 0.1, 0.6)
    wanted = from_the_ends(first, second, correlation)
    assert combined(first, second, correlation) == pytest.approx(wanted)


def test_ends_that_move_together_leave_nothing_to_be_uncertain_of():
    assert combined((0.7, 0.6, 0.8), (0.4, 0.3, 0.5), 1.0) == pytest.approx((0.3, 0.3))


def with_ends(mean):
    return mean.value, *proportion_interval(mean)


@pytest.mark.parametrize("seed", range(4))
def test_a_clustered_difference_has_the_interval_of_the_formulas(seed):
    """The correlation is that of the clusters' sums of deviations, the interval of each side its own."""
    first, second, labels = next(iter(clustered_samples(15, 6, (0.6, 0.3), 1, seed=seed)))
    second = second if seed % 2 else ~second  # goes against the first one
    sides = [clustered_mean(*cluster_sums(side, labels)) for side in (first, second)]
    one, other = (
        np.bincount(labels, side) - mean.value * np.bincount(labels)
        for side, mean in zip((first, second), sides, strict=True)
    )
    correlation = (one @ other) / ((one @ one) * (other @ other)) ** 0.5
    assert correlation * (1 if seed % 2 else -1) > 0.1
    wanted = from_the_ends(with_ends(sides[0]), with_ends(sides[1]), correlation)
    found = paired_difference(first, second, labels)
    assert (found.low, found.high) == pytest.approx(wanted)
    assert found.value == pytest.approx(first.mean() - second.mean())


def test_a_side_that_is_always_the_same_has_no_correlation():
    _, second, labels = next(iter(clustered_samples(8, 5, (0.6, 0.3), 1)))
    for same in (np.ones(40, bool), np.zeros(40, bool)):
        sides = [clustered_mean(*cluster_sums(side, labels)) for side in (same, second)]
        found = paired_difference(same, second, labels)
        assert (found.low, found.high) == pytest.approx(from_the_ends(*map(with_ends, sides), 0.0))


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
    assert crossed_interval(first, second, pairs, verbs) == pytest.approx(wanted)


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
