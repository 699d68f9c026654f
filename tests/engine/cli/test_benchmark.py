"""`negengine bench`: what is measured is chosen by the first word, and the last line is JSON."""

import json
from unittest.mock import create_autospec

import pytest
from negengine.bench import export, likelihood, papers, probe, run
from negengine.engine.cli import benchmark

COST = export.ExportCost("mini", "Optimum", 12.0, 20.0, 10**9, 10**8)


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
    assert done.said == "negengine: bench likelihood: --baseline is for `bench` of the main job"


@pytest.mark.parametrize("subject", benchmark.PAPERS)
def test_a_papers_command_is_measured_after_its_name(subject, command, monkeypatch, tmp_path):
    asked = []

    def measure(*given, **options):
        asked.append((*given, options["data"], options["effort"].rounds))
        return {"models": []}

    monkeypatch.setattr(papers, "bench_paper", measure)
    assert command("bench", subject, "bert-base-shape", "--rounds", 4, "--data", tmp_path).status == 0
    assert command("bench", subject, "--quick").status == 0
    assert asked == [(subject, ["bert-base-shape"], tmp_path, 4), (subject, ["mini"], None, 3)]


def test_options_of_other_benchmarks_are_refused(command, tmp_path):
    assert "--data is for lama, diagnostics, gh22, nli" in command("bench", "--data", tmp_path).said
    assert "--ray is for `bench` of the main job" in command("bench", "nli", "--ray").said
    assert "measured on the CPU; remove --device" in command("bench", "gh22", "--device", "cuda").said


@pytest.mark.parametrize(("module", "name"), [(probe, "bench_probe"), (likelihood, "bench_likelihood")])
def test_loops_are_measured_as_often_and_as_long_as_the_command_line_says(module, name, command, monkeypatch):
    """The stand-in takes only the arguments that the real function takes."""
    measure = create_autospec(getattr(module, name), return_value={"models": []})
    monkeypatch.setattr(module, name, measure)
    subject = name.removeprefix("bench_")
    assert command("bench", subject, "mini", "--rounds", 5).status == 0
    assert command("bench", subject, "roberta-base-shape", "--quick").status == 0
    usual, quick = (call.kwargs["effort"] for call in measure.call_args_list)
    assert [call.args for call in measure.call_args_list] == [(["mini"],), (["roberta-base-shape"],)]
    assert usual == module.EFFORT
    assert (quick.rounds, quick.tried) == (3, module.EFFORT.tried)
    assert quick.seconds < usual.seconds
