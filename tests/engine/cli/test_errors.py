"""What the user can fix: exit status 2 and one line, before anything is loaded, and nothing is left behind."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.versions import requirement
from negengine.engine.cli import main
from negengine.engine.cli.main import app
from negengine.engine.cli.program import all_commands

EARLY = [
    (("select", "nothing"), "no exported model nothing in models (NEGENGINE_MODELS can name another folder)"),
    (("select", "MINI", "--precision", "int8"), "'--precision': 'int8' is not one of 'auto', 'fp32', 'mixed' (see `"),
    (("select", "MINI", "--device", "cuda"), "--device cuda: "),
    (("select", "MINI", "--device", "cpu,tpu"), "--device tpu"),
    (("select", "MINI", "--workers", "2"), "--workers 2: this option belongs to --ray; add --ray local, or an address"),
    (("select", "MINI", "--ray", "nowhere"), "--ray nowhere: give local, auto, HOST:PORT or ray://HOST:PORT"),
    (("select", "MINI", "--lexicon", "missing"), "missing"),
    (("select", "MINI", "--pair", "3"), "--pairs"),
    (("score", "nowhere"), "nowhere is not a run folder"),
    (("score", "MINI"), "is not a run folder (it is an exported model): it has no run.json"),
    *(((name, "nowhere"), "nowhere is not a run folder") for name in ("compare", "cite", "figures", "report")),
    (("reproduce", "nowhere", "-o", "new"), "nowhere is not a run folder"),
    (("bench", "./missing"), "./missing"),
    (("scor", "runs/mini"), "Did you mean one of: 'doctor', 'score'"),
    (("select", "MINI", "--shard", "3/2"), "--shard 3/2: must be I/N with I from 1 to N"),
]


def refused(done, said):
    assert done.status == 2, done.err
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert done.said.startswith("negengine: ")
    assert said in done.said


BYTES = "a\udcff"  # a name of a file as Python reads it from the command line: these bytes are not UTF-8


@pytest.mark.parametrize("name", [name for name, _ in all_commands(app)])
def test_words_that_are_not_utf8_are_refused_by_every_command(name, command, tmp_path):
    for words in ([BYTES], ["mini", BYTES], ["mini", "x.csv", "-o", BYTES], ["--format", BYTES]):
        refused(command(*name.split(), *words), r"a\udcff: this is not UTF-8; rename the file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [name for name in ng.__all__ if name.islower()])
def test_texts_that_are_not_utf8_are_refused_by_every_function(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given in (BYTES, Path(BYTES), [BYTES], ["a", [BYTES]]):
        with pytest.raises(InputError, match="this is not UTF-8"):
            getattr(ng, name)(given)


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("mkdir gone; cd gone; rmdir ../gone; {} -o run", "the working directory was removed"),
        ("POLARS_MAX_THREADS=0 {} -o run", "POLARS_MAX_THREADS=0: give a number from 1"),
        ("POLARS_MAX_THREADS=few {} -o run", "POLARS_MAX_THREADS=few: give a number from 1"),
        ("ulimit -v 1000000; {} -o run", "ulimit -v 1000000: this is too little memory to open a model; set 1300000"),
        ("ulimit -d 500000; {} -o run", "ulimit -d 500000: this is too little memory"),
    ],
)
def test_an_environment_in_which_nothing_can_work_is_one_line(shell, said, mini, small_lexicon, tmp_path):
    started = f"{sys.executable} -m negengine.engine.cli select {mini.folder} --lexicon {small_lexicon}"
    done = subprocess.run(
        ["sh", "-c", shell.format(started)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_column_is_not_both_sentences_of_a_pair(mini, command, tmp_path):
    (tmp_path / "x.csv").write_text("group,good,prefix\na,b,c\n")
    for words in (("--good", "group", "--bad", "group"), ("--good", "good", "--bad", "group", "--prefix", "group")):
        said = "the column group is named for two texts of a row"
        refused(command("likelihood", mini.folder, "x.csv", "--precision", "fp32", *words, "-o", "o"), said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("no room"), "no room: the system gives no more memory or threads"),
        (RuntimeError("can't start new thread"), "can't start new thread: the system gives no more memory or threads"),
        (OSError(errno.EIO, os.strerror(errno.EIO), "some/file"), f"some/file: {os.strerror(errno.EIO)}; "),
    ],
)
def test_what_the_system_refuses_is_one_line(error, said, monkeypatch, command):
    monkeypatch.setattr(main.app, "make_context", Mock(side_effect=error))
    refused(command("select"), f"negengine: {said}")


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


def test_an_extra_that_a_training_lacks_is_named_with_the_command(monkeypatch, command):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    for name in [name for name in sys.modules if name.startswith("negengine.export.training")]:
        monkeypatch.delitem(sys.modules, name)
    refused(command("cues", "train", "-o", "out"), f"cues train needs accelerate: pip install {requirement('train')}")
