"""Masks and position arithmetic go away only where they are neutral at every length."""

import numpy as np
import onnx_ir as ir
import pytest
from negengine.export.passes.masks import drop_neutral_masks
from negengine.export.passes.simplify import fix_reshapes, fold_constants, narrow_ids, slice_position_tables
from onnx import TensorProto, helper

from ..conftest import context, graph_of, operators, values_of

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
    return graph_of(
        nodes,
        [("input_ids", TensorProto.INT64, ["batch", "length"])],
        [("logits", TensorProto.FLOAT, ["batch", "length", WIDTH])],
        constants,
    )


def simplify(graph):
    for each in (fold_constants, drop_neutral_masks, slice_position_tables, fix_reshapes, narrow_ids):
        each(graph, context(vocabulary=VOCABULARY))


@pytest.mark.parametrize(("window", "is_neutral"), [(1000, True), (20, False)])
def test_a_mask_goes_only_if_it_is_neutral_at_every_length(window, is_neutral):
    graph = encoder(window=window)
    simplify(graph)
    kinds = operators(graph)
    assert ("GreaterOrEqual" not in kinds) == is_neutral
    assert kinds["Add"] == (1 if is_neutral else 2)
    assert graph.inputs["input_ids"].dtype == ir.DataType.INT32
    for length in (1, 19, 40):
        feeds = {"input_ids": np.random.default_rng(length).integers(0, VOCABULARY, (3, length))}
        found, wanted = (values_of(each, feeds, ["logits"])["logits"] for each in (graph, encoder(window=window)))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("counts_up", [True, False])
def test_a_lookup_keeps_the_number_of_its_axes(rank, counts_up):
    """RoFormer looks positions up by indices [length], others by [1, length]."""
    step = helper.make_node("Range", ["zero", "length", "one"], ["range"])
    if not counts_up:
        step = helper.make_node("Expand", ["two", "length_vector"], ["range"])
    graph = graph_of(
        [
            helper.make_node("Shape", ["input_ids"], ["length_vector"], start=1, end=2),
            helper.make_node("Squeeze", ["length_vector"], ["length"]),
            step,
            helper.make_node("Unsqueeze", ["range", "axis"], ["wide"]),
            helper.make_node("Gather", ["positions", "wide" if rank == 2 else "range"], ["rows"]),
            helper.make_node("Neg", ["rows"], ["logits"]),
        ],
        [("input_ids", TensorProto.INT64, ["batch", "length"])],
        [("logits", TensorProto.FLOAT, None)],
        {
            "positions": np.random.default_rng(0).normal(size=(40, WIDTH)).astype(np.float32),
            "zero": np.array(0, np.int64),
            "one": np.array(1, np.int64),
            "two": np.array([2], np.int64),
            "axis": np.array([0], np.int64),
        },
    )
    feeds = {"input_ids": np.zeros((1, 6), np.int64)}
    wanted = values_of(graph, feeds, ["logits"])["logits"]
    slice_position_tables(graph, context())
    assert "Gather" not in operators(graph)
    found = values_of(graph, feeds, ["logits"])["logits"]
    np.testing.assert_array_equal(np.broadcast_to(found, wanted.shape), wanted)
    assert found.ndim == wanted.ndim
