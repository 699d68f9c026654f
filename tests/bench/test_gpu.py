"""The steps of `bench gpu` run in processes of their own, and a bad one does not stop the others."""

import json

import pytest
from negengine.bench.gpu import EXPORT, REHEARSAL, STEPS, Step, failed, measure, table
from negengine.engine.basics.errors import InputError

MINI = "mini"


@pytest.mark.everything
def test_whatever_a_step_does_the_others_run(tmp_path, monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath / "tests"))
    steps = [
        Step(name, f"stages.measured_systems:{name}", "a test", minutes, name == "well")
        for name, minutes in {"raises": 2, "hangs": 0.05, "not_here": 2, EXPORT: 2, "well": 2}.items()
    ]
    given = {"rehearse": True, "minutes": 5.0, "steps": steps, "cache": tmp_path}
    found = measure(("one",), tmp_path / "gpu.json", [].append, **given)
    assert json.loads((tmp_path / "gpu.json").read_bytes()) == found
    shown = table(found)
    assert shown.title == "Rehearsal on cpu"
    assert shown.frame.select("step", "status", "why").rows() == [
        ("raises", "failed", "ValueError: a first line"),
        ("hangs", "failed", "stopped after 3 s"),
        ("not_here", "not here", "no such device"),
        (EXPORT, "done", ""),
        ("well", "done", ""),
    ]
    assert "a line of a library" in found["steps"]["raises"]["log"]
    assert found["steps"]["well"]["found"] == {"device": "cpu", "models": ["one"]}
    assert failed(found) == ["raises", "hangs"]


def test_a_cpu_is_refused_unless_it_is_a_rehearsal(tmp_path):
    with pytest.raises(InputError, match=r"no GPU was found; `negengine doctor` says .* --rehearse"):
        measure((MINI,), tmp_path / "gpu.json", [].append, device="cpu")
    assert not list(tmp_path.iterdir())


@pytest.mark.everything
def test_decisions_are_compared_with_the_reference_and_selections_timed(cache, tmp_path):
    given = {"rehearse": True, "steps": STEPS[:-1], "cache": cache}  # all but the baselines
    steps = measure((MINI,), tmp_path / "gpu.json", [].append, **given)["steps"]
    assert {own["status"] for own in steps.values()} == {"done"}
    assert steps["environment"]["found"]["device"] == "cpu"
    for graph in steps["placement"]["found"][MINI].values():
        assert set(graph["operators"]) == {"CPUExecutionProvider"}
    exact, mixed = (steps["parity"]["found"][MINI][precision] for precision in ("fp32", "mixed"))
    assert (exact["sentences"], exact["same top-1"]) == (REHEARSAL.compared, 1)
    assert exact["wrong decisions"] == mixed["wrong decisions"] == 0
    assert exact["largest difference of a log-probability"] < 1e-3
    kinds = steps["kernels"]["found"][MINI]
    assert (kinds["graph"], kinds["sentences"], kinds["simulated, ms"]) == ("model.onnx", REHEARSAL.compared, {})
    assert min(kinds["measured, ms"].values()) > 0
    timed = steps["selection"]["found"][MINI]
    assert timed["sentences"] >= REHEARSAL.candidates
    assert timed["sentences/s"] == pytest.approx(timed["sentences"] / timed["seconds"])
