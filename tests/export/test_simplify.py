"""Masks and position arithmetic go away only where they are neutral at every length."""

import numpy as np
import pytest
from negengine.export.graph import Graph, observe
from negengine.export.passes.simplify import simplify
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH = 50, 4


def encoder(*, window):
    """Rows of a table, plus positions, plus a bias: 1 beyond `window` tokens from the start of the sentence, else 0."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Shape", ["input_ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["range"]),
        helper.make_node("Gather", ["positions", "range"], ["rows"]),
        helper.make_node("Add", ["words", "rows"], ["sum"]),
        helper.make_node("GreaterOrEqual", ["range", "window"], ["far"]),
        helper.make_node("Cast", ["far"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "axis"], ["mask_column"]),
        helper.make_node("Add", ["sum", "mask_column"], ["masked"]),
        helper.make_node("Relu", ["masked"], ["logits"]),
    ]
    random = np.random.default_rng(0)
    constants = {
        "table": random.normal(size=(VOCABULARY, WIDTH)).astype(np.float32),
        "positions": random.normal(size=(40, WIDTH)).astype(np.float32),
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "window": np.array(window, np.int64),
        "axis": np.array([-1], np.int64),
    }
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", WIDTH])]
    initializers = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, initializers)
    return Graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@pytest.mark.parametrize(("window", "is_neutral"), [(1000, True), (20, False)])
def test_a_mask_goes_only_if_it_is_neutral_up_to_the_longest_sentence(window, is_neutral):
    graph = encoder(window=window)
    simplify(graph, vocabulary=VOCABULARY, padding_id=None, longest=40)
    kinds = [node.op_type for node in graph.nodes]
    assert ("GreaterOrEqual" not in kinds) == is_neutral
    assert kinds.count("Add") == (1 if is_neutral else 2)


@pytest.mark.parametrize("window", [1000, 20])
@pytest.mark.parametrize("length", [1, 7, 19, 40])
def test_values_are_the_same_at_every_length(window, length):
    feeds = {"input_ids": np.random.default_rng(length).integers(0, VOCABULARY, (3, length))}
    wanted = observe(encoder(window=window).model, feeds, ["logits"])["logits"]
    graph = encoder(window=window)
    simplify(graph, vocabulary=VOCABULARY, padding_id=None, longest=40)
    np.testing.assert_array_equal(observe(graph.model, feeds, ["logits"])["logits"], wanted)


def test_ids_are_int32_afterwards():
    graph = encoder(window=1000)
    simplify(graph, vocabulary=VOCABULARY, padding_id=None, longest=40)
    (ids,) = graph.model.graph.input
    assert ids.type.tensor_type.elem_type == TensorProto.INT32
