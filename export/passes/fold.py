"""Replace what is computed from constants alone by its value, where it is small: scales, shapes, indices.

Demands nothing. Large ones (a transposed table of word embeddings) stay operators: a session computes them once when it
opens, and the file of weights stays as small as the checkpoint.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph import Graph
from ..observe import layouts, observe
from .context import Context
from .masks import value_independent

_LARGEST = 1024  # elements


def fold_constants(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    known = graph.from_constants()
    computed = [
        value for node in graph.nodes for value in node.outputs if value in known and not value.is_graph_output()
    ]
    read_outside = [value for value in computed if any(known.isdisjoint(node.outputs) for node in value.consumers())]
    if read_outside:
        shapes = layouts(graph)
        small = [value for value in read_outside if np.prod(shapes[value].shape, dtype=int) <= _LARGEST]
        (values,) = observe(graph, context.probes()[:1], small)
        for value in small:
            graph.replace(value, graph.constant(values[value], "folded"))
    graph.prune()
    return {}


def fold_shapes(graph: Graph, context: Context) -> Mapping[str, Any]:
    """Replace what is computed from shapes by its value, where it is small and the same for all shapes.

    Some models take the width of their attention's heads, for the scale of its scores, from the shape of their keys.
    Demands a graph whose only input is `input_ids`.
    """
    constant = graph.from_constants()
    static = value_independent(graph, constant)
    known = layouts(graph)
    read_outside = [
        value
        for node in graph.nodes
        for value in node.outputs
        if value in static and known[value].is_float32 and np.prod(known[value].shape, dtype=int) == 1
        if any(static.isdisjoint(reader.outputs) for reader in value.consumers())
    ]
    seen = observe(graph, context.probes(), read_outside)
    for value in read_outside:
        first = seen[0][value]
        if all(values[value].shape == first.shape and (values[value] == first).all() for values in seen):
            graph.replace(value, graph.constant(first, "folded"))
    graph.prune()
    return {}
