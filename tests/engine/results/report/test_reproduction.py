import json
import shutil

import negengine as ng
import polars as pl
import pytest
from lies import rewrite
from negengine.engine.results.file_differences import file_differences
from negengine.engine.results.report import reproduction
from negengine.engine.results.report.reproduction import FileDifference
from negengine.engine.runs.record import Session, StageRecord, read_run


@pytest.fixture(scope="module")
def again(scored_run, tmp_path_factory):
    return ng.reproduce(scored_run, tmp_path_factory.mktemp("again") / "run", progress=False)


def test_the_same_run_again_has_the_same_bytes(again, scored_run):
    assert again.is_same
    assert again.remarks() == [f"{again.again} has the same bytes as {scored_run}."]
    files = {"triplets.parquet", "answers.parquet", "selection.json", "scores.parquet", "rates.parquet"}
    assert {found.file for found in again.differences} == files
    assert all((again.again / name).read_bytes() == (scored_run / name).read_bytes() for name in files)
    calls = [{name: own.metadata["call"]["arguments"] for name, own in read_run(folder).stages.items()}
             for folder in (scored_run, again.again)]  # fmt: skip
    assert calls[0] == calls[1]
    document = json.loads(json.dumps(again.document()))
    assert (document["same"], len(document["differences"]), document["conditions"]) == (True, 5, [])
    # An interrupted reproduction goes on: here nothing is left to do.
    before = {path: path.stat().st_mtime_ns for path in again.again.rglob("*.parquet")}
    assert ng.reproduce(scored_run, again.again, progress=False).is_same
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_that_cannot_be_made_again_is_refused_and_nothing_else_is_taken_from_its_record(
    scored_run, tmp_path, mini
):
    """The file run.json may come from elsewhere: it decides neither where the run is written nor who works."""
    own = tmp_path / "own.toml"
    own.write_text("x")
    gone = f"needs the model mini, revision .*, sha256 {mini.sha256}.*give model"
    refused = [
        (gone, "model", {"folder": "/gone"}),
        (r"words \(sha256 .{64}\), which is missing", "arguments", {"lexicon": {"path": str(tmp_path / "words")}}),
        (r"own\.toml is not the file that", "arguments", {"patterns": {"path": str(own), "sha256": "ab" * 32}}),
        ("seed is 'nan'; a whole number", "arguments", {"seed": "nan"}),
        ("pairs is '\\[3\\]'", "arguments", {"pairs": [3]}),
        ("does not tell which model", "model", {"folder": 3}),
        ("does not tell which model", "model", {"task": ["fill-mask"]}),
        ("threads is 'many'", "model", {"threads": "many"}),
        ("precision is 'None'", "model", {"precision": None}),
        ("from a DataFrame in memory", "arguments", {"lexicon": {"in memory": "DataFrame"}}),
    ]
    for name in ("output", "shard", "executor", "device", "surprise"):
        refused += [(f"select has no setting '{name}'", "arguments", {name: "x"})]
    faults = {
        match: lambda stages, part=part, values=values: stages["select"].metadata["call"][part].update(values)
        for match, part, values in refused
    }
    faults["is not the model of"] = lambda stages: stages["select"].identity.update({"model sha256": "ab" * 32})
    no_call = {"function": "score", "arguments": []}
    faults["call made score"] = lambda stages: stages["score"].metadata.update(call=no_call)
    faults["score is not finished"] = lambda stages: setattr(stages["score"], "done", None)
    for match, edit in faults.items():
        shutil.copytree(scored_run, tmp_path / "run", dirs_exist_ok=True)
        record = read_run(tmp_path / "run")
        edit(record.stages)
        rewrite(tmp_path / "run", record)
        with pytest.raises(ng.InputError, match=match):
            ng.reproduce(tmp_path / "run", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ng.InputError, match="the run itself"):
        ng.reproduce(scored_run, scored_run)


def test_a_run_with_settings_that_are_empty_texts_is_made_again(model, tmp_path):
    table = {"prefix": ["He said: ", "She said: "], "good": ["yes.", "no."], "bad": ["yet.", "not."]}
    pl.DataFrame(table).write_csv(tmp_path / "a.csv")
    run = ng.likelihood(model, tmp_path / "a.csv", joiner="", output=tmp_path / "run", progress=False)
    assert ng.reproduce(run.folder, tmp_path / "again", progress=False).is_same


def test_other_results_are_told_by_file_and_column(scores, other_scores):
    runs = scores.folder, other_scores.folder
    found = [*reproduction.compare_stage(*(read_run(folder).stages["select"] for folder in runs), *runs)]
    rows = [len(pl.read_parquet(folder / "triplets.parquet")) for folder in runs]
    assert FileDifference("triplets.parquet", f"it has {rows[1]} rows, not {rows[0]}") in found
    told = [one.result for one in found if one.file == "selection.json"]
    old, new = (json.loads((folder / "selection.json").read_text()) for folder in runs)
    assert sorted(told) == sorted(f"{key} is {new[key]!r}, not {old[key]!r}" for key in old if old[key] != new[key])
    other = reproduction.Reproduction(*runs, found, ["numpy: 2.0, now 2.1"])
    names = ", ".join(sorted({one.file for one in found}))
    assert other.remarks() == [f"{runs[1]} differs from {runs[0]} in {names}.", "Different: numpy: 2.0, now 2.1"]
    assert "negengine report" in other.closing()


def test_files_are_compared_by_columns_row_by_row_and_other_versions_and_processors_are_named(tmp_path):
    old = pl.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 1.0], "c": ["x", "y", "z"]})
    new = pl.DataFrame({"a": [1, 2, 3], "b": [0.5, 0.25, 1.5], "c": ["x", "q", "z"]})
    new.write_parquet(tmp_path / "new.parquet")
    told = "b differs in 2 of 3 rows, by 0.5 at most; row 2 has 0.25, not None", "c differs in 1 of 3 rows; row 2 has"
    for line, beginning in zip(file_differences(tmp_path / "new.parquet", old), told, strict=True):
        assert line.startswith(beginning)
    for frame, said in ((new.head(1), "it has 3 rows, not 1"), (new.drop("c"), "its columns are a, b, c, not a, b")):
        assert [*file_differences(tmp_path / "new.parquet", frame)] == [said]
    new.write_parquet(tmp_path / "new.parquet", compression="snappy")
    assert [*file_differences(tmp_path / "new.parquet", new)] == []

    def stage(**session):
        own = Session(machine={"system": "Linux x86_64"}, **session)
        return [StageRecord(identity={"seed": 0}, parts=1, sessions=[own])]

    old = stage(workers=[{"device": "cpu", "hardware": "A", "threads": 2}], packages={"numpy": "2.0"})
    new = stage(workers=[{"device": "cpu", "hardware": "B", "threads": 2}], packages={"numpy": "2.1"})
    assert reproduction.other_conditions(old, new) == ["numpy: 2.0, now 2.1", "hardware: A, now B"]
    assert reproduction.other_conditions(old, old) == []
