"""Weights stay in their file: read where asked for, appended, never part of the graph; and beyond 2 GiB too."""

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from negengine.export.graph import Graph, array, dims, reads
from negengine.export.observe import channel_peaks, layouts, observe
from onnx import TensorProto, helper

from .conftest import graph_of, operators

ROWS, WIDTH = 600_000, 1024  # 2.46 GB of fp32


@pytest.fixture
def huge(tmp_path):
    """A table beyond protobuf's limit of 2 GiB in a file with holes: only its last row is written."""
    path = tmp_path / "model.onnx_data"
    last = np.arange(WIDTH, dtype=np.float32)
    with path.open("wb") as stream:
        stream.seek((ROWS - 1) * WIDTH * 4)
        last.tofile(stream)
    graph = graph_of(
        [helper.make_node("Gather", ["table", "input_ids"], ["rows"]), helper.make_node("Neg", ["rows"], ["logits"])],
        [("input_ids", TensorProto.INT32, ["batch", "length"])],
        [("logits", TensorProto.FLOAT, None)],
        {"table": np.zeros((2, WIDTH), np.float32)},
    )
    table = graph.initializers[0]
    table.const_value = ir.ExternalTensor(
        path.name,
        0,
        ROWS * WIDTH * 4,
        ir.DataType.FLOAT,
        shape=ir.Shape([ROWS, WIDTH]),
        name="table",
        base_dir=tmp_path,
    )
    table.shape = ir.Shape([ROWS, WIDTH])
    return graph


def test_weights_beyond_two_gibibytes_are_observed_and_saved(huge, tmp_path):
    feeds = {"input_ids": np.array([[0, ROWS - 1]], np.int32)}
    ((found,),) = ([*seen.values()] for seen in observe(huge, [feeds], [huge.outputs["logits"]]))
    np.testing.assert_array_equal(found[0, 1], -np.arange(WIDTH, dtype=np.float32))
    np.testing.assert_array_equal(channel_peaks(huge, [feeds])["logits"], np.arange(WIDTH, dtype=np.float32))
    (path,) = huge.save(tmp_path / "model.onnx")
    assert path.stat().st_size < 10_000
    again = Graph.open(path)
    assert layouts(again)[again.outputs["logits"]].shape == (2, 5, WIDTH)


def test_graphs_of_an_export_hold_no_weights(exported):
    folder = exported("bert")
    graphs = sorted(folder.glob("*.onnx"))
    assert len(graphs) == 4
    for path in graphs:
        inside = [tensor.name for tensor in onnx.load(path, load_external_data=False).graph.initializer
                  if tensor.data_location != TensorProto.EXTERNAL and len(tensor.raw_data) >= 1024]  # fmt: skip
        assert inside == []


def test_every_byte_of_the_weights_is_written_once(exported):
    """The parameters of the checkpoint, little more: what passes append are vectors and a table of positions."""
    folder = exported("roberta")
    tensors = {}
    for tensor in onnx.load(folder / "model.onnx", load_external_data=False).graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            where = {item.key: item.value for item in tensor.external_data}
            tensors[int(where["offset"])] = int(where["length"])
    ends = [offset + length for offset, length in sorted(tensors.items())]
    assert all(end <= start for end, start in zip(ends, sorted(tensors)[1:], strict=False))
    assert json.loads((folder / "export.json").read_text())["files"]["model.onnx_data"]


def test_new_constants_go_to_the_file_if_they_are_large(tmp_path):
    graph = graph_of(
        [helper.make_node("Neg", ["input_ids"], ["logits"])],
        [("input_ids", TensorProto.FLOAT, ["batch", "length"])],
        [("logits", TensorProto.FLOAT, None)],
        {},
    )
    graph = Graph(graph.model, tmp_path / "weights")
    small, large = (graph.constant(np.arange(n, dtype=np.float32), "new") for n in (10, 1000))
    lazy = graph.later(lambda: array(large) * 2, large, [1000], "lazy")
    total = graph.add(
        "Add", [graph.add("Add", [large, lazy], "sum"), graph.constant(np.ones(1, np.float32), "one")], "sum"
    )
    graph.replace(graph.outputs["logits"], graph.add("Add", [total, graph.inputs["input_ids"]], "end"))
    graph.prune()
    assert graph.outputs["logits"].dtype == ir.DataType.FLOAT
    assert small not in graph.initializers
    assert graph.save(tmp_path / "model.onnx") == [tmp_path / "model.onnx", tmp_path / "weights"]
    again = Graph.open(tmp_path / "model.onnx")
    assert {value.name: isinstance(value.const_value, ir.ExternalTensor) for value in again.initializers} == {
        large.name: True, lazy.name: True, graph.initializers[-1].name: False,
    }  # fmt: skip
    values = {value.name: array(value) for value in again.initializers}
    np.testing.assert_array_equal(values[lazy.name], 2 * values[large.name])


def test_a_tool_that_looks_at_biases_gets_them_however_long_they_are(tmp_path):
    """ONNX Runtime's optimizer compares what is added with constants that it knows; a vocabulary's bias takes 1 MB."""
    graph = Graph(graph_of([], [], [], {}).model, tmp_path / "weights")
    assert dims(graph.constant(np.array(2, np.int64), "two")) == ()  # a Range does not take a number with an axis
    for shape in ((300_000,), (2, 200)):
        graph.constant(np.ones(shape, np.float32), "weight")
    inside = {len(tensor.dims): bool(tensor.raw_data) for tensor in graph.proto(vectors_inside=True).graph.initializer}
    assert (inside[1], inside[2]) == (True, False)


def test_what_a_graph_inside_a_node_reads_counts_as_read():
    """An If reads `x` from outside in one of its branches."""

    def branch(kind, output):
        node = helper.make_node(kind, ["x"], [output])
        return helper.make_graph([node], output, [], [helper.make_empty_tensor_value_info(output)])

    given = {"then_branch": branch("Neg", "b"), "else_branch": branch("Identity", "c")}
    graph = graph_of(
        [
            helper.make_node("Cast", ["input_ids"], ["x"], to=TensorProto.FLOAT),
            helper.make_node("If", ["condition"], ["logits"], **given),
        ],
        [("input_ids", TensorProto.INT32, ["batch", "length"])],
        [("logits", TensorProto.FLOAT, None)],
        {"condition": np.array(True)},
    )
    choice = next(node for node in graph.nodes if node.op_type == "If")
    assert "x" in {value.name for value in reads(choice)}
    assert choice.outputs[0] not in graph.from_constants()
    graph.prune()
    assert operators(graph) == {"Cast": 1, "If": 1}
