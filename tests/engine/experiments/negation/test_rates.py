"""Rates, drops and their intervals, from hand-made scores."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.experiments.negation.rates import rates
from negengine.engine.statistics.clusters import clustered_mean, crossed_mean, proportion_interval
from negengine.engine.statistics.differences import paired_difference

TRIPLETS = pl.LazyFrame(
    {
        "triplet": range(6),
        "name": ["Anna", "Anna", "Anna", "Anna", "John", "John"],
        "profession": ["a dancer", "a dancer", "an actor", "an actor", "a dancer", "a dancer"],
        "verb": ["smoke", "sing", "smoke", "dance", "sing", "dance"],
    }
)


def scores(**repeated) -> pl.LazyFrame:
    """For each pattern, whether the verb of each triplet is repeated; in no order."""
    rows = [(i, pattern, bool(r)) for pattern, column in repeated.items() for i, r in enumerate(column)]
    frame = pl.DataFrame(rows, schema=["triplet", "pattern", "repeated"], orient="row")
    return frame.sample(fraction=1, shuffle=True, seed=1).lazy()


def row(frame: pl.DataFrame, pattern: str) -> dict:
    return frame.row(by_predicate=pl.col("pattern") == pattern, named=True)


def drop_ends(mean) -> list:
    low, high = proportion_interval(mean)
    return [100 * (1 - high), 100 * (1 - low)]


def test_rates_and_drops_in_percent_come_in_the_order_asked_for():
    found = scores(CpTp=[1] * 6, CpTn=[1, 0, 1, 0, 1, 0], CnTp=[0, 0, 0, 1, 0, 0])
    table = rates(found, TRIPLETS, ["CpTp", "CnTp", "CpTn", "none"], selecting="CpTp")
    contract = "pattern n repetitions repetition_rate drop drop_low drop_high"
    assert table.columns[:7] == contract.split()
    assert table.select("pattern", "n", "repetitions", "pairs", "verbs").rows() == [
        ("CpTp", 6, 6, 3, 3),
        ("CnTp", 6, 1, 3, 3),
        ("CpTn", 6, 3, 3, 3),
        ("none", 0, 0, 0, 0),
    ]
    assert table["repetition_rate"].to_list() == [100, pytest.approx(100 / 6), 50, None]
    assert table["drop"].to_list() == [0, pytest.approx(500 / 6), 50, None]
    # The rate of the selecting pattern is 100 % by construction: an interval would be about nothing.
    estimates = ["drop_low", "drop_high", *table.columns[table.columns.index("design_effect") :]]
    for pattern in ("CpTp", "none"):
        assert set(row(table.select("pattern", *estimates), pattern).values()) == {pattern, None}
    with pytest.raises(ValueError, match="not among the triplets"):
        rates(scores(a=[1] * 7), TRIPLETS, ["a"])


@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_the_drop_lies_in_its_intervals(repeated):
    table = row(rates(scores(a=repeated), TRIPLETS, ["a"]), "a")
    for kind in ("", "_two_way"):
        assert 0 <= table[f"drop_low{kind}"] <= table["drop"] <= table[f"drop_high{kind}"] <= 100


def test_pairs_and_verbs_are_clusters_that_cross():
    # Everything depends on the verb: smoke is never repeated, sing and dance always.
    table = row(rates(scores(a=[0, 1, 0, 1, 1, 1]), TRIPLETS, ["a"]), "a")
    both = crossed_mean(np.array([0, 1, 0, 1, 1, 1]), np.array([1, 1, 0, 0, 2, 2]), np.array([2, 1, 2, 0, 1, 0]))
    assert [table["drop_low_two_way"], table["drop_high_two_way"]] == pytest.approx(drop_ends(both))
    assert table["design_effect_two_way"] == pytest.approx(both.design_effect)
    by_pair = clustered_mean(np.array([1, 1, 2]), np.array([2, 2, 2]))
    assert [table["drop_low"], table["drop_high"]] == pytest.approx(drop_ends(by_pair))
    assert table["design_effect"] == pytest.approx(by_pair.design_effect)


@pytest.mark.parametrize(("pairs", "verbs", "selecting"), [(30, 10, None), (5, 20, None), (30, 10, "p0")])
def test_the_detectable_difference_is_the_largest_from_another_pattern_but_the_selecting_one(pairs, verbs, selecting):
    """None with five pairs."""
    random, pair, verb = np.random.default_rng(5), np.repeat(np.arange(pairs), verbs), np.tile(np.arange(verbs), pairs)
    own = {f"p{i}": random.integers(0, 2, len(pair)) for i in range(3)}
    own["p1"] = np.where(verb == 0, own["p1"], own["p2"])  # p0 differs more from p2 than p1 does
    triplets = pl.LazyFrame({"triplet": range(len(pair)), "name": pair, "profession": "x", "verb": verb})
    table = rates(scores(**own), triplets, [*own], selecting)
    others = [name for name in own if name not in {"p2", selecting}]
    wanted = [paired_difference(own[name] > 0, own["p2"] > 0, pair, verb).detectable for name in others]
    known = [100 * value for value in wanted if value is not None]
    assert row(table, "p2")["detectable"] == (pytest.approx(max(known)) if known else None)
    assert (pairs == 5) == (not known)
