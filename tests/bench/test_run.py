"""A benchmark of a tiny model: every system gives the same answers, and the last line is one JSON document."""

import io
import json

import pytest
from negengine.bench import report, run
from negengine.bench.shapes import prepare
from negengine.engine.basics.errors import InputError
from negengine.engine.views.to_table import to_rich
from rich.console import Console
from served_here import here

pytestmark = [pytest.mark.long, pytest.mark.everything]

LITTLE = run.Effort(
    rounds=2, seconds=0.1, fewest=24, most=24, tried=8, warm_up=4, ceiling_rounds=1, calibrated=100, lazy_pairs=1,
    pairs=1,
)  # fmt: skip
ALWAYS = ["authors, selection", "authors, scoring", "fp32", "low precision alone"]
BASELINES = ["PyTorch at the mask", "compiled bf16 at the mask", "OpenVINO int8 static"]  # with the longest names


def test_random_weights_are_measured_without_mixed_precision(cache, tiny_shapes, monkeypatch):
    monkeypatch.setattr("sys.argv", ["negengine", "bench", "bert-base-shape", "--quick"])
    only = ["PyTorch fp16 at the mask"]
    document = run.bench(
        ["bert-base-shape"],
        device="cpu",
        effort=LITTLE,
        cache=cache,
        shapes=tiny_shapes,
        only=only,
        start=here,
        say=[].append,
    )
    document = json.loads(json.dumps(document))
    assert document["machine"]["cores"] >= 1
    assert document["command"] == "negengine bench bert-base-shape --quick"
    (found,) = document["models"]
    assert found["random weights"] is True
    assert [row["system"] for row in found["systems"]] == ALWAYS
    for row in found["systems"]:
        assert row["sentences/s"] > 0
        assert len(row["seconds"]) == 2
        # random weights leave the logits close together, so that int8 may find another top-1
        assert row["same top-1"] == 1 or row["system"] == "low precision alone"
    assert found["work"]["sentences"] == 24
    assert found["threads"] == document["machine"]["cores"]
    assert 0 < found["model share"] <= 1
    assert set(found["seconds for 1,000"]) == {"composing", "model", "writing"}
    assert found["skipped"] == {"PyTorch fp16 at the mask": "PyTorch in fp16 is for CUDA"}
    assert 0 < found["mixed, expected"]["close calls"] < 1
    assert found["mixed, expected"]["times fp32"] > 0


def test_the_bundled_model_is_measured_at_mixed_precision_and_lazily(cache):
    said = []
    only = ["PyTorch fp16 at the mask"]
    document = run.bench(
        ["mini"], device="cpu", effort=LITTLE, rounds=1, cache=cache, only=only, start=here, say=said.append
    )
    (found,) = json.loads(json.dumps(document))["models"]
    assert [row["system"] for row in found["systems"]] == [*ALWAYS, "mixed"]
    for row in found["systems"]:
        assert row["same top-1"] == 1 or row["system"] in {"low precision alone", "mixed"}
    assert found["systems"][-1]["same decision"] == 1
    assert found["close calls"] == found["systems"][-1]["close calls"]
    lazy = found["lazy"]
    assert lazy["same triplets"] is True
    assert lazy["times fewer calls"] == lazy["exhaustive tested"] / lazy["lazy tested"] > 1
    assert found["mixed, expected"] is None
    assert said[0] == "mini: preparing"


def test_a_baseline_that_does_not_exist_is_refused_before_anything_is_prepared(tmp_path):
    with pytest.raises(InputError, match=r"--baseline Optimal: there are .*Optimum, OpenVINO fp32"):
        run.bench(["mini"], device="cpu", cache=tmp_path, only=["Optimal"], say=[].append)
    assert not list(tmp_path.iterdir())


def _row(name, rate, ceiling=0.7):
    return {
        "system": name,
        "sentences/s": rate,
        "times authors, selection": rate / 40,
        "times authors, scoring": rate / 10,
        "share of ceiling": ceiling,
        "hours for 10.9 M": 10_900_000 / 3600 / rate,
        "MB": 12_345.6,
        "same top-1": 1.0,
    }


def test_the_expected_speed_of_mixed_is_the_sum_of_what_it_runs():
    rates = {"authors, selection": 40, "authors, scoring": 10, "fp32": 100, "low precision alone": 250}
    expected = run.expected_mixed([_row(*pair) for pair in rates.items()], 0.095)
    assert expected["sentences/s"] == pytest.approx(1 / (1 / 250 + 0.1 / 100))
    assert expected["times fp32"] == pytest.approx(2)
    assert expected["times authors, selection"] == pytest.approx(5)


def test_what_people_see_fits_in_80_columns_without_cuts():
    rows = [_row(name, 10.0 * 4**number) for number, name in enumerate([*ALWAYS, *BASELINES, "mixed"])]
    result = {
        "model": "bert-base-shape",
        "device": "cuda:0",
        "work": {"sentences": 100_000, "tokens": 18.2, "rounds": 5, "least GFLOP": 2.94},
        "product GFLOP/s": {"fp32": 50_000.0, "fp16": 800_000.0},
        "systems": rows,
        "threads": 2,
        "skipped": {"another": "not installed"},
        "mixed, expected": {**_row("", 1000.0, None), "close calls": 0.1},
        "seconds for 1,000": {"composing": 1e-4, "model": 20.0, "writing": 0.01},
        "model share": 0.97,
        "lazy": {"pairs": 8, "repeating %": 20.0, "exhaustive tested": 5000, "lazy tested": 900, "lazy seconds": 1.0,
                 "exhaustive seconds": 9.0, "same triplets": True, "times authors, selection": 12.0},
    }  # fmt: skip
    out = io.StringIO()
    for table in report.tables(result):
        Console(file=out, width=80).print(to_rich(table))
    shown = out.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for text in (*(row["system"] for row in rows), "mixed, expected", "163,840", "302.78", "12,346", "not installed"):
        assert text in shown


def test_random_weights_are_made_once_and_are_the_same_again(tmp_path, tiny_shapes):
    first = prepare("bert-base-shape", tmp_path, tiny_shapes)
    written = (tmp_path / "checkpoints/bert-base-shape/model.safetensors").stat().st_mtime_ns
    assert prepare("bert-base-shape", tmp_path, tiny_shapes).exported.sha256 == first.exported.sha256
    assert (tmp_path / "checkpoints/bert-base-shape/model.safetensors").stat().st_mtime_ns == written
