"""Items decided again, one by one: a lie that everything else agrees with is found by a sample of all items."""

import shutil

import negengine as ng
import polars as pl
import pytest
from lies import changed, lie, remove_parts
from negengine.engine.results.verification.agreement import Compared, Verdict
from negengine.engine.results.verification.sample import _are_too_many
from negengine.engine.runs.record import read_run
from negengine.engine.text.lexicon import BUNDLED_LEXICON

ITEMS, UNSELECTED = (f"{kind} decided again by the reference model" for kind in ("items", "unselected candidates"))
ALL = 10_000


@pytest.fixture
def selected(few_selected, tmp_path):
    return shutil.copytree(few_selected, tmp_path / "run")


@pytest.fixture
def verify(mini):
    def run(folder, **options):
        return ng.verify(folder, **{"model": mini.folder, "sample": ALL, **options})

    return run


def check(verification, stage, what):
    [found] = [check for check in verification.checks if (check.of, check.what) == (stage, what)]
    return found


def test_all_items_of_a_run_agree(few, verify):
    found = verify(few)
    assert not found.damage
    triplets, scores = (pl.read_parquet(few / f"{name}.parquet") for name in ("triplets", "scores"))
    candidates = read_run(few).stages["select"].counts["tested"]
    items = check(found, "score", ITEMS)
    assert (items.n, items.wrong, items.near_ties) == (len(scores), 0, 0)
    assert items.bound == pytest.approx(1 - 0.05 ** (1 / len(scores)))
    assert check(found, "select", ITEMS).n == len(triplets)
    assert 0 < check(found, "select", UNSELECTED).n <= candidates - len(triplets)


def test_a_sample_is_as_large_as_asked_for_and_follows_the_seed(few, verify):
    one, same, other = (verify(few, sample=5, seed=seed) for seed in (0, 0, 1))
    assert check(one, "score", ITEMS).n == 5
    assert one.frame.equals(same.frame)
    assert not other.damage


def test_scores_that_agree_with_everything_but_the_model_are_found(few, verify):
    """A repetition that was none: rank, first choice, log-probabilities and rates say the same."""
    remove_parts(few)
    scores, triplets = pl.read_parquet(few / "scores.parquet"), pl.read_parquet(few / "triplets.parquet")
    row = int((~scores["repeated"]).arg_max())
    verb = triplets.filter(triplet=scores["triplet"][row])["verb"][0]
    likely = scores["top1_logprob"][row]
    lied = changed(scores, row, repeated=True, expected_rank=1, top1=verb, expected_logprob=likely)
    lie(few, "score", "scores.parquet", lied)
    run = ng.open(few)
    from negengine.engine.experiments.negation.rates import rates

    names = [pattern.name for pattern in run.selection.patterns.all]
    lie(few, "score", "rates.parquet", rates(lied.lazy(), triplets.lazy(), names, names[0]))
    assert not verify(few, sample=0).damage
    found = verify(few)
    assert [(check.of, check.what) for check in found.damage] == [("score", ITEMS)]
    assert "the expected word was first, but now another word was first" in found.damage[0].detail
    assert "parts/score" in found.damage[0].repair


def test_of_a_low_precision_row_the_decision_alone_is_compared(few, verify):
    remove_parts(few)
    scores = pl.read_parquet(few / "scores.parquet")
    row = int((~scores["repeated"]).arg_max())
    other = {"expected_rank": scores["expected_rank"][row] + 5, "top1": "zebra"}
    for precision, expected in {"int8": False, "fp32": True}.items():
        lie(few, "score", "scores.parquet", changed(scores, row, precision=precision, **other))
        assert bool(verify(few).damage) is expected


def test_a_log_probability_that_is_a_little_off_is_found(few, verify):
    remove_parts(few)
    scores = pl.read_parquet(few / "scores.parquet")
    row = int((~scores["repeated"]).arg_max())
    lie(few, "score", "scores.parquet", changed(scores, row, expected_logprob=scores["expected_logprob"][row] - 0.01))
    assert ("score", ITEMS) in [(check.of, check.what) for check in verify(few).damage]


