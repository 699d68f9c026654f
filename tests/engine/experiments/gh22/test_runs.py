"""`ng.gh22`: its sentences, what it refuses, comparisons, methods, and what `verify` finds."""

from dataclasses import replace

import msgspec
import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.experiment import options_of
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22 import Gh22, gh22
from negengine.engine.experiments.gh22.repetitions import Repetitions
from negengine.engine.library.finished import open_run
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.reproduction import reproduce

from .conftest import LEXICON, ORIGINAL, run

COLUMNS = ["item", "condition", "sentence", "expected", "answer", "repeated", "failed", "rank", "logprob"]


@pytest.fixture(scope="module")
def library_run(mini, tmp_path_factory):
    output = tmp_path_factory.mktemp("run") / "gh22"
    return gh22(str(mini.folder), pairs=2, ranks=[1], variant="connective", output=output, progress=False)


def test_all_sentences_are_those_that_the_model_judged(mini, mini_tokenizer, seen_ids, tmp_path):
    run = gh22(str(mini.folder), pairs=3, ranks=[1, 50], output=tmp_path / "run", progress=False)
    contexts = run.acts.select(
        pl.format("{} is {} and {} likes to [MASK]", "name", "profession", "pronoun")
    ).to_series()
    chooses = {tuple(ids.tolist()) for ids in mini_tokenizer.encode(contexts)}
    texts = run.sentences()["sentence"].to_list()
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(texts)} == seen_ids - chooses


def test_a_repetition_fails_after_a_negative_context_only(finished):
    rows = finished.sentences()
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    kept = {"item": "pair", "condition": "condition", "pattern": "pattern", "act_rank": "rank", "expected": "act"}
    kept |= {"answer": "top1", "repeated": "repeated", "rank": "expected_rank", "logprob": "expected_logprob"}
    key = ["item", "condition", "pattern", "act_rank"]
    assert rows.select(*kept).sort(key).equals(finished.items.select(**kept).sort(key))
    negative = pl.col("pattern").str.ends_with("N")
    assert rows.select((pl.col("failed") == (pl.col("repeated") == negative)).all()).item()


@pytest.mark.parametrize(
    ("stage", "function", "call", "state"),
    [
        (Acts, "decide", 2, "acts is not finished"),
        (Repetitions, "check", 1, "acts is finished, but the run is not"),
        (Repetitions, "decide", 2, "gh22 is not finished"),
    ],
)
def test_a_run_that_was_stopped_says_how_to_go_on(stage, function, call, state, acts, tmp_path, interrupt):
    interrupt(stage, function, call)
    with pytest.raises(KeyboardInterrupt):
        run(acts, ORIGINAL, tmp_path / "run", acts_per_part=5)
    with pytest.raises(InputError, match=f"{state}; to resume it: negengine gh22 mini --output "):
        open_run(tmp_path / "run")


def test_wrong_options_are_refused_before_the_model_is_looked_for():
    for options, message in (
        ({"ranks": [0]}, "--ranks 0: give a number from 1"),
        ({"ranks": []}, "--ranks: give at least one"),
        ({"variant": ["orignal"]}, "--variant orignal: did you mean 'original'"),
    ):
        with pytest.raises(InputError, match=message):
            gh22("there is no such model", **options)
    ranks = options_of(Gh22)["ranks"]
    assert ranks.from_command("1,50") == [1, 50]
    with pytest.raises(InputError, match="--ranks 1,first: give numbers with commas between"):
        ranks.from_command("1,first")


def test_runs_are_compared_by_words_on_the_variants_that_both_have(finished, in_parts, acts, tmp_path):
    """A lexicon with some of the words in another order: the same model differs from itself in nothing."""
    words = replace(LEXICON, names=("John", "Jessica"), genders=("m", "f"), professions=LEXICON.professions[::-1])
    other = Acts.plan(acts.exported, words, acts.pattern, ranks=acts.ranks)
    found = compare(finished, run(other, ORIGINAL, tmp_path / "run")).frame
    assert found.select("n", "condition", "difference").unique().rows() == [(4, "original", 0.0)]
    assert len(found) == 8 * len(acts.ranks)
    for key in ("sentence", "original patterns sha256"):
        record = msgspec.structs.replace(in_parts.record, identity={**in_parts.record.identity, key: "another"})
        with pytest.raises(InputError, match=f"cannot be compared: {key} .*there another"):
            compare(in_parts, replace(in_parts, folder=tmp_path, record=record))


def test_a_run_is_cited_and_both_stages_are_made_again_by_one_call(mini, tmp_path):
    done = gh22(str(mini.folder), pairs=2, ranks=[1], variant="connective", output=tmp_path / "run", progress=False)
    found = cite(done)
    for said in ("Handschuh, 2022 with 2 pairs", "at ranks 1. Variants: connective.", "pattern, connective, at rank 1"):
        assert said in found.methods[0]
    keys = [reference.key for reference in found.references]
    assert keys[1:3] == ["gubelmann-handschuh-2022-context", "kletz-etal-2023-self"]
    assert set(done.items["condition"]) == {"connective"}
    again = reproduce(done.folder, tmp_path / "again", progress=False)
    assert again.is_same
    assert {found.file for found in again.differences} >= {"acts.parquet", "items.parquet"}


def test_a_finished_run_has_no_damage(in_parts):
    found = ng.verify(in_parts, sample=10_000)
    assert not found.damage
    samples = {check.what: check.n for check in found.checks if "again by" in check.what}
    assert samples == {
        "items decided again by the reference model": len(in_parts.items),
        "ACTs decided again by the reference model": len(in_parts.acts),
    }


def test_lies_about_an_item_or_a_rate_are_found(in_parts, tmp_path):
    """By plain recounts; a rank that could be one, by the model."""
    folder = copy_without_parts(in_parts.folder, tmp_path / "run")
    items, summary = in_parts.items, in_parts.summary
    row, drop = int((~items["repeated"]).arg_max()), int((summary["metric"] == "drop").arg_max())
    repeated = int(items["repeated"].arg_max())
    rates = "rates and drops of summary.parquet are those of the items"
    lies = [
        ("items", row, {"expected_rank": 0}, "the ACT is repeated where its rank is 1, and nowhere else"),
        ("items", repeated, {"top1": "zebra"}, "the ACT is repeated where its rank is 1, and nowhere else"),
        ("items", row, {"expected_logprob": 0.5}, "log-probabilities are at most 0, and the ACT's at most that of"),
        ("items", row, {"name": "Nobody"}, "ACTs are those of acts.parquet"),
        ("items", row, {"repeated": True}, rates),
        ("summary", drop, {"value": summary["value"][drop] + 0.01}, rates),
    ]
    for file, place, values, what in lies:
        for name, frame in {"items": items, "summary": summary}.items():
            lie(folder, "gh22", f"{name}.parquet", changed(frame, place, **values) if name == file else frame)
        assert any(found.startswith(what) for found in damage(ng.verify(folder, sample=0)))
    lie(folder, "gh22", "summary.parquet", summary)
    row = int(items["expected_rank"].arg_max())
    lie(folder, "gh22", "items.parquet", changed(items, row, expected_rank=items["expected_rank"][row] - 5))
    assert not ng.verify(folder, sample=0).damage
    assert damage(ng.verify(folder, sample=10_000)) == ["items decided again by the reference model"]
