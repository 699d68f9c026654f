import os
import re
import shutil
from dataclasses import replace

import negengine as ng
import polars as pl
import pytest
from lies import changed, lie, remove_parts
from negengine.engine.experiments.negation.rates import rates
from negengine.engine.inference.again import Compared, Draw, Verdict
from negengine.engine.inference.exported import load_exported, read_manifest, write_manifest
from negengine.engine.results.verification.reference import ExportedReference
from negengine.engine.results.verification.verify import _unused_damage, are_too_many
from negengine.engine.text.lexicon import BUNDLED_LEXICON

from .conftest import check, damage

ITEMS, UNSELECTED = (f"{kind} decided again by the reference model" for kind in ("items", "unselected candidates"))
WORDS = ["woodpecker", "bird", "rustling", "dog", "crackle", "animals"]
DATA = {"sentence": [f"A robin is {not_}a [MASK]." for not_ in ("", "not ") for _ in WORDS], "target": WORDS * 2}
CAUSAL = {"sentence": ["Jessica is happy to [MASK]."] * 3, "target": ["smoked", "unsung", "smoke"]}


@pytest.fixture
def verify(mini):
    return lambda folder, **options: ng.verify(folder, **{"model": mini.folder, "sample": 10_000, **options})


def test_all_items_of_a_run_agree_and_a_seed_draws_the_same_sample(scored, verify):
    found = verify(scored)
    assert not found.damage
    selected, n = (len(pl.read_parquet(scored / f"{name}.parquet")) for name in ("triplets", "scores"))
    items = check(found, "score", ITEMS)
    assert (items.n, items.wrong, items.near_ties) == (n, 0, 0)
    assert items.bound == pytest.approx(1 - 0.05 ** (1 / n))
    assert check(found, "select", ITEMS).n == selected
    assert 0 < check(found, "select", UNSELECTED).n <= 144 - selected
    one, other = (verify(scored, sample=5) for _ in range(2))  # nobody knows the sample beforehand
    seeds = [int(re.fullmatch(r"the samples were drawn with --seed (\d+)", run.notes[-1])[1]) for run in (one, other)]
    again = verify(scored, sample=5, seed=seeds[0])
    assert (seeds[0] != seeds[1], check(one, "score", ITEMS).n) == (True, 5)
    assert (again.notes, again.frame.equals(one.frame), other.damage) == (one.notes, True, ())


def test_as_many_unselected_candidates_are_drawn_as_are_asked_for_though_pairs_have_different_numbers(
    model, small_lexicon, verify, tmp_path
):
    run = ng.select(model, lexicon=small_lexicon, max_verbs=5, output=tmp_path / "run", progress=False)
    every = check(verify(run.folder), "select", UNSELECTED).n
    assert check(verify(run.folder, sample=every), "select", UNSELECTED).n == every > 0


@pytest.mark.everything
def test_scores_that_agree_with_everything_but_the_model_are_found(scored, verify):
    """A repetition that was none: rank, first choice, log-probabilities and rates say the same."""
    remove_parts(scored)
    scores, triplets, own_rates = (
        pl.read_parquet(scored / f"{name}.parquet") for name in ("scores", "triplets", "rates")
    )
    row = int((~scores["repeated"]).arg_max())
    verb = triplets.filter(triplet=scores["triplet"][row])["verb"][0]
    likely = scores["top1_logprob"][row]
    lied = changed(scores, row, repeated=True, expected_rank=1, top1=verb, expected_logprob=likely)
    lie(scored, "score", "scores.parquet", lied)
    names = [pattern.name for pattern in ng.open(scored).selection.patterns.all]
    lie(scored, "score", "rates.parquet", rates(lied.lazy(), triplets.lazy(), names, names[0]))
    assert not verify(scored, sample=0).damage
    found = verify(scored)
    assert damage(found) == [("score", ITEMS)]
    assert "the expected word was first, but now another word was first" in found.damage[0].detail
    assert "parts/score" in found.damage[0].repair
    # Of a low-precision row the decision alone is compared.
    other = {"repeated": False, "expected_rank": scores["expected_rank"][row] + 5, "top1": "zebra"}
    for precision, expected in {"int8": False, "fp32": True}.items():
        lie(scored, "score", "scores.parquet", changed(scores, row, precision=precision, **other))
        lie(scored, "score", "rates.parquet", own_rates)
        assert bool(verify(scored).damage) is expected


def test_a_repeated_verb_that_was_not_selected_is_found(selected, verify):
    remove_parts(selected)
    run = ng.open(selected)
    fewer = run.triplets[1:].with_columns(triplet=run.triplets["triplet"][:-1])
    repeating = int(run.record.counts["repeating"]) - 1
    candidates = run.summary["pairs"] * run.summary["verbs"]
    summary = run.summary | {"selected": len(fewer), "repeating": repeating, "ratio": 100 * repeating / candidates}
    answers = pl.read_parquet(selected / "answers.parquet")
    lie(selected, "select", "triplets.parquet", fewer, rows=len(fewer), repeating=repeating)
    lie(selected, "select", "answers.parquet", answers[1:].with_columns(triplet=answers["triplet"][:-1]))
    lie(selected, "select", "selection.json", summary)
    assert not verify(selected, sample=0).damage
    found = verify(selected)
    assert damage(found) == [("select", UNSELECTED)]
    name, profession, verb = run.triplets.select("name", "profession", "verb").row(0)
    assert f"{name}, {profession}, {verb}: another word was first" in found.damage[0].detail
    other_words = check(verify(selected, lexicon=BUNDLED_LEXICON, sample=1), "select", UNSELECTED)
    assert (str(other_words.outcome), "--lexicon" in other_words.detail) == ("not checked", True)


