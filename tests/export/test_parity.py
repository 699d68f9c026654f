"""The parity check accepts the exported graph, and rejects one that is wrong anywhere it could be."""

import numpy as np
import onnx
import pytest
from negengine.engine.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, save
from negengine.export.parity import compare, random_sentences, reference_logits
from onnx import numpy_helper
from transformers import AutoModelForMaskedLM, AutoTokenizer


@pytest.fixture(scope="module")
def reference(checkpoint):
    """Sentences, and PyTorch's logits for them."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint("bert"))
    model = AutoModelForMaskedLM.from_pretrained(checkpoint("bert")).eval()
    ordinary = [i for i in range(len(tokenizer)) if i not in {tokenizer.mask_token_id, tokenizer.pad_token_id}]
    sentences = [s for seed in range(5) for s in random_sentences(ordinary, tokenizer.mask_token_id, 128, seed)]
    return sentences, reference_logits(model, sentences)


@pytest.fixture
def graph(exported):
    return Graph(onnx.load(load_exported(exported("bert")).graph))


def checked(graph, reference, folder):
    (path,) = save(graph.model, folder / "model.onnx")
    return compare(path, *reference, name="tiny")


def test_the_exported_graph_agrees(graph, reference, tmp_path):
    parity = checked(graph, reference, tmp_path)
    assert parity.sentences == len(reference[0]) > 15
    assert 0 < parity.largest_difference < 1e-4
    assert (parity.top1_agreement, parity.ties) == (1, 0)


def test_every_weight_counts(graph, reference, tmp_path):
    """Each matrix of the encoder in turn is off by a hundredth in one place out of ten."""
    matrices = [name for name, t in graph.constants.items() if len(t.dims) == 2 and min(t.dims) > 16]
    assert len(matrices) > 15
    random = np.random.default_rng(0)
    for name in matrices:
        whole = graph.array(name).copy()
        wrong = whole + 0.01 * whole.std() * (random.random(whole.shape) < 0.1).astype(np.float32)
        graph.constants[name].CopyFrom(numpy_helper.from_array(wrong.astype(np.float32), name))
        with pytest.raises(InputError, match=r"tiny: the exported graph disagrees with PyTorch: \|Δlogit\|"):
            checked(graph, reference, tmp_path)
        graph.constants[name].CopyFrom(numpy_helper.from_array(whole, name))
    checked(graph, reference, tmp_path)


@pytest.mark.parametrize("kind", ["TopK", "Greater", "Log"])
def test_a_wrong_decision_is_found_though_the_logits_are_right(kind, graph, reference, tmp_path):
    node = next(node for node in graph.nodes if node.op_type == kind)
    if kind == "TopK":
        next(a for a in node.attribute if a.name == "largest").i = 0
    else:
        node.op_type = {"Greater": "Less", "Log": "Sqrt"}[kind]
    with pytest.raises(InputError, match="disagrees with PyTorch"):
        checked(graph, reference, tmp_path)


def test_not_a_number_is_no_agreement(graph, reference, tmp_path):
    bias = next(name for name, t in graph.constants.items() if "cls.predictions.bias" in name)
    graph.constants[bias].CopyFrom(numpy_helper.from_array(graph.array(bias) * np.float32(np.nan), bias))
    with pytest.raises(InputError, match="disagrees with PyTorch"):
        checked(graph, reference, tmp_path)


def test_other_top1s_within_the_tolerance_are_ties(graph, reference, tmp_path):
    """In the reference the runner-up is lifted just above the top-1; the tolerance is wider than their distance."""
    sentences, logits = reference
    lifted = logits[:3].copy()
    for row in lifted:
        best, second = np.argsort(-row)[:2]
        row[second] = row[best] + 1e-4
    (path,) = save(graph.model, tmp_path / "model.onnx")
    parity = compare(path, sentences[:3], lifted, name="tiny", tolerance=1.0)
    assert (parity.ties, parity.top1_agreement) == (3, 0)
