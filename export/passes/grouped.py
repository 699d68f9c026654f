"""Keys and values that several heads share (Ainslie et al. 2023, grouped-query attention).

Llama 3, Mistral and Qwen2 have fewer heads of keys and values than of queries. Exporters repeat them before the product
with the queries, by a shape that is computed at run time:

    [B, heads, L, d]  ->  Unsqueeze [B, heads, 1, L, d], Expand [B, heads, n, L, d], Reshape [B, heads × n, L, d]

`fix_repetitions` gives each such Expand a constant shape, by which others recognise it. A fused attention reads rows:
`repeated` adds the repetition for rows [B, L, heads × d], and `before_repetition` finds what it repeats, for an
operator that does without it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, is_constant, written_by
from ..observe import observe
from .context import Context

_HEADS_FIRST, _ROWS = 2, 3  # the axis along which heads are repeated


def fix_repetitions(graph: Graph, context: Context) -> Mapping[str, Any]:
    """Give every Expand of heads a constant shape. Demands a graph whose only input is `input_ids`."""
    expands = [
        (node, node.inputs[0])
        for node in graph.nodes
        if node.op_type == "Expand" and not is_constant(node.inputs[1])
        if node.inputs[0] is not None and written_by(node.inputs[0], "Unsqueeze") is not None
    ]
    wanted = [value for node, before in expands for value in (before, node.outputs[0])]
    seen = observe(graph, context.probes()[:2], wanted)
    for node, before in expands:
        shapes = [(values[before].shape, values[node.outputs[0]].shape) for values in seen]
        times = shapes[0][1][_HEADS_FIRST] if len(shapes[0][1]) == 5 else 0
        sizes = _sizes(_HEADS_FIRST, times)
        if times and all(tuple(np.multiply(one, sizes)) == other for one, other in shapes):
            node.replace_input_with(1, graph.constant(np.array(sizes, np.int64), "times"))
    graph.prune()
    return {}


def repeated_heads(value: ir.Value | None) -> tuple[ir.Value, int] | None:
    """The [B, heads, L, d] value that is repeated, and how often, if a value is one whose heads are.

    The caller knows that `value` is [B, ·, L, d].
    """
    found = _before_expand(value, _HEADS_FIRST)
    unsqueeze = written_by(found[0], "Unsqueeze") if found is not None else None
    if found is None or unsqueeze is None or unsqueeze.inputs[0] is None or not is_constant(unsqueeze.inputs[1]):
        return None
    return (unsqueeze.inputs[0], found[1]) if array(unsqueeze.inputs[1]).tolist() == [_HEADS_FIRST] else None


def repeated(graph: Graph, rows: ir.Value, heads: int, times: int) -> ir.Value:
    """Rows [B, L, heads × times × d], where each head of the rows [B, L, heads × d] stands so many times."""

    def reshape(value: ir.Value, *sizes: int) -> ir.Value:
        return graph.add("Reshape", [value, graph.constant(np.array([0, 0, *sizes], np.int64), "target")], "heads")

    apart = reshape(rows, heads, 1, -1)
    sizes = graph.constant(np.array(_sizes(_ROWS, times), np.int64), "times")
    return reshape(graph.add("Expand", [apart, sizes], "repeated"), -1)


def before_repetition(rows: ir.Value | None) -> tuple[ir.Value | None, int]:
    """The rows whose heads are repeated, and how often; the rows themselves and 1 if they are not."""
    found = _before_expand(rows, _ROWS)
    apart = written_by(found[0], "Reshape") if found is not None else None
    if found is None or apart is None or apart.inputs[0] is None:
        return rows, 1
    return apart.inputs[0], found[1]


def _before_expand(value: ir.Value | None, axis: int) -> tuple[ir.Value, int] | None:
    """What is repeated along an axis of its own and joined again, and how often."""
    reshape = written_by(value, "Reshape")
    expand = written_by(reshape.inputs[0], "Expand") if reshape is not None else None
    if expand is None or expand.inputs[0] is None or not is_constant(expand.inputs[1]):
        return None
    sizes = array(expand.inputs[1]).tolist()
    times = int(sizes[axis]) if len(sizes) == 5 else 1
    return (expand.inputs[0], times) if times > 1 and sizes == _sizes(axis, times) else None


def _sizes(axis: int, times: int) -> list[int]:
    return [times if each == axis else 1 for each in range(5)]
