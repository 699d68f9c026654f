"""Verbs with another form at the mask, or with several accepted ones; and a causal model: up to the verification."""

import shutil
from functools import partial

import negengine as ng
import polars as pl
import pytest

# The bundled model copies verbs, so a second form that is the verb of the context is what it repeats.
VERBS = {"cook": "dance, cook", "sing": "sing, dance", "swim": "swim", "walk": "argue", "sleep": "sleep, unheardof"}


@pytest.fixture(scope="module")
def select(small_lexicon, tmp_path_factory):
    """Selects with a model and the small lexicon, with other lines of verbs."""

    def run(exported, lines, precision="fp32", **options):
        folder = tmp_path_factory.mktemp("run")
        lexicon = shutil.copytree(small_lexicon, folder / "words")
        (lexicon / "verbs.txt").write_text("\n".join(lines))
        model = ng.load(exported.folder, device="cpu", precision=precision)
        return ng.select(model, lexicon=lexicon, output=folder / "run", progress=False, **options)

    return run


@pytest.fixture(scope="module")
def select_forms(select, mini):
    lines = [f"{verb} = {forms}" for verb, forms in VERBS.items()]
    return partial(select, mini, [*lines, "smoke", "laugh", "agree"])


@pytest.fixture(scope="module")
def scores(select_forms):
    return ng.score(select_forms(), progress=False)


def test_any_accepted_form_as_the_first_choice_is_a_repetition_but_not_the_form_in_the_context(scores):
    triplets = scores.triplets.select("triplet", "verb", "verb_at_mask")
    forms = dict(triplets.select("verb", "verb_at_mask").iter_rows())
    assert forms == {verb: VERBS.get(verb, verb).split(", ") for verb in forms}
    assert {"cook", "agree"} <= set(forms)
    assert "walk" not in forms
    items = scores.items.join(triplets, on="triplet")
    accepted = pl.col("verb_at_mask").list.contains(pl.col("top1"))
    assert items.select((pl.col("repeated") == accepted).all()).item()
    cook = items.filter(pl.col("repeated"), verb="cook", top1="cook")
    assert len(cook)
    assert (cook["expected_rank"] > 1).all()  # of the main form, which is not the first choice
    assert (cook["expected_logprob"] < cook["top1_logprob"]).all()


def test_a_run_with_several_forms_is_verified(scores):
    found = ng.verify(scores.folder, sample=40)
    assert not found.damage, found.render("table")
    assert any(check.what.startswith("items decided again") for check in found.checks)


def test_verbs_behind_the_last_one_that_a_pair_keeps_are_not_taken_for_left_out_ones(select_forms):
    assert not ng.verify(select_forms(max_verbs=1), sample=200).damage


@pytest.mark.parametrize("other", [{"precision": "mixed"}, {"lazy": True}])
def test_another_way_selects_the_same_triplets(select_forms, scores, other):
    assert select_forms(**other).triplets.equals(scores.selection.triplets)


@pytest.mark.parametrize(("kind", "verb", "tokens"), [("in-context", "smoke", 1), ("several-tokens", "smoked", 2)])
def test_a_causal_model_selects_words_of_either_kind_and_continues_a_text(select, causal, tmp_path, kind, verb, tokens):
    """It continues every text with `smoked`, which is two of its tokens."""
    exported = causal("gpt2", "smoked")
    run = partial(select, exported, ["smoke", "smoked", "danced", "dance", "unsung"], verbs=kind)
    scored = ng.score(run(), progress=False)
    triplets = scored.selection.triplets
    assert set(triplets["verb"]) == {verb}
    assert len(triplets) > 5
    assert scored.rates["pattern"].to_list() == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]
    assert scored.rates["repetition_rate"][0] == 100
    assert scored.record.metadata["call"]["model"]["task"] == "text-generation"
    sentences = scored.sentences()
    assert set(sentences["expected"]) == {verb}
    assert sentences["sentence"].str.contains(f" {'[MASK]' * tokens}.", literal=True).all()
    shards = [run(lazy=True, shard=f"{i}/2").folder for i in (1, 2)]
    mixed = run(precision="mixed")
    assert mixed.record.counts["decided"] > 0, mixed.record.counts
    for other in (ng.merge(shards, tmp_path / "merged"), mixed):
        assert other.triplets.equals(triplets)
    model = ng.load(exported.folder, device="cpu", precision="fp32")
    found = ng.predict(model, ["Jessica is a dancer. She is happy to", "She is happy to [MASK]."], top=2)
    texts = ["Jessica is a dancer. She is happy to [MASK]", "She is happy to [MASK]."]
    assert found["text"].unique(maintain_order=True).to_list() == texts
    assert found.filter(rank=1)["token"][0] == "smoke"
