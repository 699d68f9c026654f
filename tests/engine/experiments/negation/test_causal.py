"""The Self-Contained Negation Test on a causal model: the same stages, tables and checks as on a masked one."""

import negengine as ng
import polars as pl
import pytest
from negengine.engine.errors import InputError


@pytest.fixture(scope="module")
def model(causal):
    """A model that prefers the verb `smoke` everywhere."""
    return ng.load(causal("gpt2", "smoke").folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def scored(model, small_lexicon, tmp_path_factory):
    run = ng.select(model, lexicon=small_lexicon, output=tmp_path_factory.mktemp("runs") / "causal", progress=False)
    return ng.score(run, progress=False)


def test_verbs_that_the_model_repeats_are_selected_and_scored(scored):
    triplets = scored.selection.triplets
    assert set(triplets["verb"]) == {"smoke"}
    assert len(triplets) > 5
    rates = dict(scored.rates.select("pattern", "repetition_rate").iter_rows())
    assert rates["CpTp"] == 100
    assert set(rates) == {"CpTp", "CnTn", "CpTn", "CnTp", "CpTv"}


def test_sentences_of_the_run_end_as_the_patterns_do(scored):
    sentences = scored.sentences(sample=3)["sentence"]
    assert sentences.str.ends_with(" [MASK].").all()


def test_the_record_says_that_the_model_is_causal(scored):
    assert scored.record.metadata["call"]["model"]["task"] == "text-generation"


def test_a_lazy_selection_in_parts_and_shards_gives_the_same_triplets(scored, model, small_lexicon, tmp_path):
    shards = [
        ng.select(model, lexicon=small_lexicon, lazy=True, shard=f"{i}/2", output=tmp_path / f"{i}", progress=False)
        for i in (1, 2)
    ]
    merged = ng.merge([shard.folder for shard in shards], tmp_path / "merged")
    assert merged.triplets.equals(scored.selection.triplets)


def test_mixed_precision_selects_the_same_triplets(scored, causal, small_lexicon, tmp_path):
    mixed = ng.load(causal("gpt2", "smoke").folder, device="cpu", precision="mixed")
    run = ng.select(mixed, lexicon=small_lexicon, output=tmp_path / "mixed", progress=False)
    assert run.record.counts["decided"] > 0
    assert run.triplets.equals(scored.selection.triplets)


def test_a_run_is_verified(scored, causal_checkpoint):
    found = ng.verify(scored.folder, sample=20, seed=0, torch=str(causal_checkpoint("gpt2", "smoke")))
    assert not found.damage


def test_a_text_is_continued(model):
    found = ng.predict(model, ["Jessica is a dancer. She is happy to", "She is happy to [MASK]."], top=2)
    assert found["text"].unique(maintain_order=True).to_list() == [
        "Jessica is a dancer. She is happy to [MASK]",
        "She is happy to [MASK].",
    ]
    assert found.filter(pl.col("rank") == 1)["token"][0] == "smoke"


def test_words_behind_the_mask_are_refused(model):
    with pytest.raises(InputError, match=r"words follow the mask in 'She is \[MASK\] today\.'"):
        ng.predict(model, ["She is [MASK] today."])
