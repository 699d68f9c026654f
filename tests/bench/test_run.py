"""A benchmark of a tiny model: every system gives the same answers, and the last line is one JSON document."""

import json

import pytest
from measured_systems import here
from negengine.bench import run
from negengine.bench.subject import bench_subject
from negengine.engine.basics.errors import InputError

pytestmark = [pytest.mark.long, pytest.mark.everything]

LITTLE = {"rounds": 2, "seconds": 0.1, "fewest": 24, "most": 24, "tried": 8}
ALWAYS = ["authors, selection", "authors, scoring", "fp32", "low precision alone"]


@pytest.mark.parametrize("model", ["bert-base-shape", "mini"])
def test_systems_are_measured_and_mixed_precision_only_where_weights_are_trained(model, cache, monkeypatch):
    monkeypatch.setattr("sys.argv", ["negengine", "bench", model, "--quick"])
    effort = run.OfMainJob(**LITTLE, ceiling_rounds=1, calibrated=100)
    given = {"device": "cpu", "effort": effort, "cache": cache, "start": here, "say": [].append}
    document = json.loads(json.dumps(bench_subject(run.SUBJECT, [model], only=["PyTorch fp16 at the mask"], **given)))
    (found,) = document["models"]
    assert document["command"] == f"negengine bench {model} --quick"
    assert found["threads"] == document["machine"]["cores"] >= 1
    assert (found["sentences"], found["rounds"]) == (24, 2)
    assert found["missing"] == {"PyTorch fp16 at the mask": "PyTorch in fp16 is for CUDA"}
    assert [row["system"] for row in found["systems"]] == (ALWAYS if found["random weights"] else [*ALWAYS, "mixed"])
    for row in found["systems"]:
        assert (row["sentences/s"] > 0, len(row["seconds"])) == (True, 2)
        # low precision may find another top-1: random weights leave the logits close together
        assert row["same top-1"] == 1 or row["system"] in {"low precision alone", "mixed"}
        assert (row["share of ceiling"] is None) == (row["system"] == "mixed")
    (computed,) = found["computed"]
    assert 0 <= computed["close calls"] < 1
    assert run.SUBJECT.table(found).frame["system"].to_list()[-1] == computed["system"] == "mixed, whole grid"
    if model == "mini":
        assert found["systems"][-1]["same decision"] == 1
        assert computed["close calls"] == found["systems"][-1]["close calls"]


def test_a_baseline_that_does_not_exist_is_refused_before_anything_is_prepared(tmp_path):
    with pytest.raises(InputError, match=r"--baseline Optimal: there are .*Optimum, OpenVINO fp32"):
        bench_subject(run.SUBJECT, ["mini"], device="cpu", cache=tmp_path, only=["Optimal"], say=[].append)
    assert not list(tmp_path.iterdir())


def test_the_speed_of_mixed_over_the_whole_grid_is_the_sum_of_what_it_runs():
    rates = {"authors, selection": 40, "authors, scoring": 10, "fp32": 100, "low precision alone": 250}
    whole = run.whole_grid({name: {"sentences/s": rate} for name, rate in rates.items()}, 0.095, "mini")
    assert 0.001 < whole["audit"] < 0.002  # of 10.9 million
    assert whole["sentences/s"] == pytest.approx(1 / (1 / 250 + (0.095 + whole["audit"]) / 100))
    assert whole["times authors, selection"] == pytest.approx(whole["sentences/s"] / 40)
