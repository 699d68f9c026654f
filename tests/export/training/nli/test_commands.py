"""`negengine nli train`: one line and status 2 for bad input, else the tables and the next command."""

import json
import sys

import pytest
from negengine.engine.cli import main

QUICK = ("--epochs", "1", "--batch-size", "64", "--max-length", "32", "--device", "cpu", "--threads", "1")


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["negengine", *map(str, arguments)])
        capfd.readouterr()
        status = main.run()
        return status, *capfd.readouterr()

    return run


def test_a_training_is_told_as_json(command, encoder, glue):
    status, out, err = command(
        "nli", "train", encoder(), "--task", "rte", "--data", glue, "-o", "rte", *QUICK, "--json"
    )
    assert status == 0
    document = json.loads(out)
    assert document["task"] == "RTE"
    assert document["settings"]["batch_size"] == 64
    assert document["settings"]["learning_rate"] == 2e-5  # the paper's
    assert "rte: the classifier is written; next, `negengine export rte -o rte/onnx`" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--task", "mnli"), "unknown label 'not_entailment'; MNLI has entailment, contradiction, neutral"),
        (("--task", "rte", "--negation", "0.7"), "run `negengine data get negation-nli`, or give --negation-data PATH"),
        (("--task", "rte", "--negation", "2"), "--negation 2: give a fraction between 0 and 1"),
        (("--task", "qnli"), "--task"),
        (("--task", "rte", "--device", "cuda"), "finds no CUDA device"),
        (("--task", "rte", "--lr", "0"), "--lr 0.0: give a number above 0"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(command, encoder, glue, tmp_path, arguments, said):
    status, out, err = command("nli", "train", encoder(), "--data", glue, "-o", "out", *QUICK, *arguments)
    assert (status, out) == (2, "")
    *_, line = err.splitlines()
    assert line.startswith("negengine: ")
    assert said in line
    assert not (tmp_path / "out").exists()


def test_a_stopped_training_names_the_command_that_resumes_it(monkeypatch, capsys):
    for command in ("nli", "cues"):
        monkeypatch.setattr(sys, "argv", ["negengine", command, "train", "model", "-o", "out"])
        main.say_interrupted()
        assert f"To resume: negengine {command} train model -o out" in capsys.readouterr().err
