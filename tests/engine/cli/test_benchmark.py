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
    """What was asked to be measured; nothing is."""
    asked = []

    def speed(models, **options):
        asked.append(("speed", models, options["rounds"]))
        return {"models": []}

    def cost(models, **_):
        asked.append(("export", models))
        return [COST]

    monkeypatch.setattr(run, "bench", speed)
    monkeypatch.setattr(export, "measure", cost)
    return asked


def test_speed_is_measured_of_the_bundled_model_unless_others_are_named(measured, command):
    assert command("bench").status == 0
    assert command("bench", "mini", "bert-base-shape", "--rounds", 2).status == 0
    assert measured == [("speed", ["mini"], None), ("speed", ["mini", "bert-base-shape"], 2)]


def test_exports_are_measured_after_the_word_export(measured, command):
    done = command("bench", benchmark.EXPORT, "mini")
    assert done.status == 0, done.err
    assert measured == [("export", ["mini"])]
    assert "peak, GB" in done.out
    assert json.loads(done.out.splitlines()[-1])["export"][0]["peak_bytes"] == 10**9


def test_other_formats_have_no_last_line(measured, command):
    assert command("bench", "export", "--format", "csv").out.splitlines()[-1].startswith("mini,Optimum")
    assert json.loads(command("bench", "export", "--json").out)["export"][0]["system"] == "Optimum"


def test_options_that_do_not_apply_to_exports_are_refused(measured, command):
    done = command("bench", "export", "--quick")
    assert done.status == 2
    assert done.said == "negengine: bench export: --quick, --rounds and --device are for `bench` without `export`"
    assert measured == []


def test_a_baseline_may_be_chosen_for_the_main_job_alone(measured, command, monkeypatch):
    chosen = []
    monkeypatch.setattr(run, "bench", lambda _models, **options: chosen.append(options["only"]) or {"models": []})
    assert command("bench", "--baseline", "Optimum", "--baseline", "OpenVINO int8").status == 0
    assert chosen == [["Optimum", "OpenVINO int8"]]
    done = command("bench", "likelihood", "--baseline", "minicons")
    assert done.said == "negengine: bench likelihood: --baseline is for `bench` without `likelihood`"


SUBJECTS = {name: import_module(f"negengine.bench.{name}").SUBJECT for name in benchmark.ITEMS}


@pytest.fixture
def compared(monkeypatch):
    """Stands in for what compares systems; takes only the arguments that the real function takes."""
    measure = create_autospec(subject.bench_subject, return_value={"models": []})
    monkeypatch.setattr(subject, "bench_subject", measure)
    return measure


@pytest.mark.parametrize("name", benchmark.WITH_DATA)
def test_data_are_those_of_the_command_line(name, command, compared, tmp_path):
    assert command("bench", name, "--data", tmp_path).status == 0
    assert compared.call_args.args == (SUBJECTS[name], ["mini"])
    assert compared.call_args.kwargs["data"] == tmp_path


def test_options_of_other_benchmarks_are_refused(command, tmp_path):
    assert "--data is for lama, diagnostics, nli" in command("bench", "gh22", "--data", tmp_path).said
    assert "--ray is for `bench` without `nli`" in command("bench", "nli", "--ray").said
    assert "measured on the CPU; remove --device" in command("bench", "gh22", "--device", "cuda").said


@pytest.mark.parametrize("name", SUBJECTS)
def test_systems_are_measured_as_often_and_as_long_as_the_command_line_says(name, command, compared):
    assert command("bench", name, "--rounds", 5).status == 0
    assert command("bench", name, "roberta-base-shape", "--quick").status == 0
    assert [call.args for call in compared.call_args_list] == [
        (SUBJECTS[name], ["mini"]),
        (SUBJECTS[name], ["roberta-base-shape"]),
    ]
    longer, quick = (call.kwargs["effort"] for call in compared.call_args_list)
    usual = SUBJECTS[name].effort
    assert longer == replace(usual, rounds=5)
    assert (quick.rounds, quick.tried) == (3, usual.tried)
    assert quick.seconds < usual.seconds
