"""Where a classifier's head reads the first token's row alone, compute the last layer for that row alone.

Demands a graph whose only input is `input_ids`, int32. Names the output's axes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, attribute, dims, is_constant
from ..observe import PROBE, Layout, layouts
from .context import Context
from .hoist import hoist


def hoist_first_token(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    known = layouts(graph)
    found = next((node for node in graph.nodes if _takes_first_row(node, known)), None)
    if found is not None and found.inputs[0] is not None:
        graph.replace(found.outputs[0], hoist(graph, found.inputs[0], _first_positions(graph)))
    logits = graph.outputs["logits"]
    graph.set_outputs({"logits": (logits, ir.DataType.FLOAT, ["batch", context.outputs])})
    graph.prune()
    return {"hoisted": found is not None}


def _takes_first_row(node: ir.Node, known: dict[ir.Value, Layout]) -> bool:
    """True for Gather(rows [B, L, H], 0, axis=1)."""
    if node.op_type != "Gather" or attribute(node, "axis", 0) != 1 or not is_constant(node.inputs[1]):
        return False
    if (
        node.inputs[0] is None
        or is_constant(node.inputs[0])
        or dims(node.inputs[1]) != ()
        or array(node.inputs[1]) != 0
    ):
        return False
    return known[node.inputs[0]].shape[:2] == PROBE


def _first_positions(graph: Graph) -> ir.Value:
    """Zeros, int64 [B, 1]: the first token's position in each text pair."""
    zero, one = (graph.constant(np.array([number], np.int64), "number") for number in (0, 1))
    column = graph.add("Slice", [graph.inputs["input_ids"], zero, one, one], "first_ids")
    wide = graph.add("Cast", [column], "first_ids_wide", to=int(ir.DataType.INT64))
    return graph.add("Mul", [wide, zero], "first_positions")
