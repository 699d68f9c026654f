"""The summary of own stimuli: rates and means, pairs with a test, other groups without."""

import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.probe.probe_items import summarise
from negengine.engine.experiments.probe.probe_sentences import Columns
from negengine.engine.statistics.differences import paired_difference, unpaired_difference

LOGPROBS = [-1.0, -2.0, -4.0, -1.5, -3.0, -3.5]
A, B = np.array(LOGPROBS[::2]), np.array(LOGPROBS[1::2])  # the groups


def items(**columns):
    known = {"row": range(1, 7), "target_column": "target", "logprob": LOGPROBS, "repeats_word": False}
    return pl.DataFrame(
        {**known, "is_top1": [True, False, False, True, False, True], "group": ["a", "b"] * 3, **columns}
    )


def summary(frame, targets=("target",), **columns):
    """Split, metric and condition → the row."""
    found = summarise(frame, Columns("sentence", targets, groups=("group",), **columns))
    assert set(found["dataset"]) == {"stimuli"}
    return {(row["split"], row["metric"], row["condition"]): row for row in found.to_dicts()}


def test_rates_and_means_of_all_rows_and_of_groups_that_are_compared_without_a_test():
    found = summary(items())
    assert found["all", "is_top1", "target"]["value"] == pytest.approx(0.5)
    assert found["group=a", "logprob", "target"]["value"] == pytest.approx(A.mean())
    assert found["group=b", "is_top1", "target"]["n"] == 3
    row, wanted = found["group=a vs group=b", "difference:logprob", "target"], unpaired_difference(A, B)
    assert [row[name] for name in ("value", "low", "high")] == pytest.approx([wanted.value, wanted.low, wanted.high])
    assert row["n"] == 6
    assert not [metric for _, metric, _ in found if metric.startswith("p")]


def test_rows_of_one_item_are_a_minimal_pair():
    split, wanted = "group=a vs group=b", paired_difference(A, B)
    found = summary(items(pair=[1, 1, 2, 2, 3, 3]), item="pair")
    assert found[split, "difference:logprob", "target"]["value"] == pytest.approx(wanted.value)
    assert found[split, "p:logprob", "target"]["value"] == pytest.approx(wanted.p)
    assert found[split, "p_holm:logprob", "target"]["tests"] == 2
    assert found[split, "difference:is_top1", "target"]["n"] == 3
    # Several rows of one item and group count by their mean.
    row = summary(items(pair=[1, 1, 1, 2, 2, 2], group=["a", "b", "a", "a", "b", "b"]), item="pair")[
        split, "difference:logprob", "target"
    ]
    assert (row["value"], row["n"]) == (pytest.approx(np.mean([-2.5 + 2.0, -1.5 + 3.25])), 2)


def test_two_targets_of_a_row_are_compared():
    both = pl.concat([items(), items(target_column="other", logprob=-2.25)])
    found, condition = summary(both, ("target", "other")), "target vs other"
    assert found["all", "preferred", condition]["value"] == pytest.approx(0.5)
    assert found["group=a", "difference:logprob", condition]["value"] == pytest.approx(-8 / 3 + 2.25)
    assert found["all", "p:logprob", condition]["n"] == 6


def test_clusters_rows_without_a_group_and_many_groups():
    frame = items(speaker=["x", "x", "x", "y", "y", "y"], group=["a", None, "a", "b", "b", None])
    found = summary(frame, cluster="speaker")
    row = found["all", "logprob", "target"]
    assert (row["n"], row["clusters"], found["group=a", "logprob", "target"]["n"]) == (6, 2, 2)
    many = pl.concat([items(group=f"{name}{i}") for i in range(3) for name in "abc"])
    splits = {split for split, _, _ in summary(many)}
    assert splits == {"all", *(f"group={name}{i}" for i in range(3) for name in "abc")}
