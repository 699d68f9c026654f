"""A benchmark of a tiny model: every system gives the same answers, and the last line is one JSON document."""

import builtins
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from negengine.bench import report, run
from negengine.bench.baselines import System
from negengine.bench.measure import alternate, fastest, memory_rise
from negengine.bench.shapes import prepare
from negengine.bench.workload import workload
from negengine.engine.inference.device import CPU
from negengine.engine.tables.render import to_rich
from rich.console import Console
from transformers import BertConfig, RobertaConfig

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SHAPES = {
    "bert-base-shape": (BertConfig, SIZES | {"vocab_size": 13_000}),
    "roberta-base-shape": (RobertaConfig, SIZES | {"vocab_size": 13_000, "max_position_embeddings": 514}),
}
LITTLE = run.Effort(
    rounds=1, seconds=0.1, fewest=24, most=24, tried=4, warm_up=4, ceiling_rounds=1, calibrated=100, lazy_pairs=1,
    pairs=1, sweep=False,
)  # fmt: skip
SYSTEMS = [
    "authors, selection",
    "authors, scoring",
    "PyTorch at the mask",
    "pipeline",
    "Optimum",
    "fp32",
    "low precision alone",
]


@pytest.fixture
def cache(once, mini):
    """Where checkpoints and exports made for measuring are kept; the bundled model is there already."""

    def make(folder):
        (folder / "exported").mkdir(parents=True)
        (folder / "exported" / "mini").symlink_to(mini.folder)

    return once("bench", make)


def test_all_systems_agree(cache, monkeypatch):
    monkeypatch.setattr("sys.argv", ["negengine", "bench", "roberta-base-shape", "--quick"])
    effort = replace(LITTLE, rounds=2)
    document = run.bench(
        ["roberta-base-shape"], device="cpu", effort=effort, cache=cache, shapes=SHAPES, say=lambda _: None
    )
    document = json.loads(json.dumps(document))
    assert document["machine"]["cores"] >= 1
    assert document["command"] == "negengine bench roberta-base-shape --quick"
    (found,) = document["models"]
    assert found["random weights"] is True
    assert [row["system"] for row in found["systems"]] == SYSTEMS
    for row in found["systems"]:
        assert row["sentences/s"] > 0
        assert len(row["seconds"]) == 2
        # random weights leave the logits close together, so that int8 may find another top-1
        assert row["same top-1"] == 1 or row["system"] == "low precision alone"
    assert found["work"]["sentences"] == 24
    assert 0 < found["model share"] <= 1
    assert set(found["seconds for 1,000"]) == {"composing", "transfer", "model", "decisions", "writing"}
    assert found["skipped"] == {}
    assert 0 < found["mixed, expected"]["close calls"] < 1
    assert found["mixed, expected"]["times fp32"] > 0


def test_the_bundled_model_is_measured_at_mixed_precision_and_lazily(cache):
    said = []
    document = run.bench(["mini"], device="cpu", effort=LITTLE, cache=cache, say=said.append)
    (found,) = json.loads(json.dumps(document))["models"]
    assert [row["system"] for row in found["systems"]] == [*SYSTEMS, "mixed"]
    for row in found["systems"]:
        assert row["same top-1"] == 1 or row["system"] in {"low precision alone", "mixed"}
    assert found["systems"][-1]["same decision"] == 1
    lazy = found["lazy"]
    assert lazy["same triplets"] is True
    assert lazy["times fewer calls"] == lazy["exhaustive tested"] / lazy["lazy tested"] > 1
    assert found["mixed, expected"] is None
    assert found["sweep"] == []
    assert said[0] == "mini: preparing"


def test_a_library_that_is_missing_is_not_measured_and_the_reason_is_told(cache, monkeypatch):
    real = builtins.__import__

    def without(name, *others):
        if name == "optimum.onnxruntime":
            raise ModuleNotFoundError("No module named 'optimum.onnxruntime'")
        return real(name, *others)

    measured = prepare("roberta-base-shape", cache, SHAPES)
    monkeypatch.setattr(builtins, "__import__", without)
    found = run.measure(measured, CPU, LITTLE, cache=cache, say=lambda _: None)
    assert found["skipped"] == {"Optimum": "No module named 'optimum.onnxruntime'"}
    assert [row["system"] for row in found["systems"]] == [name for name in SYSTEMS if name != "Optimum"]


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
    rows = [_row(*pair) for pair in [("authors, selection", 40), ("authors, scoring", 10)]]
    rows += [_row("fp32", 100), _row("low precision alone", 250)]
    expected = run._expected(rows, 0.095)
    assert expected["sentences/s"] == pytest.approx(1 / (1 / 250 + 0.1 / 100))
    assert expected["times fp32"] == pytest.approx(2)
    assert expected["times authors, selection"] == pytest.approx(5)


