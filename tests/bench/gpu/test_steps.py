"""Each step of `bench gpu`, rehearsed on the CPU with tiny models."""

import importlib
import json

import msgspec
import pytest
from negengine.bench.gpu.points import low_precision_graph
from negengine.bench.gpu.setting import EXPORT, REHEARSAL, STEPS, Model, NotHere, Setting
from negengine.bench.shapes import prepare
from served_here import here

pytestmark = [pytest.mark.long, pytest.mark.everything]

MINI, RANDOM = "mini", "bert-base-shape"


@pytest.fixture(scope="module")
def setting(cache, tiny_shapes):
    made = [prepare(name, cache, tiny_shapes) for name in (MINI, RANDOM)]
    models = tuple(Model(own.name, own.checkpoint, str(own.exported.folder), own.is_random) for own in made)
    return Setting("cpu", 0, (MINI, RANDOM), str(cache), REHEARSAL, models)


def run(name, setting, **options):
    module, _, function = next(step.function for step in STEPS if step.name == name).partition(":")
    return json.loads(json.dumps(getattr(importlib.import_module(module), function)(setting, **options)))


def test_the_environment_names_the_machine(setting):
    found = run("environment", setting)
    assert found["cores"] >= 1
    assert found["device"] == "cpu"
    assert "CPUExecutionProvider" in found["onnxruntime providers"]


def test_a_model_that_cannot_be_exported_does_not_stop_the_others(setting, tmp_path):
    found = run(EXPORT, msgspec.structs.replace(setting, names=(str(tmp_path / "none"), MINI)))
    assert [model["name"] for model in found["models"]] == [MINI]
    assert list(found["failed"]) == [str(tmp_path / "none")]


def test_all_operators_are_placed_on_the_device(setting):
    found = run("placement", setting)
    assert set(found) == {MINI, RANDOM}
    for graphs in found.values():
        assert len(graphs) == 2
        for graph in graphs.values():
            assert set(graph["operators"]) == {"CPUExecutionProvider"}
            assert sum(graph["operators"]["CPUExecutionProvider"].values()) > 10


def test_decisions_are_compared_with_the_reference(setting):
    found = run("parity", setting)
    assert set(found[RANDOM]) == {"fp32", "int8"}
    exact, mixed = found[MINI]["fp32"], found[MINI]["mixed"]
    assert exact["sentences"] == REHEARSAL.compared
    assert exact["same top-1"] == 1
    assert exact["wrong decisions"] == mixed["wrong decisions"] == 0
    assert exact["largest difference of a log-probability"] < 1e-3


def test_a_selection_is_timed_from_its_start_to_its_results(setting):
    found = run("selection", setting)
    for name in (MINI, RANDOM):
        own = found[name]
        assert own["sentences"] >= REHEARSAL.candidates
        assert own["sentences/s"] == pytest.approx(own["sentences"] / own["seconds"])
        assert own["share of the products' peak"] > 0
        assert own["utilisation %"] is None
        assert own["host, cores"] > 0
    assert found[MINI]["session"]["sentences"] >= found[MINI]["sentences"]


def test_the_lazy_test_set_is_that_of_models_with_real_weights(setting):
    found = run("lazy", setting)
    assert set(found) == {MINI}
    assert found[MINI]["counts"]["rows"] == 20


@pytest.mark.parametrize("name", ["sweep", "attention"])
def test_points_have_rates(setting, name):
    found = run(name, setting)
    for model in (MINI, RANDOM):
        assert "sentences/s" in json.dumps(found[model])
        assert '"why"' not in json.dumps(found[model])


def test_an_export_without_a_low_precision_graph_is_not_measured(setting, monkeypatch):
    monkeypatch.setattr("negengine.engine.inference.exported.ExportedModel.low_precision", lambda *_: None)
    with pytest.raises(NotHere, match="mini has no low-precision graph for cpu"):
        low_precision_graph(setting.models[0], setting)


def test_baselines_that_need_cuda_are_missing_in_a_line(setting):
    found = run("baselines", msgspec.structs.replace(setting, models=setting.models[1:]), start=here)[RANDOM]
    assert found["missing"]["TensorRT"] == "TensorRT is for CUDA"
    assert found["missing"]["PyTorch fp16 at the mask"] == "PyTorch in fp16 is for CUDA"
    assert [row["system"] for row in found["systems"]] == [
        "authors, selection",
        "Optimum",
        "fp32",
        "low precision alone",
    ]
    assert all(row["sentences/s"] > 0 for row in found["systems"])
