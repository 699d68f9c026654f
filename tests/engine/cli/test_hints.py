"""What commands say of folders that they cannot use: what the folder holds, and the next step that works."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def half(mini, small_lexicon, tmp_path):
    """A selection in the current folder that was stopped after its first part."""
    words = [Path(__file__).with_name("stopped.py"), "SIGINT", "select", mini.folder, "--lexicon", small_lexicon]
    command = [sys.executable, *map(str, words), "-o", "half"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 130, done.stderr


def refused(done):
    assert done.status == 2, done.err
    (line,) = done.err.splitlines()
    return line


@pytest.mark.usefixtures("half")
def test_a_folder_that_is_half_selected_or_not_a_run(command, tmp_path):
    (tmp_path / "thesis.tex").write_text("", "utf-8")
    for name in ("compare", "score"):
        line = refused(command(name, "half"))
        assert line.startswith("negengine: half: select is not finished; to resume it: negengine select ")
        assert refused(command(name, ".")) == "negengine: . is not a run folder: it has no run.json"


def test_a_run_that_was_stopped_before_its_first_part(mini, small_lexicon, command, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("onnxruntime.InferenceSession", interrupted)
        assert command("select", mini.folder, "--lexicon", small_lexicon, "-o", "run").status == 130
    said = "negengine: run: this run was stopped before its first part; run its command again"
    assert [refused(command(name, "run")) for name in ("compare", "score")] == [said, said]


def test_a_shard_without_parts_says_that_there_was_nothing_to_do(mini, small_lexicon, command):
    done = command("select", mini.folder, "--lexicon", small_lexicon, "--shard", "2/2", "-o", "second")
    assert done.status == 0, done.err
    assert done.out.startswith("second: nothing to do for shard 2/2, as select has 1 part; ")
    done = command("select", mini.folder, "--lexicon", small_lexicon, "--shard", "1/2", "-o", "first")
    assert done.out.startswith("first: shard 1/2 of select is finished; ")
    merged = command("merge", "first", "second", "-o", "whole")
    assert merged.status == 0, merged.err


def test_the_folder_one_is_in_can_be_the_run(mini, small_lexicon, command, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = command("select", mini.folder, "--lexicon", small_lexicon, "-o", ".")
    assert done.status == 0, done.err
    for index in (1, 2):
        done = command("score", ".", "--shard", f"{index}/2")
        assert done.status == 0, done.err
    shards = [tmp_path / f"here-score-{index}-of-2" for index in (1, 2)]
    assert all((shard / "run.json").is_file() for shard in shards)
    assert command("merge", *shards, "-o", ".").status == 0
    assert (tmp_path / "here" / "rates.parquet").is_file()
