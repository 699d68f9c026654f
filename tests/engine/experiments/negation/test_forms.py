"""Verbs with another form at the mask, and with several accepted ones, from the words to the verification."""

import shutil

import negengine as ng
import polars as pl
import pytest
from negengine.engine.experiments.negation.triplet_checks import recount_scores

# The bundled model copies verbs, so a second form that is the verb of the context is what it repeats.
VERBS = {"cook": "dance, cook", "sing": "sing, dance", "swim": "swim", "walk": "argue", "sleep": "sleep, unheardof"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small_lexicon):
    folder = shutil.copytree(small_lexicon, tmp_path_factory.mktemp("words") / "words")
    lines = [f"{verb} = {forms}" for verb, forms in VERBS.items()]
    (folder / "verbs.txt").write_text("\n".join([*lines, "smoke", "laugh", "agree"]))
    return folder


def select(mini, folder, output, precision="fp32", **options):
    model = ng.load(mini.folder, device="cpu", precision=precision)
    return ng.select(model, lexicon=folder, output=output, progress=False, **options)


@pytest.fixture(scope="module")
def scores(mini, folder, tmp_path_factory):
    return ng.score(select(mini, folder, tmp_path_factory.mktemp("run") / "forms"), progress=False)


def test_any_accepted_form_as_the_first_choice_is_a_repetition_but_not_the_form_in_the_context(scores):
    triplets = scores.triplets.select("triplet", "verb", "verb_at_mask")
    forms = dict(triplets.select("verb", "verb_at_mask").iter_rows())
    assert forms == {verb: VERBS.get(verb, verb) for verb in forms}
    assert {"cook", "agree"} <= set(forms)
    assert "walk" not in forms
    items = scores.items.join(triplets, on="triplet")
    accepted = pl.col("verb_at_mask").str.split(", ").list.contains(pl.col("top1"))
    assert items.select((pl.col("repeated") == accepted).all()).item()
    cook = items.filter(pl.col("repeated"), verb="cook", top1="cook")
    assert len(cook)
    assert (cook["expected_rank"] > 1).all()  # of the main form, which is not the first choice
    assert (cook["expected_logprob"] < cook["top1_logprob"]).all()


def test_a_run_with_several_forms_is_verified_and_a_wrong_repetition_found(scores):
    found = ng.verify(scores.folder, sample=40)
    assert not found.damage, found.render("table")
    assert any(check.what.startswith("items decided again") for check in found.checks)
    wrong = scores.items.with_columns(top1=pl.when(pl.col("repeated")).then(pl.lit("argue")).otherwise("top1"))
    patterns = [pattern.name for pattern in scores.selection.patterns.all]
    recounts = recount_scores(wrong, scores.selection.triplets, scores.rates, patterns)
    assert [found.what for found in recounts if found.wrong] == [
        "the first choice is the verb where the verb is repeated"
    ]


@pytest.mark.parametrize("other", [{"precision": "mixed"}, {"lazy": True}])
def test_another_way_selects_the_same_triplets(mini, folder, scores, tmp_path, other):
    assert select(mini, folder, tmp_path / "run", **other).triplets.equals(scores.selection.triplets)
