"""What the user can fix: exit status 2 and one line, before anything is loaded, and nothing is left behind."""

import errno
import json
import os
import shutil
import sys

import pytest
from negengine.engine.cli import main

EARLY = [
    (("select", "nothing"), "no exported model nothing: run `negengine export nothing` first"),
    (("select", "MINI", "--precision", "int8"), "'--precision': 'int8' is not one of 'auto', 'fp32', 'mixed' (see `"),
    (("select", "MINI", "--device", "cuda"), "--device cuda: "),
    (("select", "MINI", "--device", "cpu,tpu"), "--device tpu"),
    (("select", "MINI", "--workers", "2"), "--workers 2: this option belongs to --ray; add --ray local, or an address"),
    (("select", "MINI", "--ray", "nowhere"), "--ray nowhere: give local, auto, HOST:PORT or ray://HOST:PORT"),
    (("select", "MINI", "--lexicon", "missing"), "missing"),
    (("select", "MINI", "--pair", "3"), "--pairs"),
    (("score", "nowhere"), "nowhere is not a run folder"),
    *(((name, "nowhere"), "nowhere is not a run folder") for name in ("compare", "cite", "figures", "report")),
    (("reproduce", "nowhere", "-o", "new"), "nowhere is not a run folder"),
    (("bench", "./missing"), "./missing"),
    (("scor", "runs/mini"), "Did you mean 'score'"),
    (("select", "MINI", "--shard", "3/2"), "--shard 3/2: must be I/N with I from 1 to N"),
]


def refused(done, said):
    assert done.status == 2, done.err
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert done.said.startswith("negengine: ")
    assert said in done.said


@pytest.mark.parametrize(("arguments", "said"), EARLY)
def test_a_wrong_option_is_refused_before_anything_is_opened(arguments, said, mini, command, tmp_path, no_session):
    refused(command(*(mini.folder if word == "MINI" else word for word in arguments)), said)
    assert not list(tmp_path.iterdir())


def test_other_options_in_the_folder_of_a_finished_run_are_refused_and_it_is_shown_without_a_model_and_its_parts(
    mini, scored_run, small_lexicon, command, tmp_path, no_session
):
    run = shutil.copytree(scored_run, tmp_path / "run")
    shutil.rmtree(run / "parts")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    select = ("select", mini.folder, "--lexicon", small_lexicon, "-o", "run")
    refused(command(*select, "--pairs", 3), "pairs none, now 3")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert "6. Selected triplets" in command(*select).out
    assert len(json.loads(command("score", "run", "--json").out)["rates"]) == 5


def test_an_error_of_the_machine_is_one_line(monkeypatch, capsys):
    def fail(**_):
        raise OSError(errno.EIO, os.strerror(errno.EIO), "some/file")

    monkeypatch.setattr(main, "app", fail)
    assert main.run() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"negengine: some/file: {os.strerror(errno.EIO)}; ")


def test_an_extra_that_a_training_lacks_is_named_with_the_command(monkeypatch, command):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    for name in [name for name in sys.modules if name.startswith("negengine.export.training")]:
        monkeypatch.delitem(sys.modules, name)
    refused(command("cues", "train", "-o", "out"), "cues train needs accelerate: pip install 'negengine[train]'")
