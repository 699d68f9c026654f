"""The summary of own stimuli: rates and means, pairs with a test, other groups without."""

import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.probe.probe_items import summarise
from negengine.engine.experiments.probe.probe_sentences import Columns
from negengine.engine.statistics.differences import paired_difference, unpaired_difference

GROUPED = Columns("sentence", ("target",), groups=("group",))
LOGPROBS = [-1.0, -2.0, -4.0, -1.5, -3.0, -3.5]


def items(**columns):
    n = len(LOGPROBS)
    return pl.DataFrame(
        {
            "row": list(range(1, n + 1)),
            "target_column": ["target"] * n,
            "is_top1": [True, False, False, True, False, True],
            "logprob": LOGPROBS,
            "repeats_word": [False] * n,
            "group": ["a", "b"] * 3,
            **columns,
        }
    )


def row(summary, split, metric, condition="target"):
    return summary.filter(split=split, metric=metric, condition=condition).row(0, named=True)


def test_rates_and_means_of_all_rows_and_of_groups_that_are_compared_without_a_test():
    found = summarise(items(), GROUPED)
    assert row(found, "all", "is_top1")["value"] == pytest.approx(0.5)
    assert row(found, "group=a", "logprob")["value"] == pytest.approx(np.mean([-1, -4, -3]))
    assert row(found, "group=b", "is_top1")["n"] == 3
    assert set(found["dataset"]) == {"stimuli"}
    difference = row(found, "group=a vs group=b", "difference:logprob")
    wanted = unpaired_difference(np.array([-1.0, -4.0, -3.0]), np.array([-2.0, -1.5, -3.5]))
    assert [difference[name] for name in ("value", "low", "high")] == pytest.approx(
        [wanted.value, wanted.low, wanted.high]
    )
    assert difference["n"] == 6
    assert not found["metric"].str.starts_with("p").any()


def test_rows_of_one_item_are_a_minimal_pair():
    columns, split = Columns("sentence", ("target",), groups=("group",), item="pair"), "group=a vs group=b"
    found = summarise(items(pair=[1, 1, 2, 2, 3, 3]), columns)
    wanted = paired_difference(np.array([-1.0, -4.0, -3.0]), np.array([-2.0, -1.5, -3.5]))
    assert row(found, split, "difference:logprob")["value"] == pytest.approx(wanted.value)
    assert row(found, split, "p:logprob")["value"] == pytest.approx(wanted.p)
    assert row(found, split, "p_holm:logprob")["tests"] == 2
    assert row(found, split, "difference:is_top1")["n"] == 3
    # Several rows of one item and group count by their mean.
    found = summarise(items(pair=[1, 1, 1, 2, 2, 2], group=["a", "b", "a", "a", "b", "b"]), columns)
    difference = row(found, split, "difference:logprob")
    assert (difference["value"], difference["n"]) == (pytest.approx(np.mean([-2.5 + 2.0, -1.5 + 3.25])), 2)


def test_two_targets_of_a_row_are_compared():
    both = pl.concat([items(), items().with_columns(target_column=pl.lit("other"), logprob=pl.lit(-2.25))])
    found = summarise(both, Columns("sentence", ("target", "other"), groups=("group",)))
    assert row(found, "all", "preferred", "target vs other")["value"] == pytest.approx(0.5)
    assert row(found, "group=a", "difference:logprob", "target vs other")["value"] == pytest.approx(-8 / 3 + 2.25)
    assert row(found, "all", "p:logprob", "target vs other")["n"] == 6


def test_clusters_rows_without_a_group_and_many_groups():
    frame = items(speaker=["x", "x", "x", "y", "y", "y"], group=["a", None, "a", "b", "b", None])
    found = summarise(frame, Columns("sentence", ("target",), groups=("group",), cluster="speaker"))
    assert (row(found, "all", "logprob")["n"], row(found, "all", "logprob")["clusters"]) == (6, 2)
    assert row(found, "group=a", "logprob")["n"] == 2
    many = pl.concat([items().with_columns(group=pl.lit(f"{name}{i}")) for i in range(3) for name in "abc"])
    found = summarise(many, GROUPED)
    assert found.filter(pl.col("split").str.contains(" vs ")).is_empty()
    assert found["split"].n_unique() == 10
