"""`negengine bench`: what is measured is chosen by the first word, and the last line is JSON."""

import json
from dataclasses import replace
from importlib import import_module
from unittest.mock import create_autospec

import pytest
from negengine.bench import export, run, subject
from negengine.engine.cli import benchmark

COST = {"model": "mini", "system": "Optimum", "seconds": 12.0, "peak_bytes": 10**9, "cpu_seconds": 20, "disk_bytes": 1}
SUBJECTS = {name: import_module(f"negengine.bench.{name}").SUBJECT for name in benchmark.ITEMS}


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
        ("gh22 --device cuda", "measured on the CPU; remove --device"),
    ],
)
def test_options_of_other_benchmarks_are_refused(measured, command, words, said):
    done = command("bench", *words.split())
    assert (done.status, said in done.said) == (2, True)
    assert not any(stand_in.called for stand_in in measured.values())


@pytest.mark.parametrize("name", SUBJECTS)
def test_systems_are_measured_as_the_command_line_says(name, command, measured, tmp_path):
    assert command("bench", name, "--rounds", 5).status == 0
    assert command("bench", name, "roberta-base-shape", "--quick").status == 0
    asked, usual = measured["systems"].call_args_list, SUBJECTS[name].effort
    assert [call.args for call in asked] == [(SUBJECTS[name], ["mini"]), (SUBJECTS[name], ["roberta-base-shape"])]
    longer, quick = (call.kwargs["effort"] for call in asked)
    assert longer == replace(usual, rounds=5)
    assert (quick.rounds, quick.tried) == (3, usual.tried)
    assert quick.seconds < usual.seconds
    if name in benchmark.WITH_DATA:
        assert command("bench", name, "--data", tmp_path).status == 0
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
        assert (
            json.loads(done.out.splitlines()[-1]) == json.loads(file.read_text()) == {"models": [], "interrupted": True}
        )
    assert kept == [{"models": ["one"]}] * 2
