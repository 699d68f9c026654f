"""The summary: counts over the items of a run, and rates, drops and tests of hand-made items."""

import polars as pl
import pytest
from asked_stages import cell
from negengine.engine.experiments.gh22.gh22_items import summarise

from .conftest import LEXICON, RANKS


def test_rates_and_drops_are_counts_over_items(finished):
    n = LEXICON.n_pairs
    for condition in ("original", "connective", "coordinated"):
        for rank in RANKS:
            repeated = {}
            for polarity in "PN":
                own = finished.items.filter(condition=condition, rank=rank, pattern=f"3{polarity}").rows(named=True)
                assert len(own) == n
                repeated[polarity] = sum(row["repeated"] for row in own) / n
                counted = {"repetition_rate": repeated[polarity]}
                counted["ungrammatical"] = sum(not row["top1_is_verb"] for row in own) / n
                for metric, value in counted.items():
                    found = cell(finished.summary, "GH22", condition, f"3{polarity}@{rank}", metric)
                    assert found["value"] == pytest.approx(value)
            drop = cell(finished.summary, "GH22", condition, f"3@{rank}", "drop")
            assert (drop["value"], drop["n"]) == (pytest.approx(repeated["P"] - repeated["N"]), n)


def items_of(outcomes, condition="original"):
    """For each pair (P repeated, N repeated, N's top-1 a verb): items of patterns 1P and 1N at rank 50."""
    rows = []
    for pair, (positive, negative, verb) in enumerate(outcomes):
        rows.append((condition, pair, 50, "1P", positive, True, True, False))
        rows.append((condition, pair, 50, "1N", negative, True, verb, False))
    names = ("condition", "pair", "rank", "pattern", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
    return pl.DataFrame(rows, schema=names, orient="row")


def test_the_drop_is_the_difference_of_the_two_rates_on_the_same_pairs():
    """P repeats in 8 of 10, N in 3: drop 0.5. Six pairs repeat in P alone, one in N alone.

    McNemar: p = 2 · (C(7,0) + C(7,1)) / 2⁷ = 0.125; the only test, so Holm leaves it.
    """
    outcomes = [(True, False, True)] * 6 + [(True, True, True)] * 2 + [(False, True, False)] + [(False, False, False)]
    summary = summarise(items_of(outcomes))
    wanted = {
        ("1P@50", "repetition_rate"): 0.8,
        ("1N@50", "repetition_rate"): 0.3,
        ("1@50", "drop"): 0.5,
        ("1@50", "p:repetition_rate"): 0.125,
        ("1@50", "p_holm:repetition_rate"): 0.125,
        ("1N@50", "ungrammatical"): 0.2,
        ("ACT@50", "act_not_a_verb"): 1,
    }
    found = {key: cell(summary, "GH22", "original", *key) for key in wanted}
    assert {key: row["value"] for key, row in found.items()} == pytest.approx(wanted)
    assert found["1@50", "drop"]["low"] < 0.5 < found["1@50", "drop"]["high"]
    # Any of the three verbs counts in the coordinated variant alone.
    coordinated = summarise(items_of([(False, False, True)] * 4, "coordinated"))
    assert cell(coordinated, "GH22", "coordinated", "1P@50", "repetition_rate:any")["value"] == 1
    assert "repetition_rate:any" not in set(summary["metric"])


@pytest.mark.parametrize("outcome", [(True, True, True), (True, False, True)])
def test_a_drop_that_is_the_same_for_all_pairs_still_has_an_interval(outcome):
    """Eight pairs that agree do not tell the drop exactly; and no drop can be above 100 percentage points."""
    drop = cell(summarise(items_of([outcome] * 8)), "GH22", "original", "1@50", "drop")
    assert drop["low"] < drop["high"]
    assert -1 <= drop["low"] <= drop["value"] <= drop["high"] <= 1
