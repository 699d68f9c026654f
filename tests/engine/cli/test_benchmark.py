"""`negengine bench`: what is measured is chosen by the first word, and the last line is JSON."""

import json
from dataclasses import replace
from unittest.mock import create_autospec

import pytest
from negengine.bench import export, likelihood, run, subject

COST = {"model": "mini", "system": "Optimum", "seconds": 12.0, "peak_bytes": 10**9, "cpu_seconds": 20, "disk_bytes": 1}


@pytest.fixture
def measured(monkeypatch):
    """What was asked to be measured; nothing is. The stand-ins take only what the real functions take."""
    made = {}
    for module, name, value in (
        (export, "measure", {"export": [COST]}),
        (subject, "bench_subject", {"models": []}),
    ):
        made[name] = create_autospec(getattr(module, name), return_value=value)
        monkeypatch.setattr(module, name, made[name])
    return made


def test_the_first_word_says_what_is_measured_and_options_how_often(measured, command):
    named = ("mini", "bert-base-shape", "--rounds", 2, "--baseline", "Optimum", "--baseline", "OpenVINO int8")
    assert command("bench", *named).status == 0
    asked = measured["bench_subject"].call_args
    assert asked.args == (run.SUBJECT, ["mini", "bert-base-shape"])
    assert asked.kwargs["only"] == ["Optimum", "OpenVINO int8"]
    assert asked.kwargs["effort"] == run.OfMainJob(rounds=2)
    done = command("bench", "export", "mini")
    assert "peak, GB" in done.out
    assert json.loads(done.out.splitlines()[-1]) == {"export": [COST]}
    assert command("bench", "likelihood", "--rounds", 5).status == 0
    asked = measured["bench_subject"].call_args
    assert asked.args == (likelihood.SUBJECT, ["mini"])
    assert asked.kwargs["effort"] == replace(likelihood.SUBJECT.effort, rounds=5)
    done = command("bench", "likelihood", "--baseline", "Optimum")
    assert (done.status, "--baseline is for `bench` without `likelihood`" in done.said) == (2, True)


def test_what_is_known_is_kept_in_a_file_and_shown_after_an_interrupt(measured, command, tmp_path):
    def interrupted(*_, keep, **__):
        keep({"models": ["one"]})
        kept.append(json.loads(file.read_text()))
        return {"models": [], "interrupted": True}

    file, kept = tmp_path / "bench.json", []
    measured["bench_subject"].side_effect = interrupted
    for words in (["bench"], ["bench", "probe"]):
        done = command(*words, "-o", file)
        assert done.status == 130
        assert json.loads(done.out.splitlines()[-1]) == json.loads(file.read_text())
        assert json.loads(file.read_text()) == {"models": [], "interrupted": True}
    assert kept == [{"models": ["one"]}] * 2
