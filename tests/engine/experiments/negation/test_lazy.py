"""Lazy selection finds what exhaustive selection keeps, and its estimates are right."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.experiments.negation.lazy import fewest_tests, first_repeating, share_interval


def run(repeats, order, enough):
    asked, told = [], []

    def decide(pair, verb):
        asked.append((pair, verb))
        return repeats[pair, verb]

    return first_repeating(order, enough, decide, told.append), asked, told


def random_case(seed, pairs, verbs, rate):
    random = np.random.default_rng(seed)
    repeats = random.random((pairs, verbs)) < rate
    order = random.permuted(np.tile(np.arange(verbs), (pairs, 1)), axis=1)
    return repeats, order


def kept(repeats, order, enough):
    """The first `enough` repeating verbs of each pair, the obvious way."""
    return [[verb for verb in row if repeats[pair, verb]][:enough] for pair, row in enumerate(order)]


@given(
    seed=st.integers(0, 10**6),
    pairs=st.integers(1, 12),
    verbs=st.integers(1, 60),
    rate=st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0]),
    enough=st.integers(1, 25),
)
def test_the_first_repeating_verbs_are_those_of_an_exhaustive_run(seed, pairs, verbs, rate, enough):
    repeats, order = random_case(seed, pairs, verbs, rate)
    found, _, _ = run(repeats, order, enough)
    assert kept(found.repeated, order, enough) == kept(repeats, order, enough)


@given(seed=st.integers(0, 10**6), rate=st.sampled_from([0.0, 0.1, 0.5, 1.0]), enough=st.integers(1, 8))
def test_no_candidate_is_tested_twice_all_are_counted_and_progress_ends_at_enough_verbs_a_pair(seed, rate, enough):
    repeats, order = random_case(seed, 7, 40, rate)
    found, asked, told = run(repeats, order, enough)
    candidates = [pair * 40 + verb for pairs, verbs in asked for pair, verb in zip(pairs, verbs, strict=True)]
    assert len(candidates) == len(set(candidates)) == found.tested.sum()
    assert sum(told) == 7 * enough
    assert min(told) >= 0


def test_pairs_that_always_or_never_have_enough():
    """As many tests as are wanted; or the whole pair, which is counted exactly."""
    found, asked, _ = run(np.ones((4, 100), bool), np.tile(np.arange(100), (4, 1)), 20)
    assert (found.tested == 20).all()
    assert len(asked) == 1
    assert (found.repeating == 100).all()
    repeats, order = random_case(1, 9, 50, 0.1)
    found, _, _ = run(repeats, order, 50)
    assert (found.tested == 50).all()
    assert (found.repeating == repeats.sum(axis=1)).all()
    assert (found.variance == 0).all()
    # A share that is counted has no uncertainty; a variance of zero is no certainty: 0.025^(1/3) = 0.29.
    assert share_interval(0.02, 0.0, pairs=9, stopped=0, enough=20) == (0.02, 0.02)
    low, high = share_interval(1.0, 0.0, pairs=3, stopped=3, enough=1)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 3)), 1)


@pytest.mark.parametrize("enough", [1, 2, 3, 4])
@pytest.mark.parametrize("verbs", [1, 2, 5, 8])
def test_the_estimate_and_its_variance_are_unbiased(verbs, enough):
    """Over all orders in which any number of repeating verbs can come, each as likely: exactly, not by a sample.

    Also where the last verb is the one that makes it enough, and for one verb a pair.
    """
    for repeating in range(verbs + 1):
        orders = itertools.combinations(range(verbs), repeating)
        repeats = np.array([[verb in chosen for verb in range(verbs)] for chosen in orders])
        found, _, _ = run(repeats, np.tile(np.arange(verbs), (len(repeats), 1)), enough)
        assert found.repeating.mean() == pytest.approx(repeating)
        assert found.variance.mean() == pytest.approx(found.repeating.var())


def test_a_pair_that_barely_has_enough_is_not_overestimated():
    """22 of 763 verbs repeat, and a pair stops at the 20th. The exact count where the last verb is the 20th to repeat,
    and an estimate elsewhere, had a mean of 22.22."""
    random = np.random.default_rng(11)
    row = np.arange(763) < 22
    repeats = random.permuted(np.tile(row, (4_000, 1)), axis=1)
    found, _, _ = run(repeats, np.tile(np.arange(763), (4_000, 1)), 20)
    error = found.repeating.std() / 4_000**0.5
    assert error < 0.05
    assert abs(found.repeating.mean() - 22) < 3 * error


@pytest.mark.parametrize(
    ("enough", "pairs", "rate"),
    [(1, 5, 0.65), (1, 60, 0.2), (1, 20, 0.97), (3, 20, 0.65), (20, 5, 0.65), (20, 60, 0.03)],
)
def test_the_interval_of_the_share_covers_the_truth(enough, pairs, rate):
    """Pairs with rates of their own; of 200 orders of their verbs, 0.90 is three standard errors below 95 %.

    The normal interval covers 69 % where one verb of five pairs is enough, and 45 % for twenty pairs at 97 %.
    """
    random = np.random.default_rng(2)
    numbers = np.round(100 * random.beta(4 * rate, 4 * (1 - rate), pairs))
    truth, covered = numbers.sum() / (100 * pairs), 0
    order = np.tile(np.arange(100), (pairs, 1))
    for _ in range(200):
        repeats = random.permuted(np.arange(100) < numbers[:, None], axis=1)
        found, _, _ = run(repeats, order, enough)
        share, variance = found.repeating.sum() / repeats.size, found.variance.sum() / repeats.size**2
        low, high = share_interval(share, variance, pairs, int(found.stopped.sum()), enough)
        covered += low - 1e-9 <= truth <= high + 1e-9
    assert covered >= 0.9 * 200


# ---------------------------------------------------------------- how many tests at least


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 25))
def test_no_division_of_the_repetitions_needs_fewer_tests_than_the_bound(repeating, enough):
    """The mean over all orders is exact here: k (V + 1) / (R + 1) tests, or V."""
    verbs = 60
    mean = np.mean([enough * (verbs + 1) / (r + 1) if r >= enough else verbs for r in repeating])
    assert fewest_tests(verbs, enough, float(np.mean(repeating)) / verbs) <= mean + 1e-9


def test_equal_pairs_that_often_repeat_need_as_many_tests_as_the_bound():
    assert fewest_tests(763, 20, 1.0) == pytest.approx(20)
    assert fewest_tests(763, 20, 500 / 763) == pytest.approx(20 * 764 / 501)
    assert fewest_tests(763, 20, 0.0) == pytest.approx(763)
    assert fewest_tests(12, 20, 0.5) == pytest.approx(12)
