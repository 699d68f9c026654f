"""Remove casts of fp32 values to fp32.

Exporters keep `x.to(y.dtype)` as a cast, which hides an attention's form from the fusions.

Demands a fresh graph whose only input is `input_ids`.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from ..graph import Graph, attribute
from ..observe import layouts
from .context import Context


def drop_casts(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    known = layouts(graph)
    for node in graph.nodes:
        value = node.inputs[0] if node.op_type == "Cast" else None
        if value is not None and known[value].is_float32 and attribute(node, "to") == int(ir.DataType.FLOAT):
            graph.replace(node.outputs[0], value)
    graph.prune()
    return {}
