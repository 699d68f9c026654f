"""The graph for CPUs: other operators, the same sums, and the weights of model.onnx."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, save, save_sharing
from negengine.export.passes.cpu import convolve, use_standard_attention
from onnx import TensorProto, helper

from .conftest import FAMILIES, batch

FUSED = sorted(family for family, (*_, attentions) in FAMILIES.items() if attentions)


def operators(graph):
    kinds = [node.op_type for node in graph.nodes]
    return {kind: kinds.count(kind) for kind in kinds}


def run(path_or_bytes, batch, outputs=("decision_ids", "decision_logits", "logits")):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path_or_bytes, options, providers=["CPUExecutionProvider"])
    return session.run(list(outputs), batch)


@pytest.mark.parametrize("family", FUSED)
def test_every_attention_is_the_standard_one_and_every_product_over_all_positions_a_convolution(family, exported):
    found = load_exported(exported(family))
    before, after = (
        operators(Graph(onnx.load(path, load_external_data=False))) for path in (found.graph, found.convolved)
    )
    assert after["Attention"] == before["MultiHeadAttention"] == 3
    assert "MultiHeadAttention" not in after
    # Two layers with Q, K, V, output and two of the feed-forward, the last with K and V alone; one more where narrow
    # embeddings are widened, or where relative positions keep the last query from being the mask's alone.
    assert after["Conv"] == 2 * 6 + 2 + (family in {"albert", "electra", "mpnet"})
    assert after.get("MatMul", 0) == before["MatMul"] - after["Conv"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n", "length"), [(1, 3), (7, 12), (3, 40)])
def test_all_logits_are_those_of_the_other_graph(family, n, length, exported):
    found = load_exported(exported(family))
    inputs = batch(n, length)
    (ids, decision, logits), (own_ids, own_decision, own_logits) = (
        run(path, inputs) for path in (found.graph, found.convolved)
    )
    scale = max(1.0, float(np.abs(logits).max()))
    np.testing.assert_allclose(own_logits, logits, atol=2e-5 * scale, rtol=0)
    np.testing.assert_allclose(own_decision, decision, atol=2e-5 * scale, rtol=0)
    assert (own_ids == ids).all()


def test_between_the_products_of_a_feed_forward_block_nothing_is_transposed(exported):
    graph = Graph(onnx.load(load_exported(exported("bert")).convolved, load_external_data=False))
    activations = [
        node for node in graph.nodes if node.op_type == "Gelu" and graph.producer[node.input[0]].op_type == "Conv"
    ]
    assert len(activations) == 2
    assert all([reader.op_type for reader in graph.consumers(node.output[0])] == ["Conv"] for node in activations)


def test_biases_are_inside_the_convolutions(exported):
    graph = Graph(onnx.load(load_exported(exported("bert")).convolved, load_external_data=False))
    assert all(len(node.input) == 3 for node in graph.nodes if node.op_type == "Conv")


def test_the_weights_are_on_disk_once(exported):
    found = load_exported(exported("roberta"))
    apart = [
        {t.name: t.external_data[1].value for t in onnx.load(path, load_external_data=False).graph.initializer
         if t.data_location == TensorProto.EXTERNAL}
        for path in (found.graph, found.convolved)
    ]  # fmt: skip
    assert apart[1]
    assert apart[1].items() <= apart[0].items()
    assert sum(path.name.endswith("_data") for path in found.folder.iterdir()) == 1


def small_graph(*nodes, channels=(16, 32), constants=()):
    inner, outer = channels
    random = np.random.default_rng(0)
    weights = random.normal(size=(inner, outer)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["x"]), *nodes],
        "small",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            onnx.numpy_helper.from_array(random.normal(size=(60, inner)).astype(np.float32), "table"),
            onnx.numpy_helper.from_array(weights, "w"),
            onnx.numpy_helper.from_array(weights[0], "b"),
            *constants,
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return Graph(helper.make_model(graph, opset_imports=opsets, ir_version=8))


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
    before = run(graph.model.SerializeToString(), IDS, ["y"])
    assert convolve(graph) == products
    np.testing.assert_allclose(run(graph.model.SerializeToString(), IDS, ["y"])[0], before[0], atol=1e-5)


def test_a_graph_without_fused_attention_keeps_its_operator_set():
    graph = small_graph(PRODUCT, helper.make_node("Identity", ["p"], ["y"]))
    assert use_standard_attention(graph) == 0
    assert graph.model.opset_import[0].version == 17


def test_a_padding_mask_is_refused():
    ones = onnx.numpy_helper.from_array(np.ones((2, 5), np.int32), "mask")
    attention = helper.make_node(
        "MultiHeadAttention", ["x", "x", "x", "", "mask"], ["y"], domain="com.microsoft", num_heads=2
    )
    with pytest.raises(ValueError, match="padding mask"):
        use_standard_attention(small_graph(attention, constants=[ones]))


def test_small_models_have_no_file_of_weights(tmp_path):
    model = small_graph(PRODUCT, helper.make_node("Identity", ["p"], ["y"]), channels=(1, 1)).model
    assert save(model, tmp_path / "a.onnx", weights_apart=True) == [tmp_path / "a.onnx"]
    assert save_sharing(model, tmp_path / "b.onnx", tmp_path / "a.onnx") == [tmp_path / "b.onnx"]
    assert run(str(tmp_path / "b.onnx"), IDS, ["y"])[0].shape == (2, 5, 1)
