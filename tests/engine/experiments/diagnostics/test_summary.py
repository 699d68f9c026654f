"""The summary of items whose figures can be checked by hand."""

import polars as pl
import pytest
from asked_stages import cell
from negengine.engine.experiments.diagnostics.diagnostics import SCHEMA, Diagnostics


def summary_of(rows):
    """Of items from dataset, condition, item, cluster, splits, draw, metric and value."""
    made = []
    for *names, metric, value in rows:
        keys = dict(zip(("dataset", "condition", "item", "cluster", "splits", "draw"), names, strict=True))
        made.append({**keys, metric: value, "outside_expected": "", "outside_compared": ""})
    return Diagnostics.summarise(pl.DataFrame(made, schema=SCHEMA))


def shuffled(n, right):
    """Three draws of n contexts; right: whether item i is right in draw d."""
    return summary_of(
        ("CPRAG-102", "shuffled", f"{i} draw-{d}", f"{i}", f"all|draw-{d}", d, "accuracy@5", right(i, d))
        for d in (1, 2, 3)
        for i in range(n)
    )


def test_shuffles_have_a_mean_over_draws_and_a_deviation_between_them():
    """Four items, three draws with 1, 2 and 3 of them right: 0.25, 0.5, 0.75; mean 0.5, sd √((1/16 + 1/16) / 3)."""
    summary = shuffled(4, lambda i, d: i < d)
    figures = {("all", "accuracy@5"): (0.5, 12), ("all", "sd:accuracy@5"): (pytest.approx((2 / 16 / 3) ** 0.5), 3)}
    figures |= {("draw-3", "accuracy@5"): (0.75, 4)}
    for key, wanted in figures.items():
        row = cell(summary, "CPRAG-102", "shuffled", *key)
        assert (row["value"], row["n"]) == wanted
    # Draws of an item are not independent items: three that all agree say as much as one.
    summary = shuffled(8, lambda i, _: i < 4)
    whole, draw = (cell(summary, "CPRAG-102", "shuffled", split, "accuracy@5") for split in ("all", "draw-1"))
    assert whole["high"] - whole["low"] >= draw["high"] - draw["low"]


def test_polarities_are_paired_by_item_and_perturbations_by_context():
    """Eight affirmative sentences right, seven of their negations wrong: p = 2 · (1/2)⁷ = 1/64, the only test.

    Six contexts of three pairs, all right; without the object one of each pair is wrong: p = 2 · (1/2)³ = 1/4.
    """
    polarities = summary_of(
        ("NEG-136-SIMP", "original", f"{i} {polarity}", f"{i}", f"all|{polarity}", None, "sensitivity", right)
        for i in range(8)
        for polarity, right in (("affirmative", True), ("negative", i == 0))
    )
    nouns = summary_of(
        ("ROLE-88", name, f"{i}-{order}", f"{i}", "all", None, "accuracy@1", name == "original" or order < "b")
        for name in ("original", "-Obj")
        for i in range(3)
        for order in "ab"
    )
    for summary, *key, metric, n, figures in (
        (polarities, "NEG-136-SIMP", "original", "affirmative vs negative", "sensitivity", 8, (7 / 8, 1 / 64, 1 / 64)),
        (nouns, "ROLE-88", "original vs -Obj", "all", "accuracy@1", 6, (1 / 2, 1 / 4, 1 / 4)),
    ):
        rows = [cell(summary, *key, f"{kind}:{metric}") for kind in ("difference", "p", "p_holm")]
        assert [row["value"] for row in rows] == pytest.approx(figures)
        assert rows[0]["n"] == n
