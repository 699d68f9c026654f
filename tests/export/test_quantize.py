"""The int8 twin: what it quantizes and what it keeps, and that its interface is that of the fp32 graph."""

import numpy as np
import onnx
import pytest
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, observe
from negengine.export.passes.quantize import quantize

from .conftest import batch


@pytest.fixture(scope="module")
def graph(exported):
    return Graph(onnx.load(load_exported(exported("bert")).graph))


@pytest.fixture(scope="module")
def low_precision(graph):
    return quantize(graph, [batch(20, 12)])


def signature(graph):
    def of(values):
        return [(v.name, v.type.tensor_type.elem_type, len(v.type.tensor_type.shape.dim)) for v in values]

    return of(graph.model.graph.input), of(graph.model.graph.output)


def test_inputs_and_outputs_stay(graph, twin):
    assert signature(twin) == signature(graph)


def test_products_over_all_positions_are_int8_and_those_of_the_masks_row_stay_fp32(graph, twin):
    """Three layers: Q, K, V, output and two of the feed-forward each; the last layer has K and V alone for all rows."""
    quantized = [node for node in twin.nodes if node.op_type in {"MatMulInteger", "DynamicQuantizeMatMul"}]
    assert len(quantized) == 2 * 6 + 2
    rows = {"mask_position"}
    for node in twin.nodes:
        if not rows.isdisjoint(node.input):
            rows.update(node.output)
    assert all(node.output[0] not in rows for node in quantized)


def test_weights_use_seven_bits_so_that_no_processor_saturates(twin):
    weights = [twin.array(name) for name, t in twin.constants.items() if t.data_type == onnx.TensorProto.INT8]
    matrices = [w for w in weights if w.ndim == 2]
    assert matrices
    assert max(np.abs(w.astype(int)).max() for w in matrices) <= 64


def test_logits_are_near_those_of_fp32(graph, twin):
    feeds = batch(50, 12, seed=1)
    exact, near = (observe(g.model, feeds, ["logits"])["logits"] for g in (graph, twin))
    assert np.abs(near - exact).std() < 0.1 * exact.std()
    assert np.abs(near - exact).max() > 0


def test_the_graph_given_is_not_changed(graph):
    before = graph.model.SerializeToString()
    quantize(graph, [batch(4, 9)])
    assert graph.model.SerializeToString() == before
