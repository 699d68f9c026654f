"""The cost of an export, measured in a process of its own, beside plain Optimum."""

import json

import pytest
from negengine.bench.export import SYSTEMS, measure, table
from negengine.bench.shapes import SHAPES
from transformers import BertConfig

pytestmark = [pytest.mark.long, pytest.mark.everything]

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}


def test_both_systems_are_measured(tmp_path, monkeypatch):
    monkeypatch.setitem(SHAPES, "tiny-shape", (BertConfig, SIZES | {"vocab_size": 20000}))
    found = json.loads(json.dumps(measure(["tiny-shape"], folder=tmp_path)))
    costs = found["export"]
    assert [(cost["model"], cost["system"]) for cost in costs] == [("tiny-shape", system) for system in SYSTEMS]
    for cost in costs:
        assert cost["seconds"] > 0
        assert cost["cpu_seconds"] > 0
        assert 1e8 < cost["peak_bytes"] < 1e11  # bytes, on every system
        assert cost["disk_bytes"] > 20000 * 32 * 4  # the word embeddings at least
    assert table(found).frame.height == 2
