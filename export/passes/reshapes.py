"""Give every Reshape a constant target: 0 copies a dimension, at most one -1 is left to the runtime.

Exporters compute targets from shapes at run time, which hides the attention's form from the fusions. What the target is
in terms of the input's shape is read off runs at two shapes. Demands a graph whose only input is `input_ids`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, is_constant
from ..observe import observe
from .context import Context


def fix_reshapes(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    reshapes = [
        (node, node.inputs[0])
        for node in graph.nodes
        if node.op_type == "Reshape" and not is_constant(node.inputs[1])
        if node.inputs[0] is not None and node.inputs[0].producer() is not None
    ]
    wanted = [value for node, source in reshapes for value in (source, node.outputs[0])]
    seen = observe(graph, context.probes()[:2], wanted)
    for node, source in reshapes:
        before, after = ([values[value].shape for values in seen] for value in (source, node.outputs[0]))
        target = _constant_target(before, after)
        if target is not None:
            node.replace_input_with(1, graph.constant(np.array(target, np.int64), "target"))
    graph.prune()
    return {}


def _constant_target(before: Sequence[tuple[int, ...]], after: Sequence[tuple[int, ...]]) -> list[int] | None:
    target: list[int] = []
    for axis, sizes in enumerate(zip(*after, strict=True)):
        if len(set(sizes)) == 1:
            target.append(sizes[0])
        elif axis < len(before[0]) and all(shape[axis] == size for shape, size in zip(before, sizes, strict=True)):
            target.append(0)
        else:
            target.append(-1)
    return target if target.count(-1) <= 1 else None
