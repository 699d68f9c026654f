"""The selection keeps its answers, and the scoring takes them instead of asking the model again."""

import shutil
from dataclasses import replace

import polars as pl
import pytest
from fake_models import LEXICON, FakeScoring, FakeSelection
from negengine.engine.basics.atomic import sha256
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.answers import ANSWERS_FILE, SAMPLE, kept_answers
from negengine.engine.experiments.negation.negation_runs import read_selected
from negengine.engine.experiments.negation.score import Scoring
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.runs.masked_stages import DecidingStage
from negengine.engine.runs.record import read_run
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import changed
from negengine.engine.text.pattern_files import load_patterns
from select_and_score import execute, score


class Taking(FakeScoring):
    """Fake models, and the real choice of what is taken."""

    calibrate = DecidingStage.calibrate


class Deaf(Taking):
    """Its model fails for the sentences of the selecting pattern, except those that are compared."""

    def decide(self, model, number, prepared, advance):
        assert "CpTp" not in model.deciders
        return super().decide(model, number, prepared, advance)


def plan(mini, folder, kind=Taking):
    return kind.plan(read_selected(folder), mini, triplets_per_part=7)


def keeping(stage, change):
    """The scoring with other answers of the selection; None for none."""
    (own,) = stage.triplets
    return changed(stage, triplets=(replace(own, kept=None if change is None else own.kept.with_columns(change)),))


@pytest.fixture(scope="module")
def selection(mini, tmp_path_factory):
    """The function that selects with fake models in a precision, once for each."""
    folders = {}

    def select(precision=Precision.FP32):
        if precision not in folders:
            stage = FakeSelection.plan(mini, LEXICON, load_patterns(), Settings(max_verbs=3), candidates_per_part=12)
            folders[precision] = execute(stage, tmp_path_factory.mktemp("answers") / "run", precision=precision)
        return folders[precision]

    return select


def scores(folder):
    return (folder / "scores.parquet").read_bytes()


def choice(folder):
    return read_run(folder).stages["score"].calibration["CpTp"]


def test_a_real_model_is_asked_about_the_other_patterns_alone_and_the_rows_are_the_same(mini, tmp_path):
    run = execute(Selection.plan(mini, LEXICON, load_patterns(), Settings(max_verbs=4)), tmp_path / "run")
    stage = plan(mini, run, Scoring)
    taken = score(stage, tmp_path / "taken")
    computed = score(keeping(stage, None), tmp_path / "computed")
    own, other = (pl.read_parquet(folder / "scores.parquet") for folder in (taken, computed))
    logarithms = ["expected_logprob", "top1_logprob"]
    assert own.drop(logarithms).equals(other.drop(logarithms))
    # Batches of a few sentences: the last digits may differ.
    assert (own.select(logarithms) - other.select(logarithms)).to_numpy() == pytest.approx(0, abs=1e-5)
    assert (taken / "rates.parquet").read_bytes() == (computed / "rates.parquet").read_bytes()
    n = len(stage.selected.triplets)
    asked = [read_run(folder).stages["score"].sessions[0].sentences for folder in (taken, computed)]
    compared = min(n, SAMPLE)
    assert asked == [4 * n + compared, 5 * n]
    assert "taken_from" not in choice(computed)


def test_no_sentence_of_the_selecting_pattern_is_decided(mini, selection, tmp_path):
    folder = selection()
    taken = score(plan(mini, folder, Deaf), tmp_path / "taken")
    assert scores(taken) == scores(score(plan(mini, folder, FakeScoring), tmp_path / "computed"))
    digest = sha256((folder / ANSWERS_FILE).read_bytes())
    assert choice(taken) == {
        "precision": "fp32",
        "reason": "the selection's answers are taken",
        "taken_from": "select",
        "answers_sha256": digest,
    }


@pytest.mark.parametrize(
    ("change", "column"),
    [(1e-6, "expected_logprob"), (1, "expected_rank")],
    ids=["other last digits of many", "other ranks"],
)
def test_answers_of_another_machine_are_not_taken(mini, selection, tmp_path, change, column):
    stage = plan(mini, selection())
    kind = stage.triplets[0].kept.schema[column]
    other = keeping(stage, (pl.col(column) + change).cast(kind))
    found = score(other, tmp_path / "run")
    assert "taken_from" not in choice(found)
    assert scores(found) == scores(score(plan(mini, selection(), FakeScoring), tmp_path / "computed"))


def test_numbers_of_the_low_precision_model_are_not_taken_for_a_run_in_fp32(mini, selection, tmp_path):
    folder = selection(Precision.MIXED)
    assert "int8" in set(pl.read_parquet(folder / ANSWERS_FILE)["precision"])
    found = score(plan(mini, folder), tmp_path / "run")
    assert "taken_from" not in choice(found)
    assert set(pl.read_parquet(found / "scores.parquet")["precision"]) == {"fp32"}


def test_numbers_of_the_low_precision_model_are_taken_with_their_mark(mini, selection):
    stage = plan(mini, selection())
    inexact = pl.col("expected_logprob") - 0.1  # the decisions alone are exact
    stage = keeping(stage, [inexact, pl.lit("int8").cast(pl.Categorical).alias("precision")])
    model = stage.open(Opening(precision=Precision.MIXED))
    assert stage.known(model, lambda _: None)["CpTp"]["taken_from"] == "select"
    own = stage._taken(stage.triplets[0], {"answers_sha256": stage.selected.record.files[ANSWERS_FILE]}, slice(3))
    assert own["precision"].to_list() == ["int8"] * 3


def test_a_wrong_decision_of_the_low_precision_model_is_noticed(mini, selection):
    """The fake one errs, and the audit of so few sentences does not see it."""
    stage, said = plan(mini, selection(Precision.MIXED)), []
    assert stage.known(stage.open(Opening(precision=Precision.MIXED)), said.append) == {}
    assert said[0].startswith("CpTp: this machine decides otherwise about a verb than the selection has kept, so all")
    assert stage.known(stage.open(Opening(precision=Precision.AUTO)), pytest.fail) == {}  # a short run, in fp32


def test_a_resumed_scoring_goes_on_with_the_answers_that_it_began_with(mini, selection, tmp_path):
    folder = shutil.copytree(selection(), tmp_path / "run")
    stage = plan(mini, folder)
    begun = score(stage, tmp_path / "shard", shard=Shard.parse("1/2"))
    record = read_run(begun)
    record.stages["score"].calibration["CpTp"]["answers_sha256"] = "0" * 64
    record.write(begun)
    for path in (begun / "parts" / "score").glob("part-00000*"):
        path.unlink()
    with pytest.raises(InputError, match=r"answers.parquet is not the file that this scoring was started with"):
        score(stage, begun, shard=Shard.parse("1/2"))


def test_a_file_with_other_columns_is_refused_in_one_line(selection, tmp_path):
    folder = shutil.copytree(selection(), tmp_path / "run")
    pl.DataFrame({"triplet": [0]}).write_parquet(folder / ANSWERS_FILE)
    stage = read_run(folder).stages["select"]
    stage.files[ANSWERS_FILE] = sha256((folder / ANSWERS_FILE).read_bytes())
    with pytest.raises(InputError, match=r"answers.parquet: not as negengine writes it"):
        kept_answers(folder, stage, 1)
