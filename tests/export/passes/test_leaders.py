"""The product with the vocabulary in int8: what decides is fp32, the rest is near it."""

import numpy as np
import onnxruntime as ort
import pytest
from few import few
from negengine.export.graph import Graph, array
from negengine.export.passes.int8 import quantize_vocabulary
from onnx import TensorProto, helper

from ..conftest import batch, context, graph_of, operators, values_of

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


def test_a_vocabulary_smaller_than_the_leaders_is_all_fp32():
    wanted, graph = logits_of(projection(tokens=9), np.zeros(ROWS, np.int32)), projection(tokens=9)
    quantize_vocabulary(graph, context())
    np.testing.assert_allclose(logits_of(graph, np.zeros(ROWS, np.int32)), wanted, atol=1e-5)


def test_logits_that_are_changed_after_the_product_stay_fp32():
    graph = projection("Tanh")
    quantize_vocabulary(graph, context())
    assert operators(graph) == operators(projection("Tanh"))


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
