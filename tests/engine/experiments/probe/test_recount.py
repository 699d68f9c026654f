"""A finished run is verified, and the lies of one item are found by plain recounts or by a sample of all items."""

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie

DATA = {
    "sentence": ["A robin is a [MASK].", "A robin is not a [MASK].", "A trout is a [MASK]."],
    "target": ["bird", "bird", "fish"],
    "group": ["a", "b", "a"],
}


@pytest.fixture(scope="module")
def run(mini, tmp_path_factory):
    return ng.probe(mini.folder, DATA, top=2, output=tmp_path_factory.mktemp("probe") / "run", progress=False)


@pytest.fixture
def folder(run, tmp_path):
    return copy_without_parts(run.folder, tmp_path / "run")


LIES = {
    "is_top1": (True, "a target that is the first choice has rank 1"),
    "logprob": (
        0.5,
        "log-probabilities are at most 0, and the target's is that of the first choice where its rank is 1",
    ),
    "top2_logprob": (0.5, "top1_logprob is not below top2_logprob"),
    "repeats_word": (True, "the rates of summary.parquet are the means of the items"),
}


@pytest.mark.parametrize("column", LIES)
def test_items_that_contradict_themselves_are_found(folder, column):
    items = pl.read_parquet(folder / "items.parquet")
    value, what = LIES[column]
    assert not items["is_top1"][1]
    lie(folder, "probe", "items.parquet", changed(items, 1, **{column: value}))
    assert what in damage(ng.verify(folder, sample=0))


def test_an_item_that_is_there_twice_is_found(folder):
    items = pl.read_parquet(folder / "items.parquet")
    lie(folder, "probe", "items.parquet", items[[0, 0, 2]])
    assert "each item is there once" in damage(ng.verify(folder, sample=0))


def test_another_first_choice_is_found(folder):
    items = pl.read_parquet(folder / "items.parquet")
    lie(folder, "probe", "items.parquet", changed(items, 1, top1="house"))
    assert "items decided again by the reference model" in damage(ng.verify(folder, sample=20))
