"""The benchmark of likelihoods: every system gives the same sums, and a missing baseline is a line."""

import json
import sys

import pytest
from negengine.bench.comparison import Effort
from negengine.bench.likelihood import SUBJECT, sentences
from negengine.bench.subject import bench_subject
from negengine.bench.systems import LOOP, OURS, ROW
from served_here import here
from transformers import BertConfig, GPT2Config

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
SHAPES = {
    "tiny-shape": (BertConfig, SIZES | {"vocab_size": 20000}),
    "tiny-gpt2-shape": (GPT2Config, {"vocab_size": 20000, "n_embd": 32, "n_layer": 1, "n_head": 2}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "minicons", None)  # as if it were not installed
        effort = Effort(rounds=1, seconds=0, tried=4, fewest=8)
        return bench_subject(
            SUBJECT, list(SHAPES), effort=effort, cache=folder, shapes=SHAPES, start=here, say=[].append
        )


def test_all_systems_give_the_same_sums(found):
    masked, causal = found["models"]
    assert [row["system"] for row in masked["systems"]] == [LOOP, ROW, OURS]
    assert [row["system"] for row in causal["systems"]] == [LOOP, OURS]
    for row in (*masked["systems"], *causal["systems"]):
        assert row["difference"] < 1e-3
        assert row["sentences/s"] > 0


def test_a_missing_baseline_is_a_line_and_the_document_is_json(found):
    for result in found["models"]:
        assert any("minicons" in line and "negengine[bench]" in line for line in result["missing"])
        assert any("missing: minicons" in note for note in SUBJECT.table(result).notes)
    assert json.loads(json.dumps(found))["models"][0]["model"] == "tiny-shape"


def test_sentences_are_drawn_by_the_seed():
    assert sentences(5) == sentences(5) != sentences(5, seed=1)
    assert all(" is a" in text and text.endswith(".") for text in sentences(5).texts)
