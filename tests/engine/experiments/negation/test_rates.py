import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.negation.rates import rates
from negengine.engine.statistics.clusters import clustered_mean, crossed_mean, proportion_interval
from negengine.engine.statistics.power import detectable

PATTERNS = [("p0", "p1"), ("p0", "p2")]

TRIPLETS = pl.LazyFrame(
    {
        "triplet": range(6),
        "name": ["Anna", "Anna", "Anna", "Anna", "John", "John"],
        "profession": ["a dancer", "a dancer", "an actor", "an actor", "a dancer", "a dancer"],
        "verb": ["smoke", "sing", "smoke", "dance", "sing", "dance"],
    }
)


def scores(**repeated: list[int]) -> pl.LazyFrame:
    rows = [(i, pattern, bool(r)) for pattern, column in repeated.items() for i, r in enumerate(column)]
    return pl.LazyFrame(rows, schema=["triplet", "pattern", "repeated"], orient="row")


def row(frame: pl.DataFrame, pattern: str) -> dict:
    return frame.row(by_predicate=pl.col("pattern") == pattern, named=True)


# ---------------------------------------------------------------- the table


def test_rates_and_drops_in_percent():
    # 3 of 6 repeat: 50 %; 6 of 6: a drop of 0; 1 of 6: 16.67 %, a drop of 83.33.
    table = rates(
        scores(CpTp=[1] * 6, CpTn=[1, 0, 1, 0, 1, 0], CnTp=[0, 0, 0, 1, 0, 0]), TRIPLETS, ["CpTp", "CpTn", "CnTp"]
    )
    assert table["n"].to_list() == [6, 6, 6]
    assert table["repetitions"].to_list() == [6, 3, 1]
    assert table["repetition_rate"].to_list() == pytest.approx([100, 50, 100 / 6])
    assert table["drop"].to_list() == pytest.approx([0, 50, 500 / 6])


def test_rows_come_in_the_order_asked_for_and_the_order_of_the_scores_does_not_matter():
    ordered = scores(a=[1, 0, 0, 1, 1, 0], b=[0, 1, 1, 1, 0, 0])
    shuffled = ordered.collect().sample(fraction=1, shuffle=True, seed=1).lazy()
    table = rates(shuffled, TRIPLETS, ["b", "a", "c"])
    assert table.equals(rates(ordered, TRIPLETS, ["b", "a", "c"]))
    assert table["pattern"].to_list() == ["b", "a", "c"]
    contract = ["pattern", "n", "repetitions", "repetition_rate", "drop", "drop_low", "drop_high"]
    assert table.columns[:7] == contract
    counts = dict.fromkeys(("n", "repetitions", "pairs", "verbs"), 0)  # of a pattern without scores
    assert row(table, "c") == {"pattern": "c", **counts} | dict.fromkeys(set(table.columns) - {"pattern", *counts})
    with pytest.raises(ValueError, match="not among the triplets"):
        rates(scores(a=[1] * 7), TRIPLETS, ["a"])


def test_the_selecting_pattern_has_no_interval():
    # Its rate is 100 % by construction: an interval would be about nothing.
    table = rates(scores(CpTp=[1] * 6, CpTn=[1] * 6), TRIPLETS, ["CpTp", "CpTn"], selecting="CpTp")
    selecting, other = row(table, "CpTp"), row(table, "CpTn")
    assert (selecting["drop"], selecting["drop_low"], selecting["drop_high"]) == (0.0, None, None)
    assert other["drop_high"] > 0


def test_the_drop_lies_in_its_interval():
    for ones in range(7):
        table = row(rates(scores(a=[1] * ones + [0] * (6 - ones)), TRIPLETS, ["a"]), "a")
        assert 0 <= table["drop_low"] <= table["drop"] <= table["drop_high"] <= 100


def test_pairs_and_verbs_are_clusters_that_cross():
    # Everything depends on the verb: smoke is never repeated, sing and dance always.
    table = row(rates(scores(a=[0, 1, 0, 1, 1, 1]), TRIPLETS, ["a"]), "a")
    assert (table["pairs"], table["verbs"]) == (3, 3)
    wanted = crossed_mean(np.array([0, 1, 0, 1, 1, 1]), np.array([1, 1, 0, 0, 2, 2]), np.array([2, 1, 2, 0, 1, 0]))
    low, high = proportion_interval(wanted)
    assert (table["drop_low_two_way"], table["drop_high_two_way"]) == pytest.approx((100 * (1 - high), 100 * (1 - low)))
    assert table["design_effect_two_way"] == pytest.approx(wanted.design_effect)
    assert table["design_effect_two_way"] > table["design_effect"]
    low, high = proportion_interval(clustered_mean(np.array([1, 1, 2]), np.array([2, 2, 2])))
    assert (table["drop_low"], table["drop_high"]) == pytest.approx((100 * (1 - high), 100 * (1 - low)))


def many(pairs: int, verbs: int, patterns: int) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Scores of random triplets in patterns p0, p1 …, each repeated in about half of the triplets."""
    random = np.random.default_rng(5)
    n = pairs * verbs
    names, words = np.repeat(np.arange(pairs), verbs), np.tile(np.arange(verbs), pairs)
    triplets = pl.LazyFrame({"triplet": range(n), "name": names, "profession": ["x"] * n, "verb": words})
    return scores(**{f"p{i}": random.integers(0, 2, n).tolist() for i in range(patterns)}), triplets


def test_the_detectable_difference_is_the_largest_between_two_patterns():
    frame, triplets = many(30, 10, 3)
    table = rates(frame, triplets, ["p0", "p1", "p2"])
    names, words = np.repeat(np.arange(30), 10), np.tile(np.arange(10), 30)
    own = {key[0]: part["repeated"].to_numpy().astype(float) for key, part in frame.collect().group_by("pattern")}
    between = {pair: 100 * detectable(crossed_mean(own[pair[0]] - own[pair[1]], names, words)) for pair in PATTERNS}
    assert row(table, "p0")["detectable"] == pytest.approx(max(between["p0", "p1"], between["p0", "p2"]))
    # None with five pairs, and none from the selecting pattern.
    assert rates(*many(5, 20, 2), ["p0", "p1"])["detectable"].to_list() == [None, None]
    assert rates(*many(30, 10, 2), ["p0", "p1"], selecting="p0")["detectable"].to_list() == [None, None]
