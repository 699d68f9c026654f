"""The sentences of a run: the texts that were judged, and what the model said."""

import polars as pl
from negengine.engine.experiments.gh22.gh22 import gh22

COLUMNS = ["item", "condition", "sentence", "expected", "answer", "repeated", "failed", "rank", "logprob"]


def test_all_sentences_are_those_that_the_model_judged(mini, mini_tokenizer, seen_ids, tmp_path):
    run = gh22(str(mini.folder), pairs=3, ranks=[1, 50], output=tmp_path / "run", progress=False)
    chooses = {tuple(ids.tolist()) for ids in mini_tokenizer.encode(_contexts(run.acts))}
    texts = run.sentences()["sentence"].to_list()
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(texts)} == seen_ids - chooses


def _contexts(acts):
    return acts.select(pl.format("{} is {} and {} likes to [MASK]", "name", "profession", "pronoun")).to_series()


def test_every_item_is_one_sentence_with_its_answer(finished):
    rows = finished.sentences()
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    kept = {"item": "pair", "condition": "condition", "pattern": "pattern", "act_rank": "rank", "expected": "act"}
    kept |= {"answer": "top1", "repeated": "repeated", "rank": "expected_rank", "logprob": "expected_logprob"}
    key = ["item", "condition", "pattern", "act_rank"]
    items = finished.items.select(**kept).sort(key)
    assert rows.select(*kept).sort(key).equals(items)


def test_a_repetition_fails_after_a_negative_context_only(finished):
    rows = finished.sentences()
    negative = pl.col("pattern").str.ends_with("N")
    assert (rows.filter(negative)["failed"] == rows.filter(negative)["repeated"]).all()
    assert (rows.filter(~negative)["failed"] != rows.filter(~negative)["repeated"]).all()
