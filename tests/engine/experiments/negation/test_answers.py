"""The selection keeps its answers, and the scoring takes them instead of asking the model again."""

from dataclasses import replace

import polars as pl
import pytest
from fake_models import LEXICON, FakeScoring
from negengine.engine.basics.atomic import sha256
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.answers import ANSWERS_FILE, SAMPLE
from negengine.engine.experiments.negation.score import Scoring
from negengine.engine.experiments.negation.select import Selection
from negengine.engine.runs.masked_stages import DecidingStage
from negengine.engine.runs.record import read_run
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import changed
from select_and_score import files, plan_scores, score, select

ONE_TOKEN = {"lexicon": LEXICON, "verbs": "in-context"}


class Taking(FakeScoring):
    """Fake models, and the real choice of what is taken."""

    calibrate = DecidingStage.calibrate


def keeping(stage, *changes):
    """The scoring with other answers of the selection; with none at all where there is no change."""
    (own,) = stage.triplets
    return changed(stage, triplets=(replace(own, kept=own.kept.with_columns(*changes) if changes else None),))


@pytest.fixture(scope="module")
def selection(mini, tmp_path_factory):
    return select(mini, tmp_path_factory.mktemp("answers") / "run", **ONE_TOKEN)


def choice(folder):
    return read_run(folder).stages["score"].calibration["CpTp"]


def test_a_real_model_is_asked_about_the_other_patterns_alone_and_the_rows_are_the_same(mini, tmp_path):
    stage = plan_scores(mini, select(mini, tmp_path / "run", kind=Selection, max_verbs=4, **ONE_TOKEN), Scoring)
    folders = score(stage, tmp_path / "taken"), score(keeping(stage), tmp_path / "computed")
    own, other = (pl.read_parquet(folder / "scores.parquet") for folder in folders)
    logarithms = ["expected_logprob", "top1_logprob"]
    assert own.drop(logarithms).equals(other.drop(logarithms))
    # Batches of a few sentences: the last digits may differ.
    assert (own.select(logarithms) - other.select(logarithms)).to_numpy() == pytest.approx(0, abs=1e-5)
    taken, computed = ((folder / "rates.parquet").read_bytes() for folder in folders)
    assert taken == computed
    n = len(stage.selected.triplets)
    asked = [read_run(folder).stages["score"].sessions[0].sentences for folder in folders]
    assert asked == [4 * n + min(n, SAMPLE), 5 * n]
    own, other = map(choice, folders)
    assert "taken_from" not in other
    assert own == {
        "precision": "fp32",
        "reason": "the selection's answers are taken",
        "taken_from": "select",
        "answers_sha256": sha256((stage.selected.folder / ANSWERS_FILE).read_bytes()),
    }


@pytest.mark.parametrize(("column", "change"), [("expected_logprob", 1e-6), ("expected_rank", 1)])
def test_answers_of_another_machine_are_not_taken(mini, selection, tmp_path, column, change):
    stage = plan_scores(mini, selection, Taking)
    kind = stage.triplets[0].kept.schema[column]
    found = score(keeping(stage, (pl.col(column) + change).cast(kind)), tmp_path / "run")
    assert "taken_from" not in choice(found)
    assert files(found) == files(score(plan_scores(mini, selection), tmp_path / "computed"))


def test_numbers_of_a_low_precision_model_that_errs_or_that_the_run_would_not_use_are_not_taken(mini, tmp_path):
    """The fake one errs, and the audit of so few sentences does not see it."""
    how, said = {"precision": Precision.MIXED}, []
    stage = plan_scores(mini, select(mini, tmp_path / "run", how=how, **ONE_TOKEN), Taking)
    assert "int8" in set(stage.triplets[0].kept["precision"])
    assert stage.known(stage.open(Opening(**how)), said.append) == {}
    assert said[0].startswith("CpTp: this machine decides otherwise about a verb than the selection has kept, so all")
    for precision in (Precision.FP32, Precision.AUTO):  # a short run is in fp32
        assert stage.known(stage.open(Opening(precision=precision)), pytest.fail) == {}


def test_a_resumed_scoring_goes_on_with_the_answers_that_it_began_with(mini, selection, tmp_path):
    stage, how = plan_scores(mini, selection, Taking), {"shard": Shard.parse("1/2")}
    begun = score(stage, tmp_path / "shard", **how)
    record = read_run(begun)
    record.stages["score"].calibration["CpTp"]["answers_sha256"] = "0" * 64
    record.write(begun)
    for path in (begun / "parts" / "score").glob("part-00000*"):
        path.unlink()
    with pytest.raises(InputError, match=r"answers.parquet is not the file that this scoring was started with"):
        score(stage, begun, **how)
