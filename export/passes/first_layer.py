"""Keep the first layer of a language model alone, to measure kernels with.

All layers of a model but the last are alike, so the kernels that are fastest in the first one are fastest in the model.
One layer opens in a moment and runs in a twelfth of the time or less.

Demands a finished graph of several layers: the last one computes queries and all that follows for the mask's row alone.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from ..graph import Graph, is_constant
from ..observe import PROBE, Layout, layouts
from .context import Context

_OF_LAST_LAYER = 2  # products over all positions: the keys and the values


def keep_first_layer(graph: Graph, context: Context) -> Mapping[str, Any]:
    """End the graph before the first product of the second layer; its outputs are what the layer computes."""
    known = layouts(graph)
    nodes = graph.nodes
    products = [number for number, node in enumerate(nodes) if _is_over_all_positions(node, known)]
    a_layer = -(-(len(products) - _OF_LAST_LAYER) // max(context.layers - 1, 1))
    end = products[a_layer] if 0 < a_layer < len(products) else len(nodes)
    inside = {value for node in nodes[:end] for value in node.outputs}
    outside = [value for node in nodes[end:] for value in node.inputs if value in inside]
    wanted = dict.fromkeys(value for value in outside if _has_rows(known[value]))
    if not wanted:  # a graph of another kind stays whole
        return {}
    graph.set_outputs(
        {
            f"layer_{number}": (value, ir.DataType.FLOAT, ["batch", "length", *known[value].shape[2:]])
            for number, value in enumerate(wanted)
        }
    )
    graph.prune()
    return {}


def _is_over_all_positions(node: ir.Node, known: Mapping[ir.Value, Layout]) -> bool:
    return node.op_type == "MatMul" and is_constant(node.inputs[1]) and _has_rows(known[node.outputs[0]])


def _has_rows(layout: Layout) -> bool:
    """Whether a value has a row of channels for each token."""
    return layout.is_float32 and len(layout.shape) > len(PROBE) and layout.shape[: len(PROBE)] == PROBE
