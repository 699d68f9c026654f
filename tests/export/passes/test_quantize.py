"""The int8 graph: what it quantizes and what it keeps, and that its interface is that of the fp32 graph."""

import numpy as np
import onnx_ir as ir
import pytest
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, array, dims, is_constant
from negengine.export.passes.int8 import mask_row_values, quantized
from onnx import TensorProto
from onnxruntime.quantization.quant_utils import quantize_data

from ..conftest import batch, values_of


@pytest.fixture(scope="module")
def graph(exported):
    return Graph.open(exported("bert") / "model.onnx")


@pytest.fixture(scope="module")
def int8(exported):
    return Graph.open(exported("bert") / "model.int8.onnx")


def signature(graph):
    def of(values):
        return [(value.name, value.dtype, len(value.shape)) for value in values]

    return of(graph.model.graph.inputs), of(graph.model.graph.outputs)


def test_products_over_all_positions_are_int8_and_of_the_masks_row_that_with_the_vocabulary_alone(exported, int8):
    """Three layers: Q, K, V, output and two of the feed-forward each; the last layer has K and V alone for all rows."""
    rows = mask_row_values(int8)
    products = [node for node in int8.nodes if node.op_type == "MatMulInteger"]
    of_rows = [node for node in products if node.outputs[0] in rows]
    assert len(products) - len(of_rows) == 2 * 6 + 2
    assert [dims(node.inputs[1])[1] for node in of_rows] == [load_exported(exported("bert")).vocab_size]


def test_weights_use_seven_bits_so_that_no_processor_saturates(int8):
    matrices = [
        array(value) for value in int8.initializers if value.dtype == ir.DataType.INT8 and len(value.shape) == 2
    ]
    assert matrices
    assert max(np.abs(matrix.astype(int)).max() for matrix in matrices) <= 64


def test_weights_that_stay_fp32_are_those_of_the_fp32_graph(int8):
    """On disk they lie once, in the file beside model.onnx."""
    (embeddings,) = {
        node.inputs[0].const_value.location
        for node in int8.nodes
        if node.op_type == "Gather" and is_constant(node.inputs[0]) and len(dims(node.inputs[0])) == 2
    }
    assert embeddings == "model.onnx_data"


def test_inputs_and_outputs_stay_and_logits_are_near_those_of_fp32(graph, int8):
    assert signature(int8) == signature(graph)
    feeds = batch(50, 12, seed=1)
    exact, near = (values_of(each, feeds, ["logits"])["logits"] for each in (graph, int8))
    assert np.abs(near - exact).std() < 0.1 * exact.std()
    assert np.abs(near - exact).max() > 0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_matrix_is_quantized_as_by_onnx_runtime(scale):
    random = np.random.default_rng(0)
    weights = (random.normal(size=(48, 7)) * scale * 10.0 ** random.integers(-2, 3, 7)).astype(np.float32)
    weights[:, 3] = 0
    numbers, scales = quantized(weights)
    for column in range(7):
        _, wanted, data = quantize_data(weights[:, column], TensorProto.INT8, symmetric=True, reduce_range=True)
        assert scales[column] == wanted
        np.testing.assert_array_equal(numbers[:, column], data)
