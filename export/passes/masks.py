"""Remove attention masks that mask nothing: `x + 0` and `where(never, fill, x)` become `x`.

The engine never pads, as all sentences of a batch have the same number of tokens. So the attention mask is all ones,
but exporters keep what computes it, and it hides the attention's form from the fusions. Which masks are neutral is not
guessed from names or operators. Each candidate is observed at several shapes and removed only if it is neutral in all.

Demands a fresh graph whose only input is `input_ids`.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from ..graph import Graph, reads
from ..observe import observe
from .context import Context


def drop_neutral_masks(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    constant = graph.from_constants()
    static = value_independent(graph, constant)
    adds: dict[ir.Node, tuple[ir.Value, ir.Value]] = {}
    wheres: dict[ir.Node, ir.Value] = {}
    for node in graph.nodes:
        inputs = [value for value in node.inputs if value is not None]
        if node.op_type == "Add" and constant.isdisjoint(inputs):
            masks = [value for value in inputs if value in static]
            if len(masks) == 1:
                adds[node] = masks[0], next(value for value in inputs if value is not masks[0])
        if node.op_type == "Where" and inputs[0] in static and not static.issuperset(inputs):
            wheres[node] = inputs[0]
    seen = observe(graph, context.probes(), [*(mask for mask, _ in adds.values()), *wheres.values()])
    for node, (mask, other) in adds.items():
        if all(not values[mask].any() for values in seen):
            graph.replace(node.outputs[0], other)
    for node, condition in wheres.items():
        flags = [bool(values[condition].flat[0]) for values in seen]
        kept = node.inputs[1 if flags[0] else 2]
        if kept is not None and all((values[condition] == flags[0]).all() for values in seen):
            graph.replace(node.outputs[0], kept)
    graph.prune()
    return {}


def value_independent(graph: Graph, constant: set[ir.Value]) -> set[ir.Value]:
    """Values that depend on the token ids, but through their shape alone.

    Args:
        graph: in topological order.
        constant: what depends on no input, from `Graph.from_constants`.
    """
    static = set(constant)
    for node in graph.nodes:
        if node.op_type == "Shape" or all(value in static for value in reads(node)):
            static.update(node.outputs)
    return static - constant
