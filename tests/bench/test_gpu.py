"""The steps of `bench gpu` run in processes of their own, and a bad one does not stop the others; each rehearsed."""

import importlib
import json

import pytest
from negengine.bench.gpu import EXPORT, REHEARSAL, STEPS, Setting, Step, failed, measure, table
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.cpu import CPU

MINI, RANDOM = "mini", "bert-base-shape"


@pytest.mark.everything
def test_whatever_a_step_does_the_others_run(tmp_path, monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath / "tests"))
    steps = [
        Step(name, f"stages.measured_systems:{name}", "a test", minutes, name == "well")
        for name, minutes in {"raises": 2, "crashes": 2, "hangs": 0.05, "not_here": 2, EXPORT: 2, "well": 2}.items()
    ]
    given = {"rehearse": True, "minutes": 5.0, "steps": steps, "cache": tmp_path}
    found = measure(("one",), tmp_path / "gpu.json", [].append, **given)
    assert json.loads((tmp_path / "gpu.json").read_bytes()) == found
    shown = table(found)
    assert shown.title == "Rehearsal on cpu"
    assert shown.frame.select("step", "status", "why").rows() == [
        ("raises", "failed", "ValueError: a first line"),
        ("crashes", "failed", "its process ended with status 7"),
        ("hangs", "failed", "stopped after 3 s"),
        ("not_here", "not here", "no such device"),
        (EXPORT, "done", ""),
        ("well", "done", ""),
    ]
    assert "a line of a library" in found["steps"]["raises"]["log"]
    assert found["steps"]["well"]["found"] == {"device": "cpu", "models": ["one"]}
    assert failed(found) == ["raises", "crashes", "hangs"]


def test_a_cpu_is_refused_unless_it_is_a_rehearsal(tmp_path):
    with pytest.raises(InputError, match=r"no GPU was found; `negengine doctor` says .* --rehearse"):
        measure((MINI,), tmp_path / "gpu.json", [].append, device="cpu")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def rehearsed(cache):
    """Runs a step with little work; the cache holds a tiny model under the name of a large one."""

    def run(name, models=(MINI, RANDOM)):
        module, _, function = next(step.function for step in STEPS if step.name == name).partition(":")
        found = getattr(importlib.import_module(module), function)(Setting(CPU, models, cache, REHEARSAL))
        return json.loads(json.dumps(found))

    return run


def test_the_environment_names_the_machine_and_operators_are_placed_on_the_device(rehearsed):
    found = rehearsed("environment")
    assert found["device"] == "cpu"
    assert "CPUExecutionProvider" in found["onnxruntime providers"]
    for graphs in rehearsed("placement").values():
        assert len(graphs) == 2
        for graph in graphs.values():
            assert set(graph["operators"]) == {"CPUExecutionProvider"}
            assert sum(graph["operators"]["CPUExecutionProvider"].values()) > 10


@pytest.mark.everything
def test_decisions_are_compared_with_the_reference_and_selections_timed_of_what_could_be_exported(rehearsed, tmp_path):
    missing = str(tmp_path / "none")
    exported = rehearsed(EXPORT, (missing, MINI))
    assert [model["name"] for model in exported["models"]] == [MINI]
    assert list(exported["failed"]) == [missing]
    with pytest.raises(InputError, match="none"):
        rehearsed(EXPORT, (missing,))
    found = rehearsed("parity")
    assert set(found[RANDOM]) == {"fp32", "int8"}
    exact, mixed = found[MINI]["fp32"], found[MINI]["mixed"]
    assert (exact["sentences"], exact["same top-1"]) == (REHEARSAL.compared, 1)
    assert exact["wrong decisions"] == mixed["wrong decisions"] == 0
    assert exact["largest difference of a log-probability"] < 1e-3
    found = rehearsed("selection")
    for own in (found[MINI], found[RANDOM]):
        assert own["sentences"] >= REHEARSAL.candidates
        assert own["sentences/s"] == pytest.approx(own["sentences"] / own["seconds"])
        assert min(own["share of the products' peak"], own["host, cores"]) > 0
    assert found[MINI]["session"]["sentences"] >= found[MINI]["sentences"]
