"""The parity check accepts the exported graph, and rejects one that is wrong anywhere it could be."""

import shutil

import numpy as np
import onnx_ir as ir
import pytest
from negengine.engine.basics.errors import InputError
from negengine.export import parity
from negengine.export.checkpoint import load, load_model, locate
from negengine.export.graph import Graph, array
from negengine.export.samples import with_masks
from negengine.export.tasks import FILL_MASK


@pytest.fixture(scope="module")
def reference(checkpoint):
    """Sentences, and PyTorch's logits for them."""
    tiny = load(locate(str(checkpoint("bert"))), FILL_MASK.head)
    sentences = with_masks(tiny, False)
    return sentences, parity.reference_logits(load_model(tiny, FILL_MASK.head), sentences, "tiny")


@pytest.fixture
def graph(exported, tmp_path):
    return Graph.open(shutil.copytree(exported("bert"), tmp_path / "bert") / "model.onnx")


@pytest.fixture
def checked(reference, tmp_path):
    def check(graph, sentences=reference[0], logits=reference[1], **options):
        return parity.compare(graph.save(tmp_path / "bert" / "model.onnx")[0], sentences, logits, name="t", **options)

    return check


def put(value, values):
    value.const_value = ir.tensor(values.astype(np.float32), name=value.name)


def test_the_exported_graph_agrees_and_every_weight_counts(graph, reference, checked, monkeypatch):
    """Each matrix of the encoder in turn is off by a hundredth in one place out of ten."""
    found = checked(graph)
    assert found.samples == len(reference[0]) > 15
    assert 0 < found.largest_difference < 1e-4
    assert found.top1_agreement == 1
    matrices = [value for value in graph.initializers if len(value.shape) == 2 and min(value.shape.numpy()) > 16]
    assert len(matrices) > 15
    random = np.random.default_rng(0)
    for value in matrices:
        whole, before = array(value), value.const_value
        put(value, whole + 0.01 * whole.std() * (random.random(whole.shape) < 0.1))
        with pytest.raises(InputError, match=r"t: the exported graph disagrees with PyTorch: \|Δlogit\|"):
            checked(graph)
        value.const_value = before
    # Other top-1s within the tolerance are ties: here the runner-up is lifted just above the top-1.
    monkeypatch.setattr(parity, "TOLERANCE", 1.0)
    lifted = reference[1][:3].copy()
    for row in lifted:
        best, second = np.argsort(-row)[:2]
        row[second] = row[best] + 1e-4
    assert checked(graph, reference[0][:3], lifted).top1_agreement == 0


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("kind", ["TopK", "Greater", "Log", "not a number"])
def test_a_wrong_decision_is_found_though_the_logits_are_right_and_not_a_number_is_not_agreement(
    kind, is_exact, graph, checked
):
    if kind == "not a number":
        bias = next(value for value in graph.initializers if "cls.predictions.bias" in value.name)
        put(bias, array(bias) * np.nan)
    else:
        node = next(node for node in graph.nodes if node.op_type == kind)
        if kind == "TopK":
            node.attributes["largest"] = ir.AttrInt64("largest", 0)
        else:
            node.op_type = {"Greater": "Less", "Log": "Sqrt"}[kind]
    with pytest.raises(InputError, match="disagrees with PyTorch"):
        checked(graph, is_exact=is_exact)
