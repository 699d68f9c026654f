"""The queries of a run: the texts that were judged, and what the model said."""

import json

import negengine as ng
import polars as pl
import pytest

COLUMNS = ["item", "condition", "sentence", "expected", "answer", "correct", "failed", "rank", "logprob"]
FACTS = [("Paris", "paris", "France"), ("Rome", "rome", "Italy"), ("London", "london", "England")]


@pytest.fixture
def run(mini, seen_ids, tmp_path):
    path = tmp_path / "TREx.jsonl"
    rows = [
        {
            "relation": "P36",
            "sub_label": land,
            "obj_label": answer,
            "masked_sentence": f"The capital of {land} is [MASK] .",
            **({"masked_negation": f"The capital of {land} is not [MASK] ."} if land != "Italy" else {}),
            "misprimed_low": f"{name}? The capital of {land} is [MASK] .",
        }
        for name, answer, land in FACTS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return ng.lama(str(mini.folder), data=path, output=tmp_path / "run", progress=False)


def test_all_sentences_are_those_that_the_model_judged(run, mini_tokenizer, seen_ids):
    rows = run.sentences()
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    assert rows["condition"].to_list() == ["original"] * 3 + ["negated"] * 2 + ["misprimed-low"] * 3
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(rows["sentence"].to_list())} == seen_ids


def test_a_query_has_its_gold_answer_and_a_negation_none(run):
    items, rows = run.items, run.sentences()
    affirmative = rows.filter(pl.col("condition") != "negated")
    assert affirmative["expected"].to_list() == items["gold"].to_list()
    assert affirmative["answer"].to_list() == items["top1"].to_list()
    assert affirmative["failed"].to_list() == (~items["precision@1"]).to_list()
    negated = rows.filter(condition="negated")
    asked = items.filter(pl.col("negated_query").is_not_null())
    assert negated["answer"].to_list() == asked["negated_top1"].to_list()
    assert negated["failed"].to_list() == asked["overlap@1"].to_list()
    assert negated.select("expected", "correct", "rank", "logprob").null_count().row(0) == (2,) * 4
