"""Floating-point operations of a graph, counted from its matrix products.

A product of an m × k by a k × n matrix counts 2 m k n. Everything else of a transformer (normalisation, softmax,
activations) is below 1 % of that and is left out, as is usual.
"""

import numpy as np

from .graph import Graph, observe


def count_flops(graph: Graph, length: int) -> int:
    """Operations for one sentence of `length` tokens, at run time: what is computed from constants alone is free."""
    batch = 2  # two, so that no batch axis looks like a broadcast one; the result is for one sentence
    feeds = {name: np.full((batch, length) if name == "input_ids" else batch, 1, np.int32) for name in graph.inputs}
    constant = graph.from_constants()
    products = [node for node in graph.nodes if node.op_type in _COUNTS and node.output[0] not in constant]
    tensors = {name for node in products for name in (*node.input, *node.output[:1]) if name}
    inner = [name for name in tensors if name not in graph.constants and name not in graph.inputs]
    shapes = {name: values.shape for name, values in observe(graph.model, feeds, inner).items()}
    shapes |= {name: tuple(tensor.dims) for name, tensor in graph.constants.items()}
    total = sum(_COUNTS[node.op_type]([shapes.get(name, ()) for name in node.input]) for node in products)
    return total // batch


Shapes = list[tuple[int, ...]]


def _matmul(shapes: Shapes) -> int:
    left, right = shapes[:2]
    batch = int(np.prod(np.broadcast_shapes(left[:-2], right[:-2]), dtype=np.int64))
    return 2 * batch * (left[-2] if len(left) > 1 else 1) * left[-1] * right[-1]


def _gemm(shapes: Shapes) -> int:
    return 2 * shapes[0][0] * shapes[0][1] * shapes[1][1]


def _multi_head_attention(shapes: Shapes) -> int:
    query, key = shapes[:2]
    return 2 * (2 * query[0] * query[1] * key[1] * query[2])


_COUNTS = {"MatMul": _matmul, "Gemm": _gemm, "MultiHeadAttention": _multi_head_attention}
