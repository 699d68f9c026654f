"""A finished run is verified, and the lies of one item are found by plain recounts or by a sample of all pairs."""

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie


@pytest.fixture
def folder(finished, tmp_path):
    return copy_without_parts(finished.folder, tmp_path / "run")


def test_a_finished_run_has_no_damage(finished, classifier):
    checkpoint, _ = classifier
    found = ng.verify(finished, sample=len(finished.items), torch=str(checkpoint))
    assert not found.damage
    samples = [(check.what, check.n) for check in found.checks if "again by" in check.what]
    n = len(finished.items)
    assert samples == [("pairs decided again by the reference model", n), ("pairs decided again by PyTorch", n)]


LIES = {
    "correct": "a pair is right where both labels are the same",
    "probability": "the label given is the most probable one",
    "predicted": "answer follows from predicted",
}


@pytest.mark.parametrize(("column", "what"), LIES.items())
def test_items_that_contradict_themselves_are_found(folder, column, what):
    items = pl.read_parquet(folder / "items.parquet")
    answer = items["answer"][0]
    other = next(label for label in items["predicted"].unique() if (label == "entailment") != (answer == "entailment"))
    value = {"correct": not items["correct"][0], "probability": 0.1, "predicted": other}[column]
    lie(folder, "nli", "items.parquet", changed(items, 0, **{column: value}))
    assert what in damage(ng.verify(folder, sample=0))


def test_accuracies_are_counted_again(folder):
    summary = pl.read_parquet(folder / "summary.parquet")
    row = int((summary["metric"] == "accuracy").arg_max())
    lie(folder, "nli", "summary.parquet", changed(summary, row, value=summary["value"][row] + 0.01))
    found = damage(ng.verify(folder, sample=0))
    assert "accuracies and drops of summary.parquet are those of the items" in found
    assert "tables follow from items.parquet" in found


def test_a_probability_that_the_model_does_not_give_is_found(folder):
    items = pl.read_parquet(folder / "items.parquet")
    lie(folder, "nli", "items.parquet", changed(items, 0, probability=(1 + items["probability"][0]) / 2))
    assert not ng.verify(folder, sample=0).damage
    assert damage(ng.verify(folder, sample=len(items))) == ["pairs decided again by the reference model"]