def test_a_repeated_verb_that_was_not_selected_is_found(selected, verify):
    remove_parts(selected)
    run = ng.open(selected)
    fewer = run.triplets[1:].with_columns(triplet=run.triplets["triplet"][:-1])
    counts = {"rows": len(fewer), "repeating": run.record.counts["repeating"] - 1}
    candidates = run.summary["pairs"] * run.summary["verbs"]
    summary = {**run.summary, "selected": len(fewer), "repeating": round(counts["repeating"])}
    summary["ratio"] = 100 * counts["repeating"] / candidates
    answers = pl.read_parquet(selected / "answers.parquet")
    lie(selected, "select", "triplets.parquet", fewer, **counts)
    lie(selected, "select", "answers.parquet", answers[1:].with_columns(triplet=answers["triplet"][:-1]))
    lie(selected, "select", "selection.json", summary)
    assert not verify(selected, sample=0).damage
    found = verify(selected)
    assert [(check.of, check.what) for check in found.damage] == [("select", UNSELECTED)]
    name, profession, verb = run.triplets.select("name", "profession", "verb").row(0)
    assert f"{name}, {profession}, {verb}: another word was first" in found.damage[0].detail


def test_the_word_lists_of_a_run_are_found_where_it_found_them(selected):
    assert str(check(ng.verify(selected, sample=1), "select", UNSELECTED).outcome) == "ok"


def test_other_word_lists_are_not_taken_for_those_of_the_run(selected):
    found = check(ng.verify(selected, lexicon=BUNDLED_LEXICON, sample=1), "select", UNSELECTED)
    assert str(found.outcome) == "not checked"
    assert "--lexicon" in found.detail


def test_a_model_that_is_not_found_is_said(few):
    record = read_run(few)
    for stage in record.stages.values():
        if "model folder" in stage.metadata:
            stage.metadata["model folder"] = str(few / "nowhere")
    record.write(few)
    found = ng.verify(few)
    assert not found.damage
    assert "give --model" in check(found, "score", "items decided again").detail
    with pytest.raises(ng.InputError, match="no exported model"):
        ng.verify(few, sample=3)


def test_another_model_is_refused(few, exported):
    from negengine.engine.inference.manifest import read_manifest, write_manifest

    _, info = read_manifest(exported)
    info["files"]["model.onnx"] = "0" * 64
    write_manifest(exported, {key: value for key, value in info.items() if key != "content_sha256"})
    with pytest.raises(ng.InputError, match="is not the model of"):
        ng.verify(few, model=exported)


@pytest.mark.parametrize(
    ("wrong", "is_exact", "counts", "too_many"),
    [
        (0, False, {}, False),
        (1, True, {"audited": 10, "disagreements": 0}, True),
        (1, False, {"audited": 100, "disagreements": 0}, False),
        (1, False, {"audited": 100_000, "disagreements": 0}, True),
        (30, False, {"audited": 100, "disagreements": 0}, True),
    ],
)
def test_a_mixed_run_may_have_as_many_wrong_decisions_as_its_audit_allows(wrong, is_exact, counts, too_many):
    right = [Compared("", Verdict.AGREES, "", is_exact)] * (300 - wrong)
    assert _are_too_many([*right, *[Compared("", Verdict.WRONG, "", is_exact)] * wrong], counts) is too_many


def test_the_sample_of_pytorch_agrees(few, verify):
    found = verify(few, sample=12, torch="mini")
    assert not found.damage
    assert check(found, "score", "items decided again by PyTorch").n == 12
    unselected = "unselected candidates decided again by PyTorch"
    assert check(found, "select", unselected).n == check(found, "select", UNSELECTED).n > 0


def test_another_checkpoint_than_that_of_the_run_is_refused(few, verify, tmp_path):
    other = tmp_path / "checkpoint"
    other.mkdir()
    (other / "config.json").write_text("{}")
    with pytest.raises(ng.InputError, match="was exported from another checkpoint"):
        verify(few, sample=1, torch=str(other))


def test_without_pytorch_the_message_says_what_to_install(few, verify, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("negengine.export")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ng.InputError, match="--torch needs torch: pip install"):
        verify(few, sample=1, torch="mini")
