"""The first layer alone, with which kernels are measured."""

import numpy as np
import onnxruntime as ort
import pytest
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.session import run_options
from negengine.export.graph import Graph

from ..conftest import batch, operators
from ..families import ROWS

FUSED = sorted(name for name, row in ROWS.items() if row.attentions and name != "mobilebert")  # it has bottlenecks


def run(path, feeds):
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds, run_options())


@pytest.mark.parametrize("family", FUSED)
def test_it_has_the_attention_and_the_products_of_one_layer(family, exported):
    found = load_exported(exported(family))
    layers, whole = ROWS[family].attentions, operators(Graph.open(found.convolved))
    graph = Graph.open(found.first_layer("model.onnx"))
    own, convolved = operators(graph), operators(Graph.open(found.first_layer("model.cpu.onnx")))
    assert own["MultiHeadAttention"] == convolved["Attention"] == 1
    products = -(-(whole["Conv"] - 2) // (layers - 1))
    assert own["MatMul"] == convolved["Conv"] == products
    assert all(value.name.startswith("layer_") for value in graph.outputs.values())


@pytest.mark.parametrize("family", ROWS)
def test_both_forms_compute_the_same(family, exported):
    found = load_exported(exported(family))
    feeds = batch(3, 12)
    one, other = (run(found.first_layer(name), feeds) for name in ("model.onnx", "model.cpu.onnx"))
    assert len(one) == len(other) > 0
    for values, own in zip(one, other, strict=True):
        scale = max(1.0, float(np.abs(values).max()))
        np.testing.assert_allclose(own, values, atol=2e-5 * scale, rtol=0)


def test_it_does_not_belong_to_the_identity_of_the_decisions(exported, tmp_path):
    found = load_exported(exported("bert"))
    assert {"model.layer.onnx", "model.cpu.layer.onnx"} <= set(found.info["files"])
    assert (found.folder / "model.layer.onnx").stat().st_size < found.graph.stat().st_size
