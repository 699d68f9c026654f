"""The steps of `bench gpu` run in processes of their own: one that ends badly does not stop the others."""

import json

import pytest
from negengine.bench.gpu.run import Plan, failed, measure, table
from negengine.bench.gpu.setting import EXPORT, STEPS, Step
from negengine.engine.basics.errors import InputError


def step(name, function="", minutes=2.0, *, needs_models=False):
    return Step(name, f"stages.gpu_steps:{function or name}", "a test", minutes, needs_models)


@pytest.fixture
def run(tmp_path, tests_are_importable):
    def measured(*steps, minutes=5.0):
        output = tmp_path / "gpu.json"
        plan = Plan(("one",), rehearse=True, minutes=minutes, steps=steps, cache=tmp_path)
        found = measure(plan, output, [].append)
        assert json.loads(output.read_bytes()) == found
        return found

    return measured


@pytest.fixture
def tests_are_importable(monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath / "tests"))


def test_whatever_a_step_does_the_others_run(run):
    bad = [step("raises"), step("crashes"), step("hangs", minutes=0.05), step("not_here")]
    steps = run(*bad, step("well"))["steps"]
    assert [own["status"] for own in steps.values()] == ["failed", "failed", "failed", "not here", "done"]
    assert steps["raises"]["why"] == "ValueError: a first line"
    assert "a line of a library" in steps["raises"]["log"]
    assert steps["crashes"]["why"] == "its process ended with status 7"
    assert steps["hangs"]["why"] == "stopped after 3 s"
    assert steps["not_here"]["why"] == "no such device"
    assert steps["well"]["found"] == {"kind": "cpu", "models": []}


def test_the_exported_models_are_given_to_the_steps_behind(run):
    steps = run(step(EXPORT, "export"), step("well", needs_models=True))["steps"]
    assert steps["well"]["found"]["models"] == ["one"]


def test_without_models_a_step_that_needs_them_does_not_begin(run):
    document = run(step(EXPORT, "raises"), step("crashes", needs_models=True))
    assert document["steps"]["crashes"]["why"] == "no model was exported"
    assert failed(document) == [EXPORT, "crashes"]


def test_when_the_time_is_over_no_step_begins(run):
    steps = run(step("crashes"), minutes=0.0)["steps"]
    assert steps["crashes"]["why"] == "the time was over before it began"


def test_the_table_has_a_row_for_each_step_and_the_reason(run):
    shown = table(run(step("well"), step("not_here")))
    assert shown.title == "Rehearsal on cpu"
    assert shown.frame["step"].to_list() == ["well", "not_here"]
    assert shown.frame["why"].to_list() == ["", "no such device"]


def test_a_cpu_is_refused_unless_it_is_a_rehearsal(tmp_path):
    with pytest.raises(InputError, match=r"measures CUDA devices; give --rehearse"):
        measure(Plan(device="cpu"), tmp_path / "gpu.json", [].append)
    assert not list(tmp_path.iterdir())


def test_the_steps_end_in_the_time_that_is_promised():
    assert len({own.name for own in STEPS}) == len(STEPS)
    assert [own.name for own in STEPS].index(EXPORT) < min(n for n, own in enumerate(STEPS) if own.needs_models)
