"""Replace what is computed from constants alone by its value, where it is small: scales, shapes, indices.

Demands nothing. Large ones (a transposed table of word embeddings) stay operators: a session computes them once when it
opens, and the file of weights stays as small as the checkpoint.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

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
    """Replace numbers computed from shapes: what is the same for all shapes, and what is the length of `input_ids`.

    Some models take the width of their attention's heads, for the scale of its scores or for the halves that are
    rotated, from the shape of their keys, and the number of tokens from the shape of their embeddings. What a number is
    is observed at several shapes. Demands a graph whose only input is `input_ids`.
    """
    static = value_independent(graph, graph.from_constants())
    known = layouts(graph)
    numbers = [
        value
        for node in graph.nodes
        for value in node.outputs
        if value in static and known[value].kind in _NUMBERS and np.prod(known[value].shape, dtype=int) == 1
    ]
    probes = context.probes()
    seen = observe(graph, probes, numbers)
    lengths = [batch["input_ids"].shape[1] for batch in probes]
    for value in numbers:
        first, *others = (values[value] for values in seen)
        if any(other.shape != first.shape for other in others):
            continue
        if all((other == first).all() for other in others):
            graph.replace(value, graph.constant(first, "folded"))
        elif first.dtype == np.int64 and [int(values[value].item()) for values in seen] == lengths:
            graph.replace(value, _length(graph, first.ndim))
    graph.prune()
    return {}


_NUMBERS = frozenset({"tensor(float)", "tensor(int64)"})


def _length(graph: Graph, rank: int) -> ir.Value:
    """The number of tokens of a sentence, int64 with a size of 1 along each of its axes."""
    length = graph.add("Shape", [graph.inputs["input_ids"]], "length", start=1, end=2)
    if rank == 1:
        return length
    return graph.add("Reshape", [length, graph.constant(np.ones(rank, np.int64), "target")], "length")
