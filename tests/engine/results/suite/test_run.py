"""A suite runs all members, goes on after a failure, resumes, and makes one table, one report and curves."""

import json
import os
import signal
import subprocess
import sys

import negengine as ng
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments import finished_run
from negengine.engine.experiments.negation import negation
from negengine.engine.results.suite.suite_members import State
from negengine.engine.results.suite.suite_run import plan_suite


def states(found):
    return {(member.probe.label, member.model.label): str(found.states[member.number]) for member in found.members}


@pytest.fixture
def at_each_stage(monkeypatch):
    """Has a function see each stage, and its folder, before a member runs it."""

    def watch(see):
        whole = negation.run_stage

        def watched(stage, folder, execution, **more):
            see(stage, folder)
            return whole(stage, folder, execution, **more)

        for module in (finished_run, negation):
            monkeypatch.setattr(module, "run_stage", watched)

    return watch


@pytest.fixture
def opened(at_each_stage):
    """The labels of the models that are selected with, in their order."""
    seen = []
    at_each_stage(lambda stage, folder: seen.append(f"{stage.name} {folder.name}"))
    return seen


def test_three_checkpoints_make_a_table_a_report_and_a_curve(place):
    found = ng.suite("suite.toml", progress=False)
    assert found.is_finished
    assert found.failures == {}
    frame = pl.read_csv("runs/suite/results.csv")
    assert {"probe", "model", "series", "step", "revision", "split", "value", "low", "high", "drop"} <= set(
        frame.columns
    )
    scored = [model for (_, model), run in found.runs.items() if run.stage == "score"]
    assert frame["model"].unique(maintain_order=True).to_list() == scored
    own = ng.open("runs/suite/score/lab--tiny@step20k").rates.filter(pl.col("pattern") == "CpTn")
    told = frame.filter((pl.col("model") == "lab/tiny@step20k") & (pl.col("split") == "CpTn"))
    assert told["value"].to_list() == pytest.approx(own["repetition_rate"].to_list())
    assert told["step"].to_list() == [20_000]
    page = (place / "runs/suite/report.html").read_text("utf-8")
    assert "score over training" in page
    assert "<svg" in page
    assert "lab/tiny@step1000" in page
    names = {path.name for path in (place / "runs/suite/figures").iterdir()}
    assert {"curve-score.pdf", "curve-score.svg", "curve-score.png", "curve-score.csv"} <= names
    curve = pl.read_csv("runs/suite/figures/curve-score.csv")
    assert curve["step"].unique().sort().to_list() == sorted(frame["step"].unique().to_list())
    assert curve["low"].null_count() == 0
    assert str(found).startswith("score: Models: drop of the repetition rate")


@pytest.fixture
def no_report(monkeypatch):
    """As without the extra `report`, whose drawing takes long."""

    def refuse(*_):
        raise InputError("reports need altair")

    monkeypatch.setattr("negengine.engine.results.suite.suite_report.write_report", refuse)


def test_finished_members_are_not_run_again(place, opened, no_report):
    ng.suite("suite.toml", progress=False)
    before = (place / "runs/suite/results.csv").read_bytes()
    opened.clear()
    found = ng.suite("suite.toml", progress=False)
    assert opened == []
    assert found.is_finished
    assert found.report is None
    assert "there is no report: reports need altair" in found.remarks()
    assert (place / "runs/suite/results.csv").read_bytes() == before


def test_a_member_that_fails_or_has_a_bug_does_not_stop_the_others_and_is_named(place, at_each_stage, no_report):
    def fail(_, folder):
        if "step1000" in folder.name:
            raise ZeroDivisionError("a bug")

    at_each_stage(fail)
    text = (place / "suite.toml").read_text().replace('"step0", ', '"step99", ')
    (place / "suite.toml").write_text(text)
    found = ng.suite("suite.toml", progress=False)
    assert not found.is_finished
    assert list(states(found).values()) == ["failed", "failed", "finished"]
    missing, bug = found.failures.values()
    assert missing.startswith("lab/tiny (revision step99) is neither a folder here nor in the cache")
    assert bug == "ZeroDivisionError: a bug (a bug: see -v)"
    assert any(line.startswith("score of lab/tiny@step99: ") for line in found.remarks())
    record = json.loads((place / "runs/suite/suite.json").read_text())
    assert [member["state"] for member in record["members"]] == ["failed", "failed", "finished"]


KILLED = """
import os, signal
import negengine as ng
from negengine.engine.experiments import finished_run
from negengine.engine.experiments.negation import negation
whole = negation.run_stage
def killed(stage, folder, execution, **more):
    if "step1000" in folder.name:
        folder.mkdir(parents=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(stage, folder, execution, **more)
finished_run.run_stage = negation.run_stage = killed
ng.suite("suite.toml", progress=False)
"""


def test_a_killed_suite_goes_on_with_what_is_not_finished(place, no_report):
    done = subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False)
    assert done.returncode == -signal.SIGKILL
    plan = states(plan_suite("suite.toml"))
    assert plan["score", "lab/tiny@step0"] in {"finished", "empty"}
    assert plan["score", "lab/tiny@step20k"] == "new"
    first = place / "runs/suite/score/lab--tiny@step0"
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*.parquet")}
    found = ng.suite("suite.toml", progress=False)
    assert found.is_finished
    whole = ng.suite("suite.toml", output="whole", progress=False)
    assert found.frame.drop("folder").equals(whole.frame.drop("folder"))
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*.parquet")} == before


def test_other_settings_in_the_same_folder_fail_in_one_line(place, no_report):
    ng.suite("suite.toml", progress=False)
    with (place / "suite.toml").open("a") as file:
        file.write("max_verbs = 3\n")
    assert set(states(plan_suite("suite.toml")).values()) == {"begun"}
    found = ng.suite("suite.toml", progress=False)
    assert len(found.failures) == 3
    for why in found.failures.values():
        assert "select was made with" in why
        assert why.endswith("choose another --output")


def test_shards_of_a_suite_are_whole_members(place, opened, no_report):
    for index in (1, 2):
        part = ng.suite("suite.toml", shard=f"{index}/2", progress=False)
        assert (part.is_finished, part.report) == (True, None)
        assert (place / f"runs/suite/suite-{index}-of-2.json").exists()
    assert len({line.split()[1] for line in opened}) == 3
    opened.clear()
    assert ng.suite("suite.toml", progress=False).is_finished
    assert opened == []


def test_runs_without_items_to_compare_are_reported_with_their_tables(place):
    (place / "suite.toml").write_text((place / "suite.toml").read_text().replace('"score"', '"select"'))
    found = ng.suite("suite.toml", progress=False)
    assert (found.is_finished, found.notes) == (True, ())
    assert "Selected triplets" in found.report.read_text("utf-8")
    assert str(found).startswith("select: Selection of triplets: lab/tiny@step0")


def test_a_plan_runs_nothing_and_a_wrong_device_is_refused_before_anything_runs(place, opened):
    plan = plan_suite("suite.toml")
    assert set(plan.states.values()) == {State.NEW}
    assert plan.document()["members"][1]["step"] == 1000
    with pytest.raises(InputError, match="nowhere"):
        ng.suite("suite.toml", device="nowhere", progress=False)
    assert opened == []
    assert not (place / "runs").exists()
