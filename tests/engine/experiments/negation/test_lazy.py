"""Lazy selection finds what exhaustive selection keeps, and its estimates are right."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.experiments.negation.lazy import fewest_tests, first_repeating, share_interval
from negengine.engine.statistics.intervals import exact_proportion_interval


def run(repeats, order=None, enough=1):
    """What is found, which candidates were asked in which rounds, and the progress that was told."""
    order = np.tile(np.arange(repeats.shape[1]), (len(repeats), 1)) if order is None else order
    rounds, told = [], []

    def decide(pair, verb):
        rounds.append(list(zip(pair.tolist(), verb.tolist(), strict=True)))
        return repeats[pair, verb]

    return first_repeating(order, enough, decide, told.append), rounds, told


@given(
    seed=st.integers(0, 10**6),
    pairs=st.integers(1, 12),
    verbs=st.integers(1, 60),
    rate=st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0]),
    enough=st.integers(1, 25),
)
def test_the_first_repeating_verbs_are_found_and_none_is_tested_twice(seed, pairs, verbs, rate, enough):
    random = np.random.default_rng(seed)
    repeats = random.random((pairs, verbs)) < rate
    order = random.permuted(np.tile(np.arange(verbs), (pairs, 1)), axis=1)
    found, rounds, told = run(repeats, order, enough)
    wanted, kept = (
        [[verb for verb in row if which[pair, verb]][:enough] for pair, row in enumerate(order)]
        for which in (repeats, found.repeated)
    )
    assert kept == wanted
    candidates = [candidate for asked in rounds for candidate in asked]
    assert len(candidates) == len(set(candidates)) == found.tested.sum()
    assert sum(told) == pairs * enough  # a pair without so many counts as complete
    assert min(told) >= 0


@pytest.mark.parametrize("enough", [1, 2, 3, 4])
@pytest.mark.parametrize("verbs", [1, 2, 5, 8])
def test_the_estimate_and_its_variance_are_unbiased(verbs, enough):
    """Over all orders in which any number of repeating verbs can come, each as likely: exactly, not by a sample.

    Also where the last verb is the one that makes it enough, and for one verb a pair.
    """
    for repeating in range(verbs + 1):
        orders = itertools.combinations(range(verbs), repeating)
        found, _, _ = run(np.array([[verb in own for verb in range(verbs)] for own in orders]), enough=enough)
        assert found.repeating.mean() == pytest.approx(repeating)
        assert found.variance.mean() == pytest.approx(found.repeating.var())
        assert found.stopped.all() == (repeating >= enough)


def test_the_interval_of_the_share_is_that_of_as_many_independent_candidates_as_have_its_variance():
    """With one verb a pair, of the pairs; exact where no pair's count is an estimate."""
    for (variance, stopped, enough), n in {(0.3 * 0.7 / 50, 5, 3): 50, (0.01, 5, 1): 10}.items():
        wanted = exact_proportion_interval(0.3, n)
        assert share_interval(0.3, variance, 10, stopped, enough) == pytest.approx(wanted)
    assert share_interval(0.3, 0.01, 10, 0, 3) == (0.3, 0.3)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 25))
def test_no_division_of_the_repetitions_needs_fewer_tests_than_the_bound(repeating, enough):
    """The mean over all orders is exact: k (V + 1) / (R + 1) tests, or V. Equal pairs that repeat often need."""
    verbs = 60
    mean = np.mean([enough * (verbs + 1) / (r + 1) if r >= enough else verbs for r in repeating])
    assert fewest_tests(verbs, enough, float(np.mean(repeating)) / verbs) <= mean + 1e-9
    cases = {(763, 20, 1.0): 20, (763, 20, 500 / 763): 20 * 764 / 501, (763, 20, 0.0): 763, (12, 20, 0.5): 12}
    assert {case: fewest_tests(*case) for case in cases} == pytest.approx(cases)
