"""What compare is told of a run's items."""

import polars as pl
import pytest
from negengine.engine.basics.reading import file_sha256
from negengine.engine.experiments.finished_run import SummaryRun
from negengine.engine.experiments.items import ITEMS_FILE, by_split
from negengine.engine.runs.record import Done, StageRecord

ITEMS = pl.DataFrame(
    {
        "dataset": ["D", "D"],
        "condition": ["original", "original"],
        "item": ["one", "two"],
        "splits": ["all|H", "all"],
        "cluster": ["a", "b"],
        "right": [True, None],
        "score": [0.25, 0.5],
    }
)


class Example(SummaryRun):
    metrics = ("right", "score")
    condition_keys = ("data sha256", "seed")

    def tables(self):
        return []


@pytest.fixture
def run(tmp_path):
    ITEMS.write_parquet(tmp_path / ITEMS_FILE)
    identity = {"model": "m", "data sha256": "d", "seed": 3}
    return Example(
        tmp_path, StageRecord(identity, parts=1, done=Done({ITEMS_FILE: file_sha256(tmp_path / ITEMS_FILE)}))
    )


def test_an_item_has_an_outcome_in_each_split_for_each_metric_that_applies(run):
    assert sorted(run.outcomes().rows()) == [
        ("D", "original", "H", "right", "one", 1.0, "a"),
        ("D", "original", "H", "score", "one", 0.25, "a"),
        ("D", "original", "all", "right", "one", 1.0, "a"),
        ("D", "original", "all", "score", "one", 0.25, "a"),
        ("D", "original", "all", "score", "two", 0.5, "b"),
    ]


def test_only_the_named_keys_must_agree(run):
    assert run.conditions == {"data sha256": "d", "seed": 3}


def test_a_cell_of_several_splits_is_a_row_for_each():
    assert by_split(ITEMS).select("item", "splits").rows() == [("one", "all"), ("one", "H"), ("two", "all")]
