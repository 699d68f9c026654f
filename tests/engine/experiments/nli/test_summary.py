"""The summary of hand-made items: accuracies, drops, tests and their intervals."""

import numpy as np
import polars as pl
import pytest
from asked_stages import cell
from negengine.engine.experiments.nli.nli_judgements import ITEMS, summarise
from negengine.engine.experiments.nli.nli_pairs import KINDS
from negengine.engine.statistics.clusters import clustered_mean, proportion_interval
from scipy import stats


def items_of(rows):
    """(condition, item, split, negation, gold, answer) of SNLI, three-way."""
    fixed = {"dataset": "SNLI", "probability": 0.5, "truncated": False, "precision": "fp32"}
    fixed |= {"premise": "a text", "hypothesis": "a hypothesis"}
    names = ("condition", "item", "split", "negation", "gold", "predicted")
    made = (fixed | dict(zip(names, row, strict=True)) for row in rows)
    return pl.DataFrame(made, schema=ITEMS).with_columns(
        id=pl.format("{} {}", "condition", "item"),
        expected="gold",
        answer="predicted",
        correct=pl.col("gold") == pl.col("predicted"),
    )


def new_triples(outcomes):
    """One triple of new pairs for each (a, b, c): whether Tneg-H, T-Hneg and Tneg-Hneg are right."""
    for triple, results in enumerate(outcomes):
        for k, right in enumerate(results):
            yield "new", 3 * triple + k, KINDS[k], True, "neutral", "neutral" if right else "entailment"


def test_types_are_compared_on_the_same_original_pairs():
    """Tneg-H alone is right in 6 triples, T-Hneg alone in 1: p = 2 · (C(7,0) + C(7,1)) / 2⁷ = 16/128 = 0.125.

    Tneg-Hneg is always right. Tneg-H loses 3 to it (1 + 2): p = 2/2³ = 0.25; T-Hneg loses 8: p = 2/2⁸.
    Holm over three: 3 · 2/256, then 2 · 0.125 = 0.25, then 1 · 0.25 = 0.25.
    """
    outcomes = [(True, False, True)] * 6 + [(False, True, True)] + [(True, True, True)] * 4 + [(False, False, True)] * 2
    summary = summarise(items_of(new_triples(outcomes)))
    p = {
        "Tneg-H vs T-Hneg": (0.125, 0.25),
        "Tneg-H vs Tneg-Hneg": (0.25, 0.25),
        "T-Hneg vs Tneg-Hneg": (2 / 256, 6 / 256),
    }
    for split, (raw, adjusted) in p.items():
        assert cell(summary, "SNLI", "new", split, "p:accuracy")["value"] == pytest.approx(raw)
        assert cell(summary, "SNLI", "new", split, "p_holm:accuracy")["value"] == pytest.approx(adjusted)
    difference = cell(summary, "SNLI", "new", "Tneg-H vs T-Hneg", "difference:accuracy")
    assert (difference["value"], difference["n"]) == (pytest.approx(5 / 13), 13)


def test_interval_of_one_type_is_wilsons_and_of_all_pairs_counts_triples():
    """All three pairs of a triple agree, so 30 pairs are no more than 10 draws: the interval is as for 5 of 10."""
    summary = summarise(items_of(new_triples([(True,) * 3] * 5 + [(False,) * 3] * 5)))
    one, every = (cell(summary, "SNLI", "new", split, "accuracy") for split in ("Tneg-H", "all"))
    wilson = stats.binomtest(5, 10).proportion_ci(method="wilson")
    assert (one["low"], one["high"]) == (pytest.approx(wilson.low), pytest.approx(wilson.high))
    assert every["n"] == 30
    assert every["high"] - every["low"] > 0.9 * (one["high"] - one["low"])


def test_negation_share_and_the_drop_from_pairs_with_negation():
    """Four original pairs: one with a cue, wrong; three without, right. New: one triple, all right."""
    original = [("original", i, "", i == 0, "neutral", "neutral" if i else "entailment") for i in range(4)]
    summary = summarise(items_of([*original, *new_triples([(True, True, True)])]))
    assert cell(summary, "SNLI", "original", "all", "negation_share")["value"] == 0.25
    assert cell(summary, "SNLI", "new", "all", "drop")["value"] == pytest.approx(0.75 - 1)
    assert cell(summary, "SNLI", "new", "all", "drop_from_negation")["value"] == pytest.approx(0 - 1)
    assert cell(summary, "SNLI", "new", "all", "relative_drop")["value"] == pytest.approx(1 - 1 / 0.75)
    # Nothing can drop relative to an accuracy of zero.
    assert "relative_drop_from_negation" not in set(summary["metric"])


def test_truncated_share_counts_pairs():
    items = items_of(new_triples([(True, True, True)])).with_columns(truncated=pl.Series([True, False, False]))
    summary = summarise(items)
    assert cell(summary, "SNLI", "new", "all", "truncated")["value"] == pytest.approx(1 / 3)
    assert cell(summary, "SNLI", "new", "Tneg-H", "truncated")["value"] == 1


def test_the_drops_interval_combines_both_with_a_triple_as_one_draw():
    """Eight original pairs, six right; four triples of which 3, 3, 1 and 0 pairs are right."""
    original = [("original", i, "", False, "neutral", "neutral" if i < 6 else "entailment") for i in range(8)]
    triples = [(True, True, True), (True, True, True), (True, False, False), (False, False, False)]
    row = cell(summarise(items_of([*original, *new_triples(triples)])), "SNLI", "new", "all", "drop")
    wilson = stats.binomtest(6, 8).proportion_ci(method="wilson")
    low, high = proportion_interval(clustered_mean(np.array([3, 3, 1, 0]), np.full(4, 3)))
    below, above = np.hypot(6 / 8 - wilson.low, high - 7 / 12), np.hypot(wilson.high - 6 / 8, 7 / 12 - low)
    assert (row["low"], row["high"]) == pytest.approx((row["value"] - below, row["value"] + above))
    assert row["clusters"] == 4
    assert row["value"] == pytest.approx(6 / 8 - 7 / 12)


def test_nothing_right_in_the_new_set_gives_no_interval_of_the_relative_drop_and_no_nan():
    original = [("original", i, "", False, "neutral", "neutral" if i < 6 else "entailment") for i in range(8)]
    summary = summarise(items_of([*original, *new_triples([(False, False, False)] * 3)]))
    for split in (*KINDS, "all"):
        row = cell(summary, "SNLI", "new", split, "relative_drop")
        assert (row["value"], row["low"], row["high"]) == (1.0, None, None)
    assert not summary.select(pl.col("value", "low", "high").is_nan().any()).row(0).count(True)


def test_the_relative_drops_interval_takes_a_triple_as_one_draw():
    """The pairs of a triple agree, so 30 new pairs say as much as ten: the interval is close to that of one type."""
    original = [("original", i, "", False, "neutral", "neutral" if i < 60 else "entailment") for i in range(80)]
    triples = [(True,) * 3] * 5 + [(False,) * 3] * 5
    summary = summarise(items_of([*original, *new_triples(triples)]))
    one, every = (cell(summary, "SNLI", "new", split, "relative_drop") for split in ("Tneg-H", "all"))
    katz = stats.contingency.relative_risk(5, 10, 60, 80).confidence_interval()
    assert (one["low"], one["high"]) == (pytest.approx(1 - katz.high), pytest.approx(1 - katz.low))
    assert every["value"] == one["value"]
    assert every["high"] - every["low"] > 0.9 * (one["high"] - one["low"])