def test_a_model_that_is_not_that_of_the_run_is_refused_and_one_without_decisions_is_told(
    mini, small_lexicon, detector, tmp_path
):
    folder = shutil.copytree(mini.folder, tmp_path / "models" / "moved")
    run = ng.select(ng.load(folder, device="cpu", precision="fp32"), lexicon=small_lexicon, output=tmp_path / "run")
    _, info = read_manifest(folder)
    info["files"]["model.onnx"] = "0" * 64
    write_manifest(folder, {key: value for key, value in info.items() if key != "content_sha256"})
    with pytest.raises(ng.InputError, match="is not the model of"):
        ng.verify(run, model=folder)
    shutil.rmtree(folder)
    found = ng.verify(run)
    assert not found.damage
    assert "give --model" in check(found, "select", "items decided again").detail
    with pytest.raises(ng.InputError, match="no exported model"):
        ng.verify(run, sample=3)
    # Labels of words are not decided again, and that is said.
    (tmp_path / "text.txt").write_text("It is not so. It is.\n")
    run = ng.cues(detector, tmp_path / "text.txt", output=tmp_path / "cues", progress=False)
    found = check(ng.verify(run, sample=3), "cues", ITEMS)
    assert (str(found.outcome), "not decided again" in found.detail) == ("not checked", True)


def test_a_mixed_run_may_have_as_many_wrong_decisions_as_its_audit_allows():
    cases = [(0, False, 0, False), (1, True, 9, True), (12, False, 99, False), (1, False, 10**5, True)]
    for wrong, is_exact, audited, too_many in [*cases, (30, False, 99, True)]:
        verdicts = [Verdict.AGREES] * (300 - wrong) + [Verdict.WRONG] * wrong
        counts = {"audited": audited, "disagreements": 0} if audited else {}
        assert are_too_many([Compared("", verdict, "", is_exact) for verdict in verdicts], counts) is too_many


def test_pytorch_decides_the_same_items_and_verbs_of_several_tokens_agree(scored, several_tokens_run, verify, tmp_path):
    found = verify(scored, sample=12, torch="mini")
    assert not found.damage
    assert check(found, "score", "items decided again by PyTorch").n == 12
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ng.InputError, match="was exported from another checkpoint"):
        verify(scored, sample=1, torch=str(tmp_path))
    found = verify(several_tokens_run, sample=4)
    checks = [check for check in found.checks if check.what.startswith("items decided again")]
    assert [(check.of, check.wrong, check.n > 0) for check in checks] == [("select", 0, True), ("score", 0, True)]


@pytest.mark.parametrize(
    ("name", "method"),
    [("mini", "left-to-right"), ("mini", "all-masks"), ("mini", "whole-word"), ("gpt2", "whole-word")],
)
def test_every_number_of_a_word_of_several_tokens_is_compared(name, method, mini, causal, tmp_path):
    exported, data = (mini, DATA) if name == "mini" else (causal(name), CAUSAL)
    model, output = ng.load(exported.folder, device="cpu", precision="fp32"), tmp_path / "run"
    run = ng.probe(model, data, method=method, output=output, progress=False)
    reference, counts = ExportedReference(exported), run.items["tokens"]
    [sample] = run.again(Draw(exported, 100, 0))
    assert len(sample.items) == len(counts)
    assert {item.again(reference).verdict for item in sample.items} == {Verdict.AGREES}
    several = [item for item in sample.items if method == "whole-word" or len(item.tokens) > 1]
    assert len(several) == (len(counts) if method == "whole-word" else (counts > 1).sum())
    item = next(item for item in several if len(item.tokens) > 1 and not item.is_first)
    lies = {"rank": 5_000, "logprob": item.logprob - 1, "is_first": True, "answer": "walk", "answer_logprob": -1e-5}
    for field, value in lies.items():
        wrong = replace(item, **{field: value}).again(reference)
        assert (wrong.verdict, "but" in wrong.why) == (Verdict.WRONG, True), field

    class Other(ExportedReference):
        def at(self, ids, position):
            return -super().at(ids, position)

    assert {one.again(Other(exported)).verdict for one in several} == {Verdict.WRONG}


def test_a_run_is_not_verified_by_a_model_that_lost_a_bit_since(scored, exported):
    """Neither size nor time tell: the whole file is read."""
    for name in ("model.int8.onnx_data", "model.onnx_data"):
        before = (path := exported / name).stat()
        content = bytearray(path.read_bytes())
        content[10_000_000] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if "int8" in name:
            found = ng.verify(scored, model=exported, sample=1)  # in fp32
            assert not found.damage
            assert f"{name} is damaged (its sha256 is not that in export.json); this run did not" in found.notes[0]
            with pytest.raises(ng.InputError, match=rf"{name} is damaged"):
                list(_unused_damage(load_exported(exported), in_low_precision=True))
    with pytest.raises(ng.InputError, match=r"model\.onnx_data is damaged"):
        ng.verify(scored, model=exported, sample=1)
