"""The sentences of a selection and a scoring: the texts that were judged, and what the model said."""

import negengine as ng
import polars as pl
import pytest
from negengine.engine.experiments.negation.negation_runs import ScoresRun, SelectionRun
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


def test_every_score_is_one_sentence_with_its_answer(sentences, scored_run):
    scores = ng.open(scored_run).items
    assert sentences.columns[: len(COLUMNS)] == COLUMNS
    kept = {"item": "triplet", "condition": "pattern", "answer": "top1", "rank": "expected_rank"}
    kept |= {"repeated": "repeated", "logprob": "expected_logprob", "answer_logprob": "top1_logprob"}
    found = sentences.select(**{there: here for here, there in kept.items()}).sort("triplet", "pattern")
    assert found.equals(scores.select(kept.values()).sort("triplet", "pattern"))
    first = sentences.filter(condition="CnTp").row(0, named=True)
    who, pronoun = f"{first['name']} is {first['profession']}", first["pronoun"].capitalize()
    assert first["sentence"] == f"{who} who doesn't like to {first['verb']}. {pronoun} is happy to [MASK]."
    assert first["expected"] == first["verb"]


def test_a_repetition_fails_where_the_negation_forbids_it_only(sentences, scored_run):
    forbidden = pl.col("role") == "forbidden"
    assert (sentences.filter(forbidden)["failed"] == sentences.filter(forbidden)["repeated"]).all()
    assert (sentences.filter(~forbidden)["failed"] != sentences.filter(~forbidden)["repeated"]).all()
    run = ng.open(scored_run)  # as if the target was about another person: nothing is forbidden
    triplets = run.selection.triplets.lazy()
    rows = scored_sentences(run.items.lazy(), triplets, load_patterns(), "other-gender", "[MASK]").collect()
    assert rows.filter(forbidden)["failed"].is_null().all()
    assert rows.filter(~forbidden)["failed"].is_not_null().all()


def test_a_selection_has_the_sentences_of_its_triplets(selected_run, mini_tokenizer, sentences):
    run = ng.open(selected_run)
    rows = run.sentences()
    assert isinstance(run, SelectionRun)
    assert rows.columns == sentences.columns
    assert rows["sentence"].to_list() == sentences.filter(condition="CpTp")["sentence"].to_list()
    assert not rows["failed"].any()
    assert rows["rank"].unique().to_list() == [1]


def test_neither_the_model_nor_the_selection_is_needed_and_a_sample_is_part_of_all(scored_run, sentences):
    run = ScoresRun.open(scored_run)
    run.selection.record.metadata["model folder"] = "/gone"
    assert run.sentences().equals(sentences)
    sample = run.sentences(sample=7, seed=2)
    assert len(sample) == 7
    assert sample.join(sentences, on=["item", "condition"], how="semi").equals(sample)
