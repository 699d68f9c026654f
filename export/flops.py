"""Floating-point operations of a graph, counted from its matrix products.

A product of an m × k by a k × n matrix counts 2 m k n. Everything else of a transformer (normalisation, softmax,
activations) is below 1 % of that and is not counted, as is usual.
"""

import numpy as np

from .graph import Graph
from .observe import layouts

Shapes = list[tuple[int, ...]]


def count_flops(graph: Graph, length: int) -> int:
    """Operations for one input of `length` tokens, at run time: what is computed from constants alone is free.

    Raises:
        InputError: ONNX Runtime cannot run the graph.
    """
    batch = 2  # two, so that no batch axis looks like a broadcast one; the result is for one input
    known = layouts(graph, (batch, length))
    constant = graph.from_constants()
    total = sum(
        _COUNTS[node.op_type]([known[value].shape if value is not None else () for value in node.inputs])
        for node in graph.nodes
        if node.op_type in _COUNTS and node.outputs[0] not in constant
    )
    return total // batch


def _matmul(shapes: Shapes) -> int:
    left, right = shapes[:2]
    batch = int(np.prod(np.broadcast_shapes(left[:-2], right[:-2]), dtype=np.int64))
    return 2 * batch * (left[-2] if len(left) > 1 else 1) * left[-1] * right[-1]


def _gemm(shapes: Shapes) -> int:
    return 2 * shapes[0][0] * shapes[0][1] * shapes[1][1]


def _attention(shapes: Shapes) -> int:
    query, key = shapes[:2]
    return 2 * (2 * query[0] * query[1] * key[1] * query[2])


def _convolution(shapes: Shapes) -> int:
    """1 × 1 over [1, channels, batch, length] (`passes/convolve.py`)."""
    image, kernel = shapes[:2]
    return 2 * image[0] * image[2] * image[3] * kernel[0] * kernel[1]


_COUNTS = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "MultiHeadAttention": _attention,
    "Attention": _attention,
    "Conv": _convolution,
}
