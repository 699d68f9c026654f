"""A benchmark of a tiny model: every system gives the same answers, and the last line is one JSON document."""

import json

import pytest
from measured_systems import here
from negengine.bench import run
from negengine.engine.basics.errors import InputError

pytestmark = [pytest.mark.long, pytest.mark.everything]

LITTLE = {"rounds": 2, "seconds": 0.1, "fewest": 24, "most": 24, "tried": 8}
ALWAYS = ["authors, selection", "authors, scoring", "fp32", "low precision alone"]


@pytest.mark.parametrize("model", ["bert-base-shape", "mini"])
def test_systems_are_measured_mixed_precision_and_the_lazy_selection_only_where_weights_are_trained(
    model, cache, monkeypatch
):
    monkeypatch.setattr("sys.argv", ["negengine", "bench", model, "--quick"])
    effort = run.OfMainJob(**LITTLE, ceiling_rounds=1, calibrated=100, lazy_pairs=1)
    given = {"device": "cpu", "effort": effort, "cache": cache, "start": here, "say": [].append}
    document = json.loads(json.dumps(run.bench([model], only=["PyTorch fp16 at the mask"], **given)))
    (found,) = document["models"]
    assert document["command"] == f"negengine bench {model} --quick"
    assert found["threads"] == document["machine"]["cores"] >= 1
    assert found["work"]["sentences"] == 24
    assert found["skipped"] == {"PyTorch fp16 at the mask": "PyTorch in fp16 is for CUDA"}
    assert [row["system"] for row in found["systems"]] == (ALWAYS if found["random weights"] else [*ALWAYS, "mixed"])
    for row in found["systems"]:
        assert (row["sentences/s"] > 0, len(row["seconds"])) == (True, 2)
        # low precision may find another top-1: random weights leave the logits close together
        assert row["same top-1"] == 1 or row["system"] in {"low precision alone", "mixed"}
    if model == "mini":
        assert found["systems"][-1]["same decision"] == 1
        assert found["close calls"] == found["systems"][-1]["close calls"]
        lazy = found["lazy"]
        assert lazy["same triplets"] is True
        assert lazy["times fewer calls"] == lazy["exhaustive tested"] / lazy["lazy tested"] > 1
        assert found["mixed, expected"] is None
    else:
        assert 0 < found["mixed, expected"]["close calls"] < 1
        assert found["mixed, expected"]["times fp32"] > 0


def test_a_baseline_that_does_not_exist_is_refused_before_anything_is_prepared(tmp_path):
    with pytest.raises(InputError, match=r"--baseline Optimal: there are .*Optimum, OpenVINO fp32"):
        run.bench(["mini"], device="cpu", cache=tmp_path, only=["Optimal"], say=[].append)
    assert not list(tmp_path.iterdir())


def test_the_expected_speed_of_mixed_is_the_sum_of_what_it_runs():
    rates = {"authors, selection": 40, "authors, scoring": 10, "fp32": 100, "low precision alone": 250}
    expected = run.expected_mixed([{"system": name, "sentences/s": rate} for name, rate in rates.items()], 0.095)
    assert expected["sentences/s"] == pytest.approx(1 / (1 / 250 + 0.1 / 100))
    whole = run._whole_grid([{"system": name, "sentences/s": rate} for name, rate in rates.items()], 0.095)
    assert 0.001 < whole["audit"] < 0.002  # of 10.9 million
    assert whole["sentences/s"] == pytest.approx(1 / (1 / 250 + (0.095 + whole["audit"]) / 100))
    assert (expected["times fp32"], expected["times authors, selection"]) == pytest.approx((2, 5))
