"""The summary: counts over the items of a run, and rates, drops and tests of hand-made items."""

import polars as pl
import pytest
from asked_stages import cell
from negengine.engine.experiments.gh22.gh22_items import summarise


def summary(outcomes, condition="original"):
    """An outcome of a pair is (P repeated, N repeated)."""
    names = ("condition", "pair", "rank", "pattern", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
    rows = [
        (condition, pair, 50, f"1{side}", repeated, True, True, False)
        for pair, outcome in enumerate(outcomes)
        for side, repeated in zip("PN", outcome, strict=True)
    ]
    return summarise(pl.DataFrame(rows, schema=names, orient="row"))


def test_the_drop_of_the_same_pairs_has_mcnemars_test():
    """P repeats in 8 of 10, N in 3. Six pairs repeat in P alone, one in N alone: p = 2 · (C(7,0) + C(7,1)) / 2⁷."""
    found = summary([(True, False)] * 6 + [(True, True)] * 2 + [(False, True)] + [(False, False)])
    for metric in ("p:repetition_rate", "p_holm:repetition_rate"):
        assert cell(found, "GH22", "original", "1@50", metric)["value"] == pytest.approx(0.125)
    assert cell(found, "GH22", "original", "ACT@50", "act_not_a_verb")["value"] == 1
    # Any of the three verbs counts in the coordinated variant alone.
    found = summary([(False, False)] * 4, "coordinated")
    assert cell(found, "GH22", "coordinated", "1P@50", "repetition_rate:any")["value"] == 1


@pytest.mark.parametrize("outcome", [(True, True), (True, False)])
def test_a_drop_that_is_the_same_for_all_pairs_still_has_an_interval(outcome):
    """Eight pairs that agree do not tell the drop exactly; and no drop can be above 100 percentage points."""
    row = cell(summary([outcome] * 8), "GH22", "original", "1@50", "drop")
    assert -1 <= row["low"] <= row["value"] <= row["high"] <= 1
    assert row["low"] < row["high"]
