"""`ng.diagnostics`: its sentences, tables, comparisons, methods, and what `verify` finds."""

import math
import shutil

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.diagnostics.diagnostics import Diagnostics
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.citation import cite
from pages import drawn_figures

diagnostics = Diagnostics.function()
COLUMNS = ["item", "condition", "sentence", "expected", "answer", "correct", "failed", "rank", "logprob"]


@pytest.fixture(scope="module")
def data(write, tmp_path_factory):
    """The small tables, with a word that is not one token."""
    return write(tmp_path_factory.mktemp("data"), CPRAG_102=("dog\tcat\tcar", "dog\tqzxqzx\tcar"))


@pytest.fixture(scope="module")
def run(mini, data, tmp_path_factory):
    return diagnostics(mini.folder, data=data, draws=2, output=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_all_sentences_are_those_that_the_model_judged(mini, mini_tokenizer, data, seen_ids, tmp_path):
    run = diagnostics(mini.folder, data=data, draws=2, output=tmp_path / "run", progress=False)
    items, rows = run.items, run.sentences()
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    other_articles = ["A hammer is an [MASK].", "A hammer is not a [MASK]."]  # only in the columns of what is compared
    texts = [*rows["sentence"].to_list(), *other_articles]
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(texts)} == seen_ids
    assert rows["answer"].equals(items["top1"])
    assert rows["correct"].equals(items["accuracy@1"], null_equal=True)
    # A negative context fails by its sensitivity.
    affirmative, negative = rows.filter(dataset="NEG-136-SIMP").rows(named=True)
    assert affirmative["expected"] == "tool"
    assert affirmative["failed"] is not affirmative["correct"]
    assert (negative["sentence"], negative["expected"]) == ("A hammer is not an [MASK].", "insect")
    assert negative["correct"] is None
    assert negative["failed"] is not negative["sensitivity"]
    # The log-probability is that of the one expected word.
    one = rows.filter(dataset="CPRAG-102", condition="original").row(0, named=True)
    assert one["logprob"] == pytest.approx(math.log(one["good_probability"]))
    assert rows.filter(pl.col("expected").str.contains("|", literal=True))["logprob"].is_null().all()


def test_a_run_is_told_cited_drawn_and_compared(run, tmp_path):
    (text,) = cite(run).methods
    assert "the diagnostics of Ettinger, 2020" in text
    assert cite(run).facts["Seeds"] == "0"
    assert run.remarks() == ["CPRAG-102: words that are not one token of the model: 1 (qzxqzx)"]
    assert set(drawn_figures(run)) == {"sensitivity", "accuracy-1", "accuracy-5"}
    frame = compare(run, ng.open(shutil.copytree(run.folder, tmp_path / "copy"))).frame
    assert set(frame["metric"]) == {"accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01"}
    assert frame.filter(dataset="CPRAG-102", condition="shuffled", split="all")["n"].to_list() == [4, 4]
    assert frame["difference"].to_list() == [0] * len(frame)


def test_a_folder_made_with_other_options_and_options_that_cannot_be_are_refused(run, mini, data):
    for change, message in (
        ({"seed": 1}, "seed 0, now 1"),
        ({"draws": 3}, "draws 2, now 3"),
        ({"draws": 0}, "--draws 0: give a number from 1"),
        ({"dataset": "ROLE"}, "--dataset ROLE: did you mean 'ROLE-88'"),
    ):
        with pytest.raises(InputError, match=message):
            diagnostics(mini.folder, **{"data": data, "draws": 2, "output": run.folder, **change})


LIES = {
    "accuracy@1": "an expected word is among the first 1 where its rank says so",
    "top2_probability": "top1_probability is not below top2_probability",
    "good_probability": "probabilities are between 0 and 1",
    "sensitivity": "sensitivity follows from the probabilities",
}


def test_lies_about_an_item_are_found(run, tmp_path):
    """By plain recounts; a first choice that could be one, by the model."""
    folder = copy_without_parts(run.folder, tmp_path / "run")
    items = pl.read_parquet(folder / "items.parquet")
    known = items.select(pl.all_horizontal(pl.col("good_probability", "bad_probability", "rank").is_not_null()))
    row = int(known.to_series().arg_max())
    for column, what in LIES.items():
        value = {"top2_probability": 0.99, "good_probability": 1.2}.get(column, not items[column][row])
        lie(folder, "diagnostics", "items.parquet", changed(items, row, **{column: value}))
        assert what in damage(ng.verify(folder, sample=0))
    lie(folder, "diagnostics", "items.parquet", items)
    found = ng.verify(folder, sample=1_000)
    assert not found.damage
    assert [(check.n, check.wrong) for check in found.checks if "again by" in check.what] == [(len(items), 0)]
    lie(folder, "diagnostics", "items.parquet", changed(items, 0, top1="nothing"))
    assert not ng.verify(folder, sample=0).damage
    assert damage(ng.verify(folder, sample=1_000)) == ["items decided again by the reference model"]
