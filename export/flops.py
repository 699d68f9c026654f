"""Floating-point operations of a graph, counted from its matrix products.

A product of an m × k by a k × n matrix counts 2 m k n. Everything else of a transformer (normalisation, softmax,
activations) is below 1 % of that and is not counted, as is usual.
"""

import numpy as np
import onnx_ir as ir

from ..engine.inference.exported import HIDDEN
from .graph import Graph, reads
from .observe import layouts

Shapes = list[tuple[int, ...]]


def count_flops(graph: Graph, length: int) -> int:
    """Operations for one input of `length` tokens, at run time: what is computed from constants alone is free.

    What only the output `hidden` of a causal model needs does not count: decisions do not compute it.

    Raises:
        InputError: ONNX Runtime cannot run the graph.
    """
    batch = 2  # two, so that no batch axis looks like a broadcast one; the result is for one input
    known = layouts(graph, (batch, length))
    constant = graph.from_constants()
    needed = _needed(graph)
    total = sum(
        _COUNTS[node.op_type](
            [known[value].shape if value is not None else () for value in node.inputs], known[node.outputs[0]].shape
        )
        for node in graph.nodes
        if node.op_type in _COUNTS and node in needed and node.outputs[0] not in constant
    )
    return total // batch


def _needed(graph: Graph) -> set[ir.Node]:
    """The nodes that the decisions depend on."""
    values = [value for name, value in graph.outputs.items() if name != HIDDEN]
    found: set[ir.Node] = set()
    while values:
        node = values.pop().producer()
        if node is not None and node not in found:
            found.add(node)
            values += reads(node)
    return found


def _matmul(inputs: Shapes, output: tuple[int, ...]) -> int:
    return 2 * _size(output) * inputs[0][-1]


def _gemm(inputs: Shapes, output: tuple[int, ...]) -> int:
    return 2 * inputs[0][0] * inputs[0][1] * output[1]


def _attention(inputs: Shapes, _: tuple[int, ...]) -> int:
    query, key = inputs[:2]
    return 2 * (2 * query[0] * query[1] * key[1] * query[2])


def _convolution(inputs: Shapes, output: tuple[int, ...]) -> int:
    return 2 * _size(output) * _size(inputs[1][1:])


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


_COUNTS = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "MultiHeadAttention": _attention,
    "Attention": _attention,
    "Conv": _convolution,
}
