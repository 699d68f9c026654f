"""The texts of a run: those that were judged, and what the model said."""

import math

import negengine as ng
import polars as pl
import pytest

COLUMNS = ["item", "condition", "sentence", "expected", "answer", "correct", "failed", "rank", "logprob"]


@pytest.fixture
def run(mini, write, seen_ids, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    return ng.diagnostics(str(mini.folder), data=write(data), draws=2, output=tmp_path / "run", progress=False)


def test_all_sentences_are_those_that_the_model_judged(run, mini_tokenizer, seen_ids):
    rows = run.sentences()
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    other_articles = ["A hammer is an [MASK].", "A hammer is not a [MASK]."]  # only in the columns of what is compared
    texts = [*rows["sentence"].to_list(), *other_articles]
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(texts)} == seen_ids


def test_every_item_is_one_sentence_with_its_answer(run):
    items, rows = run.items, run.sentences()
    assert rows.select("item", "condition", "dataset").equals(items.select("item", "condition", "dataset"))
    assert rows["answer"].equals(items["top1"])
    assert rows["correct"].equals(items["accuracy@1"], null_equal=True)


def test_a_negative_context_fails_by_its_sensitivity(run):
    rows = run.sentences().filter(pl.col("dataset") == "NEG-136-SIMP")
    affirmative, negative = rows.rows(named=True)
    assert affirmative["expected"] == "tool"
    assert affirmative["failed"] is not affirmative["correct"]
    assert (negative["sentence"], negative["expected"]) == ("A hammer is not an [MASK].", "insect")
    assert negative["correct"] is None
    assert negative["failed"] is not negative["sensitivity"]


def test_the_log_probability_is_that_of_the_one_expected_word(run):
    rows = run.sentences()
    one = rows.filter((pl.col("dataset") == "CPRAG-102") & (pl.col("condition") == "original")).row(0, named=True)
    assert one["logprob"] == pytest.approx(math.log(one["good_probability"]))
    several = rows.filter(pl.col("expected").str.contains("|", literal=True))
    assert several["logprob"].is_null().all()