def test_what_people_see_fits_in_80_columns_without_cuts():
    rows = [_row(name, 10.0 * 4**number) for number, name in enumerate([*SYSTEMS, "mixed"])]
    result = {
        "model": "roberta-base-shape",
        "device": "cuda:0",
        "work": {"sentences": 100_000, "tokens": 18.2, "rounds": 5, "least GFLOP": 2.94},
        "product GFLOP/s": {"fp32": 50_000.0, "fp16": 800_000.0},
        "systems": rows,
        "skipped": {"another": "not installed"},
        "mixed, expected": {**_row("", 1000.0, None), "close calls": 0.1},
        "seconds for 1,000": {"composing": 1e-4, "transfer": 0.0, "model": 20.0, "decisions": None, "writing": 0.01},
        "model share": 0.97,
        "lazy": {"pairs": 8, "repeating %": 20.0, "exhaustive tested": 5000, "lazy tested": 900, "lazy seconds": 1.0,
                 "exhaustive seconds": 9.0, "same triplets": True, "times authors, selection": 12.0},
        "sweep": [{"length": 18, "batch_tokens": 4096, "threads": 2, "rate": 1234.5}],
    }  # fmt: skip
    out = io.StringIO()
    for table in report.tables(result):
        Console(file=out, width=80).print(to_rich(table))
    shown = out.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for text in (*(row["system"] for row in rows), "mixed, expected", "163,840", "303", "12,346", "not installed"):
        assert text in shown


def test_random_weights_are_made_once_and_are_the_same_again(tmp_path):
    first = prepare("bert-base-shape", tmp_path, SHAPES)
    written = (tmp_path / "checkpoints/bert-base-shape/model.safetensors").stat().st_mtime_ns
    assert prepare("bert-base-shape", tmp_path, SHAPES).exported.sha256 == first.exported.sha256
    assert (tmp_path / "checkpoints/bert-base-shape/model.safetensors").stat().st_mtime_ns == written


def test_texts_and_ids_of_a_workload_are_the_same_sentences(mini, mini_tokenizer):
    work = workload(mini, 300)
    encoded = mini_tokenizer.encode(work.texts)
    seen = []
    for piece in work.head(100).sentences.buckets:
        for row, ids in zip(piece.rows, piece.ids, strict=True):
            np.testing.assert_array_equal(ids, encoded[row])
            seen.append(row)
    assert sorted(seen) == list(range(100))
    assert work.length == pytest.approx(np.mean([len(ids) for ids in encoded]))


def test_rounds_alternate_and_answers_are_compared_with_the_first_row(mini):
    work = workload(mini, 80)
    order = []

    def system(name, answer):
        return System(name, "", lambda work: (order.append(name), np.full(len(work), answer, np.int32))[1])

    half = System("half", "", lambda work: (order.append("half"), np.arange(len(work), dtype=np.int32) % 2)[1])
    timings = alternate([system("one", 1), half], {"selection": work}, rounds=3)
    assert order == ["one", "half", *["one", "half", "half", "one", "one", "half"]]
    assert timings["one"].agreement == 1
    assert timings["half"].agreement == 0.5
    # where no sentence expects 0 or 1, the answers differ and the decisions do not
    assert not np.isin(work.sentences.expected, (0, 1)).any()
    assert timings["half"].decisions == 1
    assert len(timings["half"].seconds) == 3
    assert timings["half"].rate > 0


def test_memory_that_was_taken_and_given_back_is_seen():
    with memory_rise() as risen:
        block = np.ones(40_000_000)
        del block
    if risen[0] is None:
        pytest.skip("this system does not tell a process's peak memory")
    assert risen[0] > 200


def test_the_fastest_variant_is_taken(mini):
    slow = System("one", "slow", lambda work: np.sort(np.random.default_rng(0).random((3_000_000,)))[: len(work)])
    quick = System("one", "quick", lambda work: np.zeros(len(work), np.int32))
    assert fastest([slow, quick], workload(mini, 70)).about == "quick"
