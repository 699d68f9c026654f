"""The steps of `bench gpu` run in processes of their own, and a bad one does not stop the others."""

import json
import threading

import pytest
from negengine.bench.gpu import FEW, Step, failed, measure, table
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.devices.cpu import CPU

MINI = "mini"


def well(_model, device, sentences):
    return {"device": str(device), "sentences": sentences}


def raises(*_):
    raise ValueError("a first line\nand a second one")


def hangs(*_):
    threading.Event().wait()


class Elsewhere(Step):
    """A step that this device cannot do."""

    def missing(self, place):
        return "no such device"


STEPS_THAT_FAIL = [
    Step("raises", "a test", 2, raises),
    Step("hangs", "a test", 0.15, hangs),
    Elsewhere("not here", "a test", 2, well),
    Step("well", "a test", 2, well),
]


@pytest.mark.everything
def test_whatever_a_step_does_the_others_run(cache, tmp_path):
    given = {"device": "cpu", "steps": STEPS_THAT_FAIL, "cache": cache}
    found = measure((MINI,), tmp_path / "gpu.json", [].append, **given)
    assert json.loads((tmp_path / "gpu.json").read_bytes()) == found
    shown = table(found)
    assert shown.title == "Rehearsal on cpu"
    assert shown.frame.select("step", "status", "why").rows() == [
        ("raises", "failed", "ValueError: a first line"),
        ("hangs", "failed", "no time is left for it"),
        ("not here", "not here", "no such device"),
        ("well", "done", ""),
    ]
    assert found["steps"]["well"]["found"] == {MINI: {"device": "cpu", "sentences": FEW}}
    assert failed(found) == ["raises", "hangs"]


def test_a_cpu_is_refused_unless_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("negengine.bench.gpu.choose_device", lambda _: CPU)
    with pytest.raises(InputError, match=r"no GPU was found; `negengine doctor` says .* --device cpu"):
        measure((MINI,), tmp_path / "gpu.json", [].append)
    assert not list(tmp_path.iterdir())


@pytest.mark.everything
def test_decisions_are_compared_with_the_reference_and_kernels_timed(cache, tmp_path):
    found = measure((MINI,), tmp_path / "gpu.json", [].append, device="cpu", cache=cache)
    steps = found["steps"]
    assert {own["status"] for own in steps.values()} == {"done"}
    assert found["environment"]["device"] == "cpu"
    for graph in steps["placement"]["found"][MINI].values():
        assert set(graph["operators"]) == {"CPUExecutionProvider"}
    exact, mixed = (steps["parity"]["found"][MINI][precision] for precision in ("fp32", "mixed"))
    assert (exact["sentences"], exact["same top-1"]) == (FEW, 1)
    assert exact["wrong decisions"] == mixed["wrong decisions"] == 0
    assert exact["largest difference of a log-probability"] < 1e-3
    kinds = steps["kernels"]["found"][MINI]
    assert (kinds["graph"], kinds["sentences"], kinds["simulated, ms"]) == ("model.onnx", FEW, {})
    assert min(kinds["measured, ms"].values()) > 0
