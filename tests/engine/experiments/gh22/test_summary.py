"""The summary: counts over the items of a run, and rates, drops and tests of hand-made items."""

import polars as pl
import pytest
from negengine.engine.experiments.gh22.gh22_items import summarise

from .conftest import LEXICON


def test_rates_and_drops_are_counts_over_items(finished):
    cell = ["condition", "split", "metric"]
    split = pl.format("{}@{}", "pattern", "rank")
    rates = {"repetition_rate": pl.col("repeated"), "ungrammatical": ~pl.col("top1_is_verb")}
    items = finished.items.select("condition", **rates, split=split).unpivot(index=cell[:2], variable_name="metric")
    wanted = items.group_by(cell).agg(pl.col("value").mean(), n=pl.len().cast(pl.Int64))
    sides = wanted.filter(metric="repetition_rate").with_columns(metric=pl.lit("drop"))
    signed = pl.when(pl.col("split").str.contains("P")).then("value").otherwise(-pl.col("value"))
    drops = sides.group_by("condition", pl.col("split").str.replace("[PN]", ""), "metric", "n").agg(signed.sum())
    both = finished.summary.join(pl.concat([wanted, drops.select(wanted.columns)]), on=cell, suffix="_counted")
    assert len(both) == len(wanted) + len(drops) == 3 * 3 * (8 + 8 + 4)
    assert both["value"].to_list() == pytest.approx(both["value_counted"].to_list())
    assert set(both["n"]) == {LEXICON.n_pairs}


def values(outcomes, condition="original") -> dict:
    """Split and metric → value, low and high; an outcome of a pair is (P repeated, N repeated, N's top-1 a verb)."""
    rows = [
        row
        for pair, (positive, negative, verb) in enumerate(outcomes)
        for row in (
            (condition, pair, 50, "1P", positive, True, True, False),
            (condition, pair, 50, "1N", negative, True, verb, False),
        )
    ]
    names = ("condition", "pair", "rank", "pattern", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
    summary = summarise(pl.DataFrame(rows, schema=names, orient="row"))
    assert set(summary["dataset"]) == {"GH22"}
    assert set(summary["condition"]) == {condition}
    return {row[:2]: row[2:] for row in summary.select("split", "metric", "value", "low", "high").iter_rows()}


def test_the_drop_is_the_difference_of_the_two_rates_on_the_same_pairs():
    """P repeats in 8 of 10, N in 3: drop 0.5. Six pairs repeat in P alone, one in N alone.

    McNemar: p = 2 · (C(7,0) + C(7,1)) / 2⁷ = 0.125; the only test, so Holm leaves it.
    """
    outcomes = [(True, False, True)] * 6 + [(True, True, True)] * 2 + [(False, True, False)] + [(False, False, False)]
    found = values(outcomes)
    assert {key: row[0] for key, row in found.items()} == pytest.approx(
        {
            ("1P@50", "repetition_rate"): 0.8,
            ("1N@50", "repetition_rate"): 0.3,
            ("1P@50", "ungrammatical"): 0,
            ("1N@50", "ungrammatical"): 0.2,
            ("1@50", "drop"): 0.5,
            ("1@50", "p:repetition_rate"): 0.125,
            ("1@50", "p_holm:repetition_rate"): 0.125,
            ("ACT@50", "act_not_a_verb"): 1,
        }
    )
    _, low, high = found["1@50", "drop"]
    assert low < 0.5 < high
    # Any of the three verbs counts in the coordinated variant alone.
    assert values([(False, False, True)] * 4, "coordinated")["1P@50", "repetition_rate:any"][0] == 1


@pytest.mark.parametrize("outcome", [(True, True, True), (True, False, True)])
def test_a_drop_that_is_the_same_for_all_pairs_still_has_an_interval(outcome):
    """Eight pairs that agree do not tell the drop exactly; and no drop can be above 100 percentage points."""
    value, low, high = values([outcome] * 8)["1@50", "drop"]
    assert -1 <= low <= value <= high <= 1
    assert low < high
