"""A run is made again from what it recorded; what differs is told by file, column, rows and size."""

import json
import shutil
from pathlib import Path

import negengine as ng
import polars as pl
import pytest
from lies import rewrite
from negengine.engine.results.report.reproduction import SAME, compare_frames, other_conditions
from negengine.engine.runs.record import StageRecord, read_run
from negengine.engine.runs.session import Session


@pytest.fixture(scope="module")
def again(scored_run, tmp_path_factory):
    return ng.reproduce(scored_run, tmp_path_factory.mktemp("again") / "run", progress=False)


def test_the_same_run_again_has_the_same_bytes(again, scored_run):
    assert again.is_same
    assert {found.file for found in again.differences} == {
        "triplets.parquet",
        "answers.parquet",
        "selection.json",
        "scores.parquet",
        "rates.parquet",
    }
    assert again.conditions == []
    assert again.remarks() == [f"{again.again} has the same bytes as {scored_run}."]
    for name in ("triplets.parquet", "scores.parquet"):
        assert (again.again / name).read_bytes() == (scored_run / name).read_bytes()
    old, new = (read_run(folder).stages for folder in (scored_run, again.again))
    assert list(old) == list(new) == ["select", "score"]
    for name in old:
        assert old[name].metadata["call"]["arguments"] == new[name].metadata["call"]["arguments"]
    document = json.loads(json.dumps(again.document()))
    assert (document["same"], len(document["differences"])) == (True, 5)


@pytest.fixture
def changed(scored_run, tmp_path):
    """A copy of the run whose record can be changed."""
    shutil.copytree(scored_run, tmp_path / "run")

    def change(edit):
        record = read_run(tmp_path / "run")
        edit(record.stages)
        rewrite(tmp_path / "run", record)
        return tmp_path / "run"

    return change


def test_what_a_run_needs_is_told(changed, tmp_path, mini):
    own = tmp_path / "own.toml"
    own.write_text("x")
    digest = r"words \(sha256 [0-9a-f]{64}\), which is missing"
    refused = {
        f"needs the model mini, revision .*, sha256 {mini.sha256}.*give --model": ("model", "folder", "/gone"),
        digest: ("arguments", "lexicon", {"path": str(tmp_path / "words")}),
        r"own\.toml is not the file that": ("arguments", "patterns", {"path": str(own), "sha256": "ab" * 32}),
    }
    for match, (part, name, value) in refused.items():

        def edit(stages, part=part, name=name, value=value):
            call = stages["select"].metadata["call"]
            call.setdefault("before", {key: dict(call[key]) for key in ("model", "arguments")})
            call.update({key: dict(own) for key, own in call["before"].items()})
            call[part][name] = value

        with pytest.raises(ng.InputError, match=match):
            ng.reproduce(changed(edit), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_another_model_is_told(changed, tmp_path):
    def edit(stages):
        for stage in stages.values():
            stage.identity["model sha256"] = "ab" * 32

    with pytest.raises(ng.InputError, match="is another model"):
        ng.reproduce(changed(edit), tmp_path / "new")


@pytest.mark.parametrize("name", ["output", "shard", "executor", "device", "surprise"])
def test_an_argument_that_no_call_records_is_refused(changed, tmp_path, name):
    """The file run.json may come from elsewhere: it decides neither where the run is written nor who works."""

    def edit(stages):
        stages["select"].metadata["call"]["arguments"][name] = "x"

    with pytest.raises(ng.InputError, match=f"argument '{name}', which select does not take"):
        ng.reproduce(changed(edit), tmp_path / "new")


def test_a_run_that_cannot_be_made_again_is_refused(changed, tmp_path, scored_run):
    def without_call(stages):
        stages["score"].metadata["call"] = {"function": "score", "arguments": []}

    def unfinished(stages):
        stages["score"].done = None

    with pytest.raises(ng.InputError, match="the run itself"):
        ng.reproduce(scored_run, scored_run)
    with pytest.raises(ng.InputError, match="does not tell which call made score"):
        ng.reproduce(changed(without_call), tmp_path / "new")
    with pytest.raises(ng.InputError, match="score is not finished"):
        ng.reproduce(changed(unfinished), tmp_path / "new")


# ---------------------------------------------------------------- what differs


def test_columns_are_compared_row_by_row():
    old = pl.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 1.0], "c": ["x", "y", "z"]})
    new = pl.DataFrame({"a": [1, 2, 3], "b": [0.5, 0.25, 1.5], "c": ["x", "q", "z"]})
    found = compare_frames("f.parquet", old, new)
    assert [(one.column, one.rows, one.total, one.largest) for one in found] == [("b", 2, 3, 0.5), ("c", 1, 3, None)]


def test_other_rows_and_other_columns_are_told():
    frame = pl.DataFrame({"a": [1, 2]})
    assert compare_frames("f", frame, frame.head(1))[0].result == "2 rows and 1 row"
    assert compare_frames("f", frame, frame.rename({"a": "b"}))[0].result == "other columns"
    assert compare_frames("f", frame, frame)[0].result == "same values, other bytes"
    assert SAME not in {one.result for one in compare_frames("f", frame, frame)}


def test_other_versions_and_processors_are_named():
    def stage(**session):
        own = Session(machine={"system": "Linux x86_64"}, **session)
        return [StageRecord(identity={"seed": 0}, parts=1, sessions=[own])]

    old = stage(workers=[{"device": "cpu", "hardware": "A", "threads": 2}], packages={"numpy": "2.0"})
    new = stage(workers=[{"device": "cpu", "hardware": "B", "threads": 2}], packages={"numpy": "2.1"})
    assert other_conditions(old, new) == ["numpy: 2.0, now 2.1", "hardware: A, now B"]
    assert other_conditions(old, old) == []


def test_an_interrupted_reproduction_goes_on(scored_run, tmp_path, again):
    shutil.copytree(again.again, tmp_path / "new")
    found = ng.reproduce(scored_run, tmp_path / "new", progress=False)
    assert found.is_same
    assert Path(found.again) == tmp_path / "new"
