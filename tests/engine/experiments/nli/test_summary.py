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


def test_shares_and_drops():
    """Four original pairs: one with a cue, wrong; three without, right. New: one triple, all right, one pair cut."""
    original = [("original", i, "", i == 0, "neutral", "neutral" if i else "entailment") for i in range(4)]
    items = items_of([*original, *new_triples([(True, True, True)])])
    summary = summarise(items.with_columns(truncated=pl.Series([False] * 4 + [True, False, False])))
    wanted = {
        ("original", "all", "accuracy"): 0.75,
        ("original", "all", "majority"): 1,
        ("original", "all", "label_share:neutral"): 1,
        ("original", "negation", "accuracy"): 0,
        ("new", "T-Hneg", "accuracy"): 1,
        ("original", "all", "negation_share"): 0.25,
        ("new", "all", "drop"): 0.75 - 1,
        ("new", "all", "drop_from_negation"): 0 - 1,
        ("new", "all", "relative_drop"): 1 - 1 / 0.75,
        ("new", "all", "truncated"): 1 / 3,
        ("new", "Tneg-H", "truncated"): 1,
    }
    assert {key: cell(summary, "SNLI", *key)["value"] for key in wanted} == pytest.approx(wanted)
    # Nothing can drop relative to an accuracy of zero.
    assert "relative_drop_from_negation" not in set(summary["metric"])


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
    none_right = summarise(items_of([*original, *new_triples([(False,) * 3] * 3)]))
    for split in (*KINDS, "all"):
        row = cell(none_right, "SNLI", "new", split, "relative_drop")
        assert (row["value"], row["low"], row["high"]) == (1.0, None, None)
    assert not none_right.select(pl.col("value", "low", "high").is_nan().any()).row(0).count(True)
