"""The int8 graph: what it quantizes and keeps, its interface; of the vocabulary, what decides is fp32."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from few import few
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, array, dims
from negengine.export.passes.int8 import mask_row_values, quantize_vocabulary, quantized
from onnx import TensorProto, helper
from onnxruntime.quantization.quant_utils import quantize_data

from ..conftest import batch, context, graph_of, operators, values_of


@pytest.fixture(scope="module")
def graph(exported):
    return Graph.open(exported("bert") / "model.onnx")


@pytest.fixture(scope="module")
def int8(exported):
    return Graph.open(exported("bert") / "model.int8.onnx")


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


def test_inputs_and_outputs_stay_and_logits_are_near_those_of_fp32(graph, int8):
    for side in ("inputs", "outputs"):
        own, wanted = (list(getattr(each.model.graph, side)) for each in (int8, graph))
        assert [(v.name, v.dtype, len(v.shape)) for v in own] == [(v.name, v.dtype, len(v.shape)) for v in wanted]
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


# ---------------------------------------------------------------- the product with the vocabulary

ROWS, WIDTH, TOKENS = 6, 32, 400
BIAS = np.linspace(-1, 1, TOKENS).astype(np.float32)


def projection(*after: str, tokens: int = TOKENS, bias: bool = True, tied: bool = True) -> Graph:
    """Logits of rows by a table of embeddings, or by a matrix of their own; `after` are operators behind the bias."""
    table = np.random.default_rng(0).normal(size=(tokens, WIDTH)).astype(np.float32)
    constants = {"table": table if tied else np.ascontiguousarray(table.T), "bias": BIAS[:tokens]}
    nodes = [helper.make_node("Transpose", ["table"], ["matrix"], perm=[1, 0])] if tied else []
    steps = ["MatMul", *(["Add"] if bias else []), *after]
    names = ["row", *(f"step_{number}" for number in range(1, len(steps))), "logits"]
    for step, read, written in zip(steps, names, names[1:], strict=False):
        seconds = {"MatMul": ["matrix" if tied else "table"], "Add": ["bias"]}
        nodes.append(helper.make_node(step, [read, *seconds.get(step, [])], [written]))
    inputs = [("row", TensorProto.FLOAT, ["batch", WIDTH]), ("expected_id", TensorProto.INT32, ["batch"])]
    return graph_of(nodes, inputs, [("logits", TensorProto.FLOAT, ["batch", tokens])], constants)


def logits_of(graph: Graph, expected: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(graph.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    row = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)
    feeds = {"row": row, "expected_id": expected}
    (logits,) = session.run(["logits"], {value.name: feeds[value.name] for value in session.get_inputs()})
    return logits


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_the_highest_logits_and_the_expected_tokens_are_fp32_and_all_others_near(bias, tied):
    wanted = logits_of(projection(bias=bias, tied=tied), np.zeros(ROWS, np.int32))
    expected = wanted.argsort(axis=1)[:, TOKENS // 2].astype(np.int32)  # in the middle, not among the leaders
    graph = projection(bias=bias, tied=tied)
    quantize_vocabulary(graph, context())
    found = logits_of(graph, expected)
    leaders = np.c_[wanted.argsort(axis=1)[:, -8:], expected]  # half of those computed, as int8 may order them anew
    off = np.abs(found - wanted)
    np.testing.assert_allclose(np.take_along_axis(off, leaders, 1), 0, atol=1e-5)
    assert 0 < np.median(off) < 0.05 * wanted.std()
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()


def test_a_small_vocabulary_and_logits_that_are_changed_after_the_product_stay_fp32():
    none = np.zeros(ROWS, np.int32)
    wanted, graph = logits_of(projection(tokens=9), none), projection(tokens=9)  # fewer than the leaders
    quantize_vocabulary(graph, context())
    np.testing.assert_allclose(logits_of(graph, none), wanted, atol=1e-5)
    changed = projection("Tanh")
    quantize_vocabulary(changed, context())
    assert operators(changed) == operators(projection("Tanh"))


@pytest.mark.parametrize("family", few(["bert", "albert", "modernbert"], "bert", "modernbert"))
def test_the_expected_tokens_logit_of_an_export_is_fp32(family, exported):
    """It is the product of the graph's own row before the vocabulary and the token's embedding, both in fp32."""
    graph, feeds = Graph.open(exported(family) / "model.int8.onnx"), batch(9, 12, seed=3)
    (scatter,) = [node for node in graph.nodes if node.op_type == "ScatterElements"]
    bias, squeeze = None, scatter.inputs[2].producer()
    if squeeze.op_type == "Add":
        bias, squeeze = array(squeeze.inputs[1].producer().inputs[0]), squeeze.inputs[0].producer()
    gather, column = (value.producer() for value in squeeze.inputs[0].producer().inputs)
    row, table = column.inputs[0].name, array(gather.inputs[0])
    found = values_of(graph, feeds, [row, "decision_logits"])
    wanted = (found[row] * table[feeds["expected_id"]]).sum(axis=1)
    wanted += 0 if bias is None else bias[feeds["expected_id"]]
    np.testing.assert_allclose(found["decision_logits"][:, 2], wanted, atol=1e-5)
