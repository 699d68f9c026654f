"""Take token ids as int32: half the bytes to the device, and what the embedding kernels take.

Demands a graph whose input `input_ids` is int64. Names its axes `batch` and `length`, by which sessions fix them.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from ..graph import Graph
from .context import Context


def narrow_ids(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    ids = graph.inputs["input_ids"]
    ids.type, ids.shape = ir.TensorType(ir.DataType.INT32), ir.Shape(["batch", "length"])
    others = [
        (node, index)
        for node, index in ids.uses()
        if node.op_type != "Shape" and not (node.op_type == "Gather" and index == 1)
    ]
    if others:
        wide = graph.add("Cast", [ids], "wide_ids", to=int(ir.DataType.INT64))
        for node, index in others:
            node.replace_input_with(index, wide)
    graph.prune()
    return {}
