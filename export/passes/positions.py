"""Turn lookups of positions into slices: rows first, first + 1, … of a table are one range of it.

A lookup of row 0 alone (segments that are all 0) becomes that row. Which rows are looked up is observed at several
lengths. Demands a graph whose only input is `input_ids`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph import Array, Graph, array, dims, is_constant
from ..observe import observe
from .context import Context


def slice_position_tables(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    lookups = {
        node: node.inputs[1]
        for node in graph.nodes
        if node.op_type == "Gather" and is_constant(node.inputs[0]) and len(dims(node.inputs[0])) == 2
        if node.inputs[1] is not None and node.inputs[1].producer() is not None
    }
    seen = observe(graph, context.probes(), lookups.values())
    for node, rows in lookups.items():
        indices = [values[rows] for values in seen]
        rank = indices[0].ndim
        first = int(indices[0].flat[0])
        if rank in {1, 2} and _all_are(indices, first):
            row = array(node.inputs[0])[first : first + 1]
            graph.replace(node.outputs[0], graph.constant(row if rank == 1 else row[None], "row"))
        elif rank in {1, 2} and _count_up(indices, first):
            rest = array(node.inputs[0])[first:]
            table = graph.constant(rest if rank == 1 else rest[None], "positions")
            # Shape's own bounds, not a Slice of it: that would be a node on the CPU, which a session on CUDA refuses.
            length = graph.add("Shape", [graph.inputs["input_ids"]], "length", start=1, end=2)
            start, axis = (graph.constant(np.array([number], np.int64), "number") for number in (0, rank - 1))
            graph.replace(node.outputs[0], graph.add("Slice", [table, start, length, axis], "position_rows"))
    graph.prune()
    return {}


def _all_are(indices: list[Array], row: int) -> bool:
    return all(bool((rows == row).all()) for rows in indices)


def _count_up(indices: list[Array], first: int) -> bool:
    return all(bool((rows == np.arange(first, first + rows.shape[-1])).all()) for rows in indices)
