"""Verbs of several tokens decided again: what agrees, what is a near-tie, what is wrong."""

import negengine as ng
import numpy as np
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.experiments.negation.runs import ScoresRun, SelectionRun
from negengine.engine.results.verification.agreement import Verdict
from negengine.engine.results.verification.reference import ExportedReference
from negengine.engine.results.verification.several import several_again


class Shifted:
    """The reference model with the logits of one token shifted."""

    name, at_once = "a shifted model", 1

    def __init__(self, exported, token, shift):
        self.reference, self.token, self.shift = ExportedReference(exported), token, shift

    def at(self, ids, position):
        logits = self.reference.at(ids, position).copy()
        logits[self.token] += self.shift
        return logits


def test_a_run_agrees_with_the_reference_model(whole_words_run):
    found = ng.verify(whole_words_run, sample=20)
    checks = [check for check in found.checks if check.what.startswith("verbs of several tokens decided again")]
    assert [check.of for check in checks] == ["select", "score"]
    assert [check.wrong for check in checks] == [0, 0]
    assert all(check.n for check in checks)
    assert not found.damage


@pytest.mark.parametrize("kind", [SelectionRun, ScoresRun])
def test_another_model_is_found(kind, whole_words_run, mini):
    run = kind.open(whole_words_run)
    [first] = mini.tokenizer.encode(["beware"])
    other = Shifted(mini, int(first[1]), -50.0)
    found = several_again(run, mini, other, 1_000, 0)
    verbs = run.sentence_rows().filter(pl.col("tokens") > 1, pl.col("repeated"), pl.col("expected") == "beware")
    n = len(verbs.collect())
    wrong = [compared for compared in found if compared.verdict is Verdict.WRONG and "(beware)" in compared.name]
    assert len(wrong) >= n > 0
    assert "the verb was repeated, but not so now" in wrong[0].why


def test_the_numbers_of_a_row_are_compared(whole_words_run, mini, monkeypatch):
    run, reference = ScoresRun.open(whole_words_run), ExportedReference(mini)
    rows = run.sentence_rows().filter(pl.col("tokens") > 1).head(1).collect()
    changes = {
        "rank": rows["rank"] + 7,
        "logprob": rows["logprob"] - 1,
        "answer_logprob": rows["answer_logprob"] - 1,
        "answer": pl.Series(["walk"]),
    }
    for name, values in changes.items():
        changed = rows.with_columns(values.alias(name)).lazy()
        monkeypatch.setattr(ScoresRun, "sentence_rows", lambda _, changed=changed: changed)
        [compared] = several_again(run, mini, reference, 5, 0)
        assert compared.verdict is Verdict.WRONG, name
        assert "but now" in compared.why


def test_a_decision_within_rounding_is_a_near_tie(whole_words_run, mini):
    run = ScoresRun.open(whole_words_run)
    reference = ExportedReference(mini)
    [own] = mini.tokenizer.word_sequences([("She is happy to ", ".")], ["beware"])

    class Tied(Shifted):
        def at(self, ids, position):
            logits = reference.at(ids, position).copy()
            best = float(np.delete(logits, own).max())
            logits[list(own)] = best - 1e-5
            return logits

    rows = run.sentence_rows().filter(pl.col("tokens") > 1, pl.col("repeated"), pl.col("expected") == "beware")
    assert len(rows.collect())
    found = several_again(run, mini, Tied(mini, 0, 0.0), 1_000, 0)
    repeated = {
        f"{item} (beware) in {condition}" for item, condition in rows.select("item", "condition").collect().rows()
    }
    assert {one.verdict for one in found if one.name in repeated} == {Verdict.NEAR_TIE}


def test_lies_about_verbs_of_several_tokens_are_found_without_parts(whole_words_run, tmp_path):
    """Other results, with the digests that the writer itself would give them."""
    name = "scores_several_tokens.parquet"
    scores = pl.read_parquet(whole_words_run / name)
    row = int(scores.with_row_index().filter("repeated").item(0, "index"))
    lies = {
        "rank": (name, changed(scores, row, expected_rank=5)),
        "logprob": (name, changed(scores, row, expected_logprob=1.0)),
        "top1": (name, changed(scores, row, top1="walk")),
        "repeated": (name, changed(scores, row, repeated=False, expected_rank=2)),
    }
    for number, (file, content) in enumerate(lies.values()):
        folder = copy_without_parts(whole_words_run, tmp_path / str(number))
        lie(folder, "score", file, content)
        assert damage(ng.verify(folder, sample=0)), file


def test_a_lie_about_selected_verbs_of_several_tokens_is_found(whole_words_run, tmp_path):
    name = "triplets_several_tokens.parquet"
    folder = copy_without_parts(whole_words_run, tmp_path / "run")
    lie(folder, "select", name, changed(pl.read_parquet(folder / name), 0, tokens=9))
    found = damage(ng.verify(folder, sample=0))
    assert "verbs of several tokens: each has a number of tokens that the selection knows" in found
