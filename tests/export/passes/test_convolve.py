"""The graph for CPUs: other operators, the same sums, and the weights of model.onnx."""

import numpy as np
import onnxruntime as ort
import pytest
from few import few
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph
from negengine.export.passes.attention import use_standard_attention
from negengine.export.passes.convolve import convolve
from onnx import TensorProto, helper

from ..conftest import batch, context, graph_of, operators, values_of
from ..families import ROWS

pytestmark = pytest.mark.long

FUSED = sorted(name for name, row in ROWS.items() if row.attentions and name != "mobilebert")  # it has bottlenecks


OUTPUTS = ("decision_ids", "decision_logits", "logits")


def session_of(path):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("family", few(FUSED, "bert"))
def test_every_attention_is_the_standard_one_and_every_product_over_all_positions_a_convolution(family, exported):
    found = load_exported(exported(family))
    before, after = (operators(Graph.open(path)) for path in (found.graph, found.convolved))
    layers = ROWS[family].attentions
    assert after["Attention"] == before["MultiHeadAttention"] == layers
    assert "MultiHeadAttention" not in after
    # Layers with Q, K, V, output and two of the feed-forward, the last with K and V alone; one more where narrow
    # embeddings are widened, or where relative positions keep the last query from being the mask's alone.
    assert after["Conv"] == 6 * (layers - 1) + 2 + (family in {"albert", "electra", "mpnet", "rembert"})
    assert after.get("MatMul", 0) == before["MatMul"] - after["Conv"]


@pytest.mark.parametrize("family", few(ROWS, "bert", "modernbert"))
def test_all_logits_are_those_of_the_other_graph(family, exported):
    found = load_exported(exported(family))
    sessions = [session_of(path) for path in (found.graph, found.convolved)]
    for n, length in ((1, 3), (7, 12), (3, 40)):
        one, other = (session.run(list(OUTPUTS), batch(n, length)) for session in sessions)
        scale = 2e-5 * max(1.0, float(np.abs(one[2]).max()))
        assert (one[0] == other[0]).all()
        for number in (1, 2):
            np.testing.assert_allclose(other[number], one[number], atol=scale, rtol=0)


def test_biases_are_inside_the_convolutions_and_nothing_is_transposed_between_two(exported):
    nodes = Graph.open(load_exported(exported("bert")).convolved).nodes
    assert all(len(node.inputs) == 3 for node in nodes if node.op_type == "Conv")
    activations = [node for node in nodes if node.op_type == "Gelu" and node.inputs[0].producer().op_type == "Conv"]
    assert len(activations) == 2
    assert all([reader.op_type for reader in node.outputs[0].consumers()] == ["Conv"] for node in activations)


def small_graph(*nodes, channels=(16, 32), constants=None):
    random = np.random.default_rng(0)
    weights = random.normal(size=channels).astype(np.float32)
    table = random.normal(size=(60, channels[0])).astype(np.float32)
    return graph_of(
        [helper.make_node("Gather", ["table", "input_ids"], ["x"]), *nodes],
        [("input_ids", TensorProto.INT32, ["batch", "length"])],
        [("y", TensorProto.FLOAT, None)],
        {"table": table, "w": weights, "b": weights[0], **(constants or {})},
    )


PRODUCT = helper.make_node("MatMul", ["x", "w"], ["p"])
BIASED = helper.make_node("Add", ["p", "b"], ["q"])
IDS = {"input_ids": np.arange(10, dtype=np.int32).reshape(2, 5)}


@pytest.mark.parametrize(
    ("nodes", "channels", "products"),
    [
        ([helper.make_node("Add", ["b", "p"], ["y"])], (16, 32), 1),
        ([BIASED, helper.make_node("Gelu", ["q"], ["y"], domain="com.microsoft")], (16, 32), 1),
        ([BIASED, helper.make_node("Mul", ["p", "q"], ["y"])], (16, 32), 1),
        ([helper.make_node("Relu", ["p"], ["r"]), helper.make_node("Sub", ["p", "r"], ["y"])], (16, 32), 1),
        ([helper.make_node("Identity", ["p"], ["y"])], (24, 32), 0),  # no whole vectors of channels
        ([helper.make_node("Identity", ["p"], ["y"])], (16, 40), 0),
    ],
)
def test_whatever_reads_a_product_reads_the_same(nodes, channels, products):
    graph = small_graph(PRODUCT, *nodes, channels=channels)
    before = values_of(graph, IDS, ["y"])["y"]
    convolve(graph, context())
    assert operators(graph).get("Conv", 0) == products
    np.testing.assert_allclose(values_of(graph, IDS, ["y"])["y"], before, atol=1e-5)


def test_without_fused_attention_the_operator_set_stays_and_a_padding_mask_is_refused():
    graph = small_graph(PRODUCT, helper.make_node("Identity", ["p"], ["y"]))
    use_standard_attention(graph, context())
    assert graph.model.opset_imports[""] == 17
    inputs = ["x", "x", "x", "", "mask"]
    attention = helper.make_node("MultiHeadAttention", inputs, ["y"], domain="com.microsoft", num_heads=2)
    with pytest.raises(ValueError, match="padding mask"):
        use_standard_attention(small_graph(attention, constants={"mask": np.ones((2, 5), np.int32)}), context())
