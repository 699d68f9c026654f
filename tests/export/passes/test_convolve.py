"""The graph for CPUs: other operators, the same sums, and the weights of model.onnx."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from few import few
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph
from negengine.export.passes.attention import use_standard_attention
from negengine.export.passes.convolve import convolve
from onnx import TensorProto, helper

from ..conftest import batch, context, graph_of, operators
from ..families import ROWS

pytestmark = pytest.mark.long

FUSED = sorted(name for name, row in ROWS.items() if row.attentions and name != "mobilebert")  # it has bottlenecks


OUTPUTS = ("decision_ids", "decision_logits", "logits")


def session_of(path_or_bytes):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(path_or_bytes, options, providers=["CPUExecutionProvider"])


def run(graph, feeds, outputs):
    return session_of(graph.proto().SerializeToString()).run(outputs, feeds)


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
        same_logits(*(session.run(list(OUTPUTS), batch(n, length)) for session in sessions))


def same_logits(one, other):
    (ids, decision, logits), (own_ids, own_decision, own_logits) = one, other
    scale = max(1.0, float(np.abs(logits).max()))
    np.testing.assert_allclose(own_logits, logits, atol=2e-5 * scale, rtol=0)
    np.testing.assert_allclose(own_decision, decision, atol=2e-5 * scale, rtol=0)
    assert (own_ids == ids).all()


def test_biases_are_inside_the_convolutions_and_nothing_is_transposed_between_two(exported):
    nodes = Graph.open(load_exported(exported("bert")).convolved).nodes
    assert all(len(node.inputs) == 3 for node in nodes if node.op_type == "Conv")
    activations = [node for node in nodes if node.op_type == "Gelu" and node.inputs[0].producer().op_type == "Conv"]
    assert len(activations) == 2
    assert all([reader.op_type for reader in node.outputs[0].consumers()] == ["Conv"] for node in activations)


def test_the_weights_are_on_disk_once(exported):
    found = load_exported(exported("roberta"))
    apart = [
        {t.name: t.external_data[1].value for t in onnx.load(path, load_external_data=False).graph.initializer
         if t.data_location == TensorProto.EXTERNAL}
        for path in (found.graph, found.convolved)
    ]  # fmt: skip
    assert apart[1]
    assert apart[1].items() <= apart[0].items()
    assert not (found.folder / "model.cpu.onnx_data").exists()


def small_graph(*nodes, channels=(16, 32), constants=None):
    inner, outer = channels
    random = np.random.default_rng(0)
    weights = random.normal(size=(inner, outer)).astype(np.float32)
    table = random.normal(size=(60, inner)).astype(np.float32)
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
        ([helper.make_node("Add", ["p", "p"], ["y"])], (16, 32), 1),
        ([BIASED, helper.make_node("Mul", ["p", "q"], ["y"])], (16, 32), 1),
        ([helper.make_node("Relu", ["p"], ["r"]), helper.make_node("Sub", ["p", "r"], ["y"])], (16, 32), 1),
        ([helper.make_node("Identity", ["p"], ["y"])], (24, 32), 0),  # no whole vectors of channels
        ([helper.make_node("Identity", ["p"], ["y"])], (16, 40), 0),
    ],
)
def test_whatever_reads_a_product_reads_the_same(nodes, channels, products):
    graph = small_graph(PRODUCT, *nodes, channels=channels)
    before = run(graph, IDS, ["y"])
    convolve(graph, context())
    assert operators(graph).get("Conv", 0) == products
    np.testing.assert_allclose(run(graph, IDS, ["y"])[0], before[0], atol=1e-5)


def test_a_graph_without_fused_attention_keeps_its_operator_set():
    graph = small_graph(PRODUCT, helper.make_node("Identity", ["p"], ["y"]))
    use_standard_attention(graph, context())
    assert graph.model.opset_imports[""] == 17


def test_a_padding_mask_is_refused():
    ones = np.ones((2, 5), np.int32)
    attention = helper.make_node(
        "MultiHeadAttention", ["x", "x", "x", "", "mask"], ["y"], domain="com.microsoft", num_heads=2
    )
    with pytest.raises(ValueError, match="padding mask"):
        use_standard_attention(small_graph(attention, constants={"mask": ones}), context())
