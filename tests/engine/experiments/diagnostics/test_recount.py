"""A finished run is verified, and the lies of one item are found by plain recounts or by a sample of all items."""

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie


@pytest.fixture(scope="module")
def run(mini, write, tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnostics")
    return ng.diagnostics(mini.folder, data=write(folder), draws=2, output=folder / "run", progress=False)


@pytest.fixture
def folder(run, tmp_path):
    return copy_without_parts(run.folder, tmp_path / "run")


def test_a_finished_run_has_no_damage(run):
    found = ng.verify(run, sample=1_000)
    assert not found.damage
    [sample] = [check for check in found.checks if "again by" in check.what]
    assert (sample.n, sample.wrong) == (len(run.items), 0)


LIES = {
    "accuracy@1": "an expected word is among the first 1 where its rank says so",
    "top2_probability": "top1_probability is not below top2_probability",
    "good_probability": "probabilities are between 0 and 1",
    "sensitivity": "sensitivity follows from the probabilities",
}


@pytest.mark.parametrize(("column", "what"), LIES.items())
def test_items_that_contradict_themselves_are_found(folder, column, what):
    items = pl.read_parquet(folder / "items.parquet")
    both = (
        items["good_probability"].is_not_null() & items["bad_probability"].is_not_null() & items["rank"].is_not_null()
    )
    row = int(both.arg_max())
    value = {
        "accuracy@1": not items["accuracy@1"][row],
        "top2_probability": 0.99,
        "good_probability": 1.2,
        "sensitivity": not items["sensitivity"][row],
    }
    lie(folder, "diagnostics", "items.parquet", changed(items, row, **{column: value[column]}))
    assert what in damage(ng.verify(folder, sample=0))


def test_a_first_choice_that_the_model_does_not_make_is_found(folder):
    items = pl.read_parquet(folder / "items.parquet")
    lie(folder, "diagnostics", "items.parquet", changed(items, 0, top1="nothing"))
    assert not ng.verify(folder, sample=0).damage
    assert damage(ng.verify(folder, sample=1_000)) == ["items decided again by the reference model"]
