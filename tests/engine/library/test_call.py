"""Each stage records the call that made it, with what it needs to be made again."""

from datetime import date
from pathlib import Path
from typing import Unpack

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.atomic import sha256
from negengine.engine.basics.choices import Coreference
from negengine.engine.basics.errors import InputError
from negengine.engine.library.call import in_suite, recorded
from negengine.engine.library.options import RunOptions, execution
from negengine.engine.runs.record import read_run


def probe(model, *, data=None, original=None, patterns=None, coreference="pronoun", ranks=(1, 2), **options):
    return options["call"]


def test_arguments_are_recorded_with_their_defaults_as_json_and_files_by_path_and_digest(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("words").mkdir()
    for name in ("own.toml", "bundled"):
        Path(name).write_text("x")
    asked = recorded(probe, files=("data", "original", "patterns"), words=("bundled",))
    given = {"data": [Path("words"), "own.toml"], "original": {"RTE": "own.toml"}, "patterns": "bundled"}
    found = asked("mini", **given, coreference=Coreference.SAME_NAME, output=tmp_path)["arguments"]
    file, folder = {"path": "~/own.toml", "sha256": sha256(b"x")}, {"path": "~/words"}
    # the name of what is bundled is not a file
    files = {"data": [folder, file], "original": {"RTE": file}, "patterns": "bundled"}
    assert found == {**files, "coreference": "same-name", "ranks": [1, 2]}
    assert type(found["coreference"]) is str


def test_a_table_in_memory_is_recorded_by_its_type_and_never_copied():
    column = np.array(["A dog [MASK]."])
    tables = [
        pl.DataFrame({"a": [1]}),
        {"sentence": column},
        {"sentence": ["a"] * 9},
        {"when": [date(2024, 2, 1)]},
        [{"a": 1}],
    ]
    for table in tables:
        found = recorded(probe, files=("data",))("mini", data=table)["arguments"]["data"]
        assert found == {"in memory": type(table).__name__}


def test_each_stage_has_its_call_revision_digests_and_session(scored_run, mini, small_lexicon, monkeypatch):
    stages = read_run(scored_run).stages
    select, score = (stages[name].metadata["call"] for name in ("select", "score"))
    assert (select["function"], select["arguments"]["max_verbs"], select["arguments"]["seed"]) == ("select", 20, 0)
    assert select["arguments"]["lexicon"]["path"].endswith(small_lexicon.name)
    assert score == {"function": "score", "arguments": {}, "model": score["model"]}
    assert select["model"]["folder"].endswith(mini.folder.name)
    assert (select["model"]["device"], select["model"]["precision"]) == ("cpu", "fp32")
    export = stages["score"].metadata["export"]
    assert (export["name"], export["revision"], export["files"]) == (mini.name, mini.revision, mini.info["files"])
    assert {"model sha256", "lexicon sha256", "patterns sha256", "seed"} <= set(stages["select"].identity)
    (session,) = stages["score"].sessions
    assert session.sentences >= stages["score"].counts["rows"]
    monkeypatch.setattr("sys.argv", ["a b.py", "1"])
    there = execution(ng.load(mini.folder, device="cpu"), {"progress": False, "executor": ng.Ray(device="cuda")})
    assert (there.session.command, there.origin["call"]["model"]["device"]) == ("python 'a b.py' 1", "cuda")


def test_in_a_suite_errors_name_settings_as_its_file_does():
    said = "too long: give --windows, --group COLUMN, or --allow-pickle (`negengine export a --force`), or --output"

    def score(model, *, windows: bool = False, group: str = "", **options: Unpack[RunOptions]):
        raise InputError(said)

    with pytest.raises(InputError) as caught:
        in_suite(score)("mini")
    settings = "windows=true, group=COLUMN, or allow_pickle=true"
    assert str(caught.value) == f"too long: give {settings} (`negengine export a --force`), or --output"
