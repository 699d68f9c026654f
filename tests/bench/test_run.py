"""A benchmark of a tiny model: every way gives the same answers, and the last line is one JSON document."""

import builtins
import io
import json

import numpy as np
import pytest
from negengine.bench import report, run, shapes
from negengine.bench.measure import alternate, fastest, memory_rise
from negengine.bench.peers import Peer
from negengine.bench.shapes import prepare
from negengine.bench.workload import workload
from negengine.engine.cli.main import main as cli
from negengine.engine.inference.device import CPU
from rich.console import Console
from transformers import BertConfig, RobertaConfig

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WAYS = ["authors, selection", "authors, scoring", "PyTorch at the mask", "pipeline", "Optimum", "fp32", "twin alone"]


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch, mini):
    """Tiny models under the names of large ones, in a cache of their own; less of everything that takes time."""
    (tmp_path / "cache/exported").mkdir(parents=True)
    (tmp_path / "cache/exported/mini").symlink_to(mini.folder)
    monkeypatch.setattr("negengine.bench.run._TRIED", {"cpu": 16})
    monkeypatch.setattr("negengine.bench.run._LAZY_PAIRS", 1)
    monkeypatch.setattr("negengine.bench.parts._PAIRS", 1)
    monkeypatch.setattr(shapes, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("negengine.bench.run.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("negengine.bench.run._MOST", 200)
    tiny = {"bert-base-shape": (BertConfig, SMALL | {"vocab_size": 13_000})}
    tiny["roberta-base-shape"] = (RobertaConfig, SMALL | {"vocab_size": 13_000, "max_position_embeddings": 514})
    monkeypatch.setattr(shapes, "SHAPES", tiny)


def test_the_last_line_is_json_and_all_ways_agree(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["negengine", "bench", "roberta-base-shape", "--quick", "--rounds", "2"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    out = capsys.readouterr().out
    document = json.loads(out.splitlines()[-1])
    assert document["machine"]["cores"] >= 1
    assert document["command"] == "negengine bench roberta-base-shape --quick --rounds 2"
    (found,) = document["models"]
    assert found["random weights"] is True
    assert [way["way"] for way in found["ways"]] == WAYS
    for way in found["ways"]:
        assert way["sentences/s"] > 0
        assert len(way["seconds"]) == 2
        # random weights leave the logits close together, so that int8 may find another top-1
        assert way["same top-1"] == 1 or way["way"] == "twin alone"
    assert found["work"]["sentences"] == 200
    assert 0 < found["model share"] <= 1
    assert set(found["seconds for 1,000"]) == {"composing", "transfer", "model", "decisions", "writing"}
    assert all(row["way"] in out for row in found["ways"])
    assert found["skipped"] == {}
    assert 0 < found["mixed, expected"]["close calls"] < 1
    assert found["mixed, expected"]["times fp32"] > 0


def test_the_bundled_model_is_measured_at_mixed_precision_and_lazily():
    said = []
    document = run.bench(["mini"], device="cpu", quick=True, rounds=1, say=said.append)
    (found,) = json.loads(json.dumps(document))["models"]
    assert [way["way"] for way in found["ways"]] == [*WAYS, "mixed"]
    for way in found["ways"]:
        assert way["same top-1"] == 1 or way["way"] in {"twin alone", "mixed"}
    assert found["ways"][-1]["same decision"] == 1
    lazy = found["lazy"]
    assert lazy["same triplets"] is True
    assert lazy["times fewer calls"] == lazy["exhaustive tested"] / lazy["lazy tested"] > 1
    assert found["mixed, expected"] is None
    assert found["sweep"] == []
    assert said[0] == "mini: making ready"


def test_a_library_that_is_missing_is_left_out_with_the_reason(monkeypatch):
    real = builtins.__import__

    def without(name, *others):
        if name == "optimum.onnxruntime":
            raise ModuleNotFoundError("No module named 'optimum.onnxruntime'")
        return real(name, *others)

    measured = prepare("bert-base-shape")
    monkeypatch.setattr(builtins, "__import__", without)
    found = run.measure(measured, CPU, quick=True, rounds=1, say=lambda _: None)
    assert found["skipped"] == {"Optimum": "No module named 'optimum.onnxruntime'"}
    assert [way["way"] for way in found["ways"]] == [name for name in WAYS if name != "Optimum"]


def _way(name, rate, ceiling=0.7):
    return {
        "way": name,
        "sentences/s": rate,
        "times authors, selection": rate / 40,
        "times authors, scoring": rate / 10,
        "share of ceiling": ceiling,
        "hours for 10.9 M": 10_900_000 / 3600 / rate,
        "MB": 12_345.6,
        "same top-1": 1.0,
    }


def test_the_expected_speed_of_mixed_is_the_sum_of_what_it_runs():
    ways = [_way(*pair) for pair in [("authors, selection", 40), ("authors, scoring", 10)]]
    ways += [_way("fp32", 100), _way("twin alone", 250)]
    expected = run._expected(ways, 0.095)
    assert expected["sentences/s"] == pytest.approx(1 / (1 / 250 + 0.1 / 100))
    assert expected["times fp32"] == pytest.approx(2)
    assert expected["times authors, selection"] == pytest.approx(5)


def test_what_people_see_fits_in_80_columns_without_cuts():
    ways = [_way(name, 10.0 * 4**number) for number, name in enumerate([*WAYS, "mixed"])]
    result = {
        "model": "roberta-base-shape",
        "device": "cuda:0",
        "work": {"sentences": 100_000, "tokens": 18.2, "rounds": 5, "least GFLOP": 2.94},
        "product GFLOP/s": {"fp32": 50_000.0, "fp16": 800_000.0},
        "ways": ways,
        "skipped": {"another": "not installed"},
        "mixed, expected": {**_way("", 1000.0, None), "close calls": 0.1},
        "seconds for 1,000": {"composing": 1e-4, "transfer": 0.0, "model": 20.0, "decisions": None, "writing": 0.01},
        "model share": 0.97,
        "lazy": {"pairs": 8, "repeating %": 20.0, "exhaustive tested": 5000, "lazy tested": 900, "lazy seconds": 1.0,
                 "exhaustive seconds": 9.0, "same triplets": True, "times authors, selection": 12.0},
        "sweep": [{"length": 18, "batch_tokens": 4096, "threads": 2, "rate": 1234.5}],
    }  # fmt: skip
    out = io.StringIO()
    for table in report.tables(result):
        Console(file=out, width=80).print(table)
    shown = out.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for text in (*(way["way"] for way in ways), "mixed, expected", "163,840", "303", "12,346", "not installed"):
        assert text in shown


def test_random_weights_are_made_once_and_are_the_same_again(tmp_path):
    first = prepare("bert-base-shape")
    written = (tmp_path / "cache/checkpoints/bert-base-shape/model.safetensors").stat().st_mtime_ns
    assert prepare("bert-base-shape").exported.sha256 == first.exported.sha256
    assert (tmp_path / "cache/checkpoints/bert-base-shape/model.safetensors").stat().st_mtime_ns == written


def test_texts_and_ids_of_a_workload_are_the_same_sentences(mini, mini_tokenizer):
    work = workload(mini, 300)
    encoded = mini_tokenizer.encode(work.texts)
    seen = []
    for piece in work.head(100).sentences.slices:
        for row, ids in zip(piece.rows, piece.ids, strict=True):
            np.testing.assert_array_equal(ids, encoded[row])
            seen.append(row)
    assert sorted(seen) == list(range(100))
    assert work.length == pytest.approx(np.mean([len(ids) for ids in encoded]))


def test_rounds_alternate_and_answers_are_compared_with_the_first_way(mini):
    work = workload(mini, 80)
    order = []

    def way(name, answer):
        return Peer(name, "", lambda work: (order.append(name), np.full(len(work), answer, np.int32))[1])

    half = Peer("half", "", lambda work: (order.append("half"), np.arange(len(work), dtype=np.int32) % 2)[1])
    timings = alternate([way("one", 1), half], {"selection": work}, rounds=3)
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
    slow = Peer("way", "slow", lambda work: np.sort(np.random.default_rng(0).random((3_000_000,)))[: len(work)])
    quick = Peer("way", "quick", lambda work: np.zeros(len(work), np.int32))
    assert fastest([slow, quick], workload(mini, 70)).about == "quick"
