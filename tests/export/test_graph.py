"""Weights stay in their file: read where asked for, appended, never part of the graph; and beyond 2 GiB too."""

import numpy as np
import onnx
import onnx_ir as ir
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, reads
from negengine.export.observe import channel_peaks, layouts, observe
from onnx import TensorProto

from .conftest import graph_of, operators

ROWS, WIDTH = 600_000, 1024  # 2.46 GB of fp32


def test_weights_beyond_two_gibibytes_are_observed_and_saved(tmp_path):
    """Beyond protobuf's limit of 2 GiB, in a file with holes: only the last row is written."""
    path, last = tmp_path / "model.onnx_data", np.arange(WIDTH, dtype=np.float32)
    with path.open("wb") as stream:
        stream.seek((ROWS - 1) * WIDTH * 4)
        last.tofile(stream)
    graph = graph_of(
        "(int32[B, L] input_ids) => (float[] logits) { rows = Gather(table, input_ids) logits = Neg(rows) }",
        table=np.zeros((2, WIDTH), np.float32),
    )
    (table,), shape = graph.initializers, ir.Shape([ROWS, WIDTH])
    where = {"shape": shape, "name": "table", "base_dir": tmp_path}
    table.const_value = ir.ExternalTensor(path.name, 0, ROWS * WIDTH * 4, ir.DataType.FLOAT, **where)
    table.shape = shape
    feeds = {"input_ids": np.array([[0, ROWS - 1]], np.int32)}
    ((found,),) = ([*seen.values()] for seen in observe(graph, [feeds], [graph.outputs["logits"]]))
    np.testing.assert_array_equal(found[0, 1], -last)
    np.testing.assert_array_equal(channel_peaks(graph, [feeds])["logits"], last)
    (path,) = graph.save(tmp_path / "model.onnx")
    assert path.stat().st_size < 10_000
    again = Graph.open(path)
    assert layouts(again)[again.outputs["logits"]].shape == (2, 5, WIDTH)


def test_graphs_of_an_export_hold_no_weights_and_no_byte_is_written_twice(exported):
    graphs = sorted(exported("bert").glob("*.onnx"))
    parameters = load_exported(exported("bert")).info["parameters"]
    assert len(graphs) == 4
    for path in graphs:
        tensors, places = onnx.load(path, load_external_data=False).graph.initializer, {}
        for tensor in tensors:
            if tensor.data_location == TensorProto.EXTERNAL:
                where = {item.key: item.value for item in tensor.external_data}
                places[where["location"], int(where["offset"])] = int(where["length"])
            else:
                assert len(tensor.raw_data) < 1024
        assert len(places) > 10
        assert sum(places.values()) < 4.8 * parameters  # bytes
        ends = {(name, offset): offset + length for (name, offset), length in places.items()}
        for one, other in zip(sorted(ends), sorted(ends)[1:], strict=False):
            assert one[0] != other[0] or ends[one] <= other[1]


def test_what_a_graph_inside_a_node_reads_counts_as_read():
    """An If reads `x` from outside in one of its branches."""
    graph = graph_of(
        """(int32[B, L] input_ids) => (float[] logits) {
            x = Cast <to = 1> (input_ids)
            logits = If (condition) <
                then_branch = one () => (float[] b) { b = Neg(x) },
                else_branch = other () => (float[] c) { c = Identity(x) }
            >
        }""",
        condition=np.array(True),
    )
    choice = next(node for node in graph.nodes if node.op_type == "If")
    assert "x" in {value.name for value in reads(choice)}
    assert choice.outputs[0] not in graph.from_constants()
    graph.prune()
    assert operators(graph) == {"Cast": 1, "If": 1}
