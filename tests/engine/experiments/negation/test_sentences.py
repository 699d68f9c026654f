"""The sentences of a selection and a scoring: the texts that were judged, and what the model said."""

import negengine as ng
import polars as pl
import pytest
from negengine.engine.experiments.negation.negation_runs import ScoresRun
from negengine.engine.experiments.negation.triplet_sentences import scored_sentences
from negengine.engine.text.pattern_files import load_patterns

COLUMNS = ["item", "condition", "sentence", "expected", "answer", "repeated", "failed", "rank", "logprob"]


@pytest.fixture(scope="module")
def sentences(scored_run):
    return ng.open(scored_run).sentences()


def test_all_sentences_are_those_that_the_model_judged(selected_run, mini, mini_tokenizer, seen_ids, tmp_path):
    model = ng.load(mini.folder, device="cpu", precision="fp32")
    run = ng.score(selected_run, model=model, output=tmp_path / "run", progress=False)
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(run.sentences()["sentence"].to_list())} == seen_ids


def test_every_score_is_one_sentence_with_its_answer_and_no_model_is_needed(sentences, scored_run):
    run = ScoresRun.open(scored_run)
    run.selection.record.metadata["model folder"] = "/gone"
    assert run.sentences().equals(sentences)
    assert sentences.columns[: len(COLUMNS)] == COLUMNS
    kept = {"item": "triplet", "condition": "pattern", "answer": "top1", "rank": "expected_rank"}
    kept |= {"repeated": "repeated", "logprob": "expected_logprob", "answer_logprob": "top1_logprob"}
    found = sentences.select(**{there: here for here, there in kept.items()}).sort("triplet", "pattern")
    assert found.equals(run.items.select(kept.values()).sort("triplet", "pattern"))
    first = sentences.filter(condition="CnTp").row(0, named=True)
    who, pronoun = f"{first['name']} is {first['profession']}", first["pronoun"].capitalize()
    assert first["sentence"] == f"{who} who doesn't like to {first['verb']}. {pronoun} is happy to [MASK]."
    assert first["expected"] == first["verb"]


def test_a_repetition_fails_where_the_negation_forbids_it_only(sentences, scored_run):
    forbidden, run = pl.col("role") == "forbidden", ng.open(scored_run)
    assert sentences.select((pl.col("failed") == (pl.col("repeated") == forbidden)).all()).item()
    triplets = run.selection.triplets.lazy()  # as if the target was about another person: nothing is forbidden
    rows = scored_sentences(run.items.lazy(), triplets, load_patterns(), "other-gender", "[MASK]").collect()
    assert rows.select((pl.col("failed").is_null() == forbidden).all()).item()


def test_a_selection_has_the_sentences_of_its_triplets(selected_run, sentences):
    rows = ng.open(selected_run).sentences()
    unknown = ("logprob", "answer_logprob", "precision")
    assert rows.columns == sentences.columns
    assert rows.select(unknown).null_count().row(0) == (len(rows),) * 3
    assert rows.drop(unknown).equals(sentences.filter(condition="CpTp").drop(unknown))
