"""`negengine bench`: what is measured is chosen by the first word, and the last line is JSON."""

import json
from dataclasses import replace
from importlib import import_module
from unittest.mock import create_autospec

import pytest
from negengine.bench import export, run, subject
from negengine.engine.cli import benchmark

COST = {"model": "mini", "system": "Optimum", "seconds": 12.0, "peak_bytes": 10**9, "cpu_seconds": 20, "disk_bytes": 1}


@pytest.fixture
def measured(monkeypatch):
    """What was asked to be measured; nothing is. The stand-ins take only what the real functions take."""
    made = {}
    for key, (module, name, value) in {
        "speed": (run, "bench", {"models": []}),
        "cost": (export, "measure", {"export": [COST]}),
        "systems": (subject, "bench_subject", {"models": []}),
    }.items():
        made[key] = create_autospec(getattr(module, name), return_value=value)
        monkeypatch.setattr(module, name, made[key])
    return made


def test_speed_is_measured_of_the_bundled_model_unless_others_are_named_and_exports_after_their_word(measured, command):
    assert command("bench").status == 0
    named = ("mini", "bert-base-shape", "--rounds", 2, "--baseline", "Optimum", "--baseline", "OpenVINO int8")
    assert command("bench", *named).status == 0
    asked = [(*call.args, call.kwargs["effort"], call.kwargs["only"]) for call in measured["speed"].call_args_list]
    several = (["mini", "bert-base-shape"], run.OfMainJob(rounds=2), ["Optimum", "OpenVINO int8"])
    assert asked == [(["mini"], run.OfMainJob(), []), several]
    done = command("bench", benchmark.EXPORT, "mini")
    assert measured["cost"].call_args.args == (["mini"],)
    assert "peak, GB" in done.out
    assert json.loads(done.out.splitlines()[-1]) == json.loads(command("bench", "export", "--json").out)
    assert json.loads(done.out.splitlines()[-1]) == {"export": [COST]}
    assert command("bench", "export", "--format", "csv").out.splitlines()[-1].startswith("mini,Optimum")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("export --quick", "bench export: --quick is for `bench` without `export`"),
        ("likelihood --baseline minicons", "bench likelihood: --baseline is for `bench` without `likelihood`"),
        ("gh22 --data .", "--data is for lama, diagnostics, nli"),
        ("nli --ray", "--ray is for `bench` without `nli`"),
        ("--ray --baseline minicons", "give one model, and no --baseline"),
        ("gh22 --device cuda", "measured on the CPU; remove --device"),
    ],
)
def test_options_of_other_benchmarks_are_refused(measured, command, words, said):
    done = command("bench", *words.split())
    assert (done.status, said in done.said) == (2, True)
    assert not any(stand_in.called for stand_in in measured.values())


def test_systems_are_measured_as_the_command_line_says(command, measured, tmp_path):
    for name in ("gh22", "nli"):
        subject = import_module(f"negengine.bench.{name}").SUBJECT
        assert command("bench", name, "--rounds", 5).status == 0
        assert command("bench", name, "roberta-base-shape", "--quick").status == 0
        *_, longer, quick = measured["systems"].call_args_list
        assert (longer.args, quick.args) == ((subject, ["mini"]), (subject, ["roberta-base-shape"]))
        assert longer.kwargs["effort"] == replace(subject.effort, rounds=5)
        assert (quick.kwargs["effort"].rounds, quick.kwargs["effort"].seconds < subject.effort.seconds) == (3, True)
    assert command("bench", "nli", "--data", tmp_path).status == 0
    assert measured["systems"].call_args.kwargs["data"] == tmp_path


def test_what_is_known_is_kept_in_a_file_and_shown_after_an_interrupt(measured, command, tmp_path):
    def interrupted(*_, keep, **__):
        keep({"models": ["one"]})
        kept.append(json.loads(file.read_text()))
        return {"models": [], "interrupted": True}

    file, kept = tmp_path / "bench.json", []
    for words, key in ((["bench"], "speed"), (["bench", "gh22"], "systems")):
        measured[key].side_effect = interrupted
        done = command(*words, "-o", file)
        assert done.status == 130
        assert json.loads(done.out.splitlines()[-1]) == json.loads(file.read_text())
        assert json.loads(file.read_text()) == {"models": [], "interrupted": True}
    assert kept == [{"models": ["one"]}] * 2
