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
