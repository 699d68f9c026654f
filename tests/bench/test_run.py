"""A benchmark of a tiny model: every way gives the same answers, and the last line is one JSON document."""

import json

import numpy as np
import pytest
import torch
from negengine.bench import shapes
from negengine.bench.measure import alternate, energy_used, fastest, memory_rise
from negengine.bench.peers import Peer
from negengine.bench.shapes import prepare
from negengine.bench.workload import workload
from negengine.engine import cli
from transformers import BertConfig, RobertaConfig

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WAYS = ["authors, selection", "authors, scoring", "PyTorch at the mask", "pipeline", "Optimum", "fp32", "twin alone"]


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Tiny models under the names of large ones, in a cache of their own."""
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
    assert set(found["seconds for 1,000"]) == {"composing", "model", "decisions", "writing"}
    assert all(row["way"] in out for row in found["ways"])


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
    assert len(timings["half"].seconds) == 3
    assert timings["half"].rate > 0


def test_memory_that_was_taken_and_given_back_is_seen():
    with memory_rise() as risen:
        block = np.ones(40_000_000)
        del block
    if risen[0] is None:
        pytest.skip("this system does not tell a process's peak memory")
    assert risen[0] > 200


def test_energy_is_a_number_or_nothing():
    with energy_used() as used:
        torch.ones(1000).sum()
    assert used[0] is None or used[0] >= 0


def test_the_fastest_variant_is_taken(mini):
    slow = Peer("way", "slow", lambda work: np.sort(np.random.default_rng(0).random((3_000_000,)))[: len(work)])
    quick = Peer("way", "quick", lambda work: np.zeros(len(work), np.int32))
    assert fastest([slow, quick], workload(mini, 70)).about == "quick"
