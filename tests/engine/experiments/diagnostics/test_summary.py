"""The summary of items whose figures can be checked by hand."""

import polars as pl
import pytest
from asked_stages import cell
from negengine.engine.experiments.diagnostics.diagnostics import SCHEMA, Diagnostics
from negengine.engine.experiments.items import joined


def hand_made(rows):
    """Items from (dataset, condition, item, cluster, splits, draw, metric, value)."""
    made = []
    for *names, metric, value in rows:
        keys = dict(zip(("dataset", "condition", "item", "cluster", "splits", "draw"), names, strict=True))
        keys["splits"] = joined(keys["splits"])
        made.append({**keys, metric: value, "outside_expected": "", "outside_compared": ""})
    return pl.DataFrame(made, schema=SCHEMA)


def test_shuffles_have_a_mean_over_draws_and_a_deviation_between_them():
    """Four items, three draws with 1, 2 and 3 of them right: 0.25, 0.5, 0.75; mean 0.5, sd √((1/16 + 1/16) / 3)."""
    items = hand_made(
        ("CPRAG-102", "shuffled", f"{i} draw-{d}", f"{i}", ["all", f"draw-{d}"], d, "accuracy@5", i < d)
        for d in (1, 2, 3)
        for i in range(4)
    )
    summary = Diagnostics.summarise(items)
    mean = cell(summary, "CPRAG-102", "shuffled", "all", "accuracy@5")
    assert (mean["value"], mean["n"]) == (0.5, 12)
    spread = cell(summary, "CPRAG-102", "shuffled", "all", "sd:accuracy@5")
    assert (spread["value"], spread["n"]) == (pytest.approx((2 / 16 / 3) ** 0.5), 3)
    assert cell(summary, "CPRAG-102", "shuffled", "draw-3", "accuracy@5")["value"] == 0.75
    # Draws of an item are not independent items: three that all agree say as much as one.
    rows = [
        ("CPRAG-102", "shuffled", f"{i} draw-{d}", f"{i}", ["all", f"draw-{d}"], d, "accuracy@5", i < 4)
        for d in (1, 2, 3)
        for i in range(8)
    ]
    summary = Diagnostics.summarise(hand_made(rows))
    whole, draw = (cell(summary, "CPRAG-102", "shuffled", split, "accuracy@5") for split in ("all", "draw-1"))
    assert whole["high"] - whole["low"] >= draw["high"] - draw["low"]


def test_polarities_are_paired_by_item():
    """Eight affirmative sentences right, seven of their negations wrong: p = 2 · (1/2)⁷ = 1/64, the only test."""
    items = hand_made(
        ("NEG-136-SIMP", "original", f"{i} {polarity}", f"{i}", ["all", polarity], None, "sensitivity", right)
        for i in range(8)
        for polarity, right in (("affirmative", True), ("negative", i == 0))
    )
    summary = Diagnostics.summarise(items)
    key = ("NEG-136-SIMP", "original", "affirmative vs negative")
    assert cell(summary, *key, "difference:sensitivity")["value"] == pytest.approx(7 / 8)
    assert cell(summary, *key, "p:sensitivity")["value"] == pytest.approx(1 / 64)
    assert cell(summary, *key, "p_holm:sensitivity")["value"] == pytest.approx(1 / 64)


def test_a_perturbation_is_paired_by_context():
    """Six contexts of three pairs, all right; without the object one of each pair is wrong: p = 2 · (1/2)³ = 1/4."""
    items = hand_made(
        (
            "ROLE-88",
            condition,
            f"{i}-{order}",
            f"{i}",
            ["all"],
            None,
            "accuracy@1",
            condition == "original" or order < "b",
        )
        for condition in ("original", "-Obj")
        for i in range(3)
        for order in "ab"
    )
    key = ("ROLE-88", "original vs -Obj", "all")
    summary = Diagnostics.summarise(items)
    assert cell(summary, *key, "difference:accuracy@1")["n"] == 6
    assert cell(summary, *key, "difference:accuracy@1")["value"] == pytest.approx(0.5)
    assert cell(summary, *key, "p:accuracy@1")["value"] == pytest.approx(0.25)
