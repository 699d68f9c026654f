"""Items as arrays: their splits, outcomes and clusters."""

import polars as pl
from negengine.engine.experiments.summary import UNKNOWN, ItemArrays, Outcomes, numbered

ITEMS = pl.DataFrame(
    {
        "dataset": ["D", "D", "E", "D"],
        "condition": ["b", "a", "a", "b"],
        "splits": ["H|all", "all", "all", "all|L"],
        "cluster": ["z", None, "a", "z"],
    }
)


def test_splits_have_the_order_of_the_first_items_and_all_comes_first():
    found = [(own.dataset, own.condition, own.name, own.rows.tolist()) for own in ItemArrays(ITEMS).splits]
    assert found == [
        ("D", "b", "all", [0, 3]),
        ("D", "b", "H", [0]),
        ("D", "b", "L", [3]),
        ("D", "a", "all", [1]),
        ("E", "a", "all", [2]),
    ]


def test_clusters_are_numbers_in_the_order_of_their_names():
    assert ItemArrays(ITEMS).clusters.tolist() == [2, UNKNOWN, 1, 2]
    assert numbered(pl.Series([None, None])).tolist() == [UNKNOWN, UNKNOWN]


def test_an_outcome_that_does_not_apply_is_not_known():
    rights, numbers = Outcomes.of(pl.Series([True, None, False])), Outcomes.of(pl.Series([1.5, None]))
    assert (rights.values[rights.known].tolist(), rights.yes_or_no) == ([1, 0], True)
    assert (numbers.values[numbers.known].tolist(), numbers.yes_or_no) == ([1.5], False)
