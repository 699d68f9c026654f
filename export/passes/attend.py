"""Fuse the pieces of an attention into one MultiHeadAttention operator.

ONNX Runtime's own optimizer packs the three projections into its `Attention` operator, which on the CPU multiplies by
them sentence by sentence and head by head: matrices of 18 rows. `MultiHeadAttention` takes Q, K and V as they come out
of three products over all tokens of the batch, which is where a processor reaches its speed, and lets the mask's query
differ in length from the keys (`hoist`). This pass also recognises the forms that the optimizer does not: a scale
applied to Q or to K, a bias on the scores (MPNet's relative positions).
"""

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from ..graph import Graph, attribute

_HEADS_FIRST = [0, 2, 1, 3]  # [B, L, heads, d] -> [B, heads, L, d], and back
_KEYS_LAST = [0, 2, 3, 1]  # [B, L, heads, d] -> [B, heads, d, L]
_SWAP_LAST = [0, 1, 3, 2]


@dataclass(frozen=True)
class _Heads:
    """A [B, L, hidden] tensor seen as heads, and the scalar it was multiplied by."""

    tensor: str
    heads: int
    scale: float


def fuse_attention(graph: Graph) -> int:
    """Replace every attention that has the standard form; returns how many were replaced."""
    fused = sum(_fuse_one(graph, node) for node in [*graph.nodes] if node.op_type == "Softmax")
    graph.prune()
    return fused


def _fuse_one(graph: Graph, softmax: NodeProto) -> bool:
    scores, scale = _unscale(graph, softmax.input[0])
    bias = ""
    product = graph.producer.get(scores)
    if product is not None and product.op_type == "Add" and scale == 1.0:
        bias, scores = _split_bias(graph, product)
        scores, scale = _unscale(graph, scores)
        product = graph.producer.get(scores)
    context = _only_consumer(graph, softmax.output[0], "MatMul")
    if product is None or product.op_type != "MatMul" or context is None or context.input[0] != softmax.output[0]:
        return False
    query = _heads(graph, product.input[0], keys=False)
    key = _heads(graph, product.input[1], keys=True)
    value = _heads(graph, context.input[1], keys=False)
    joined = _joined(graph, context.output[0])
    if query is None or key is None or value is None or joined is None or value.scale != 1.0:
        return False
    if not query.heads == key.heads == value.heads:
        return False
    (q, k, v), projection_bias = _without_biases(graph, [query.tensor, key.tensor, value.tensor])
    inputs = [q, k, v, projection_bias, "", bias]
    while not inputs[-1]:
        inputs.pop()
    fused = graph.add(
        "MultiHeadAttention",
        inputs,
        "context",
        domain="com.microsoft",
        num_heads=query.heads,
        scale=float(scale * query.scale * key.scale),
    )
    graph.replace_uses(joined, fused)
    return True


def _only_consumer(graph: Graph, tensor: str, kind: str) -> NodeProto | None:
    consumers = graph.consumers(tensor)
    return consumers[0] if len(consumers) == 1 and consumers[0].op_type == kind else None


def _unscale(graph: Graph, tensor: str) -> tuple[str, float]:
    """Walk up through products with and quotients by constant scalars."""
    scale = 1.0
    while (node := graph.producer.get(tensor)) is not None and node.op_type in {"Mul", "Div"}:
        if _is_scalar(graph, node.input[1]):
            factor, rest = graph.array(node.input[1]).item(), node.input[0]
            scale = scale / factor if node.op_type == "Div" else scale * factor
        elif node.op_type == "Mul" and _is_scalar(graph, node.input[0]):
            scale, rest = scale * graph.array(node.input[0]).item(), node.input[1]
        else:
            break
        tensor = rest
    return tensor, scale


def _is_scalar(graph: Graph, name: str) -> bool:
    return name in graph.constants and int(np.prod(graph.constants[name].dims)) == 1


def _split_bias(graph: Graph, add: NodeProto) -> tuple[str, str]:
    """Of a sum, the bias on the scores and the scores: those come from a product."""
    first, second = add.input
    producer = graph.producer.get(_unscale(graph, first)[0])
    is_scores = producer is not None and producer.op_type == "MatMul"
    return (second, first) if is_scores else (first, second)


def _heads(graph: Graph, tensor: str, *, keys: bool) -> _Heads | None:
    """The [B, L, hidden] tensor behind Transpose(Reshape(·)); for keys, transposed once more."""
    tensor, outer = _unscale(graph, tensor)
    node = graph.producer.get(tensor)
    wanted = _KEYS_LAST if keys else _HEADS_FIRST
    if keys and node is not None and node.op_type == "Transpose" and attribute(node, "perm") == _SWAP_LAST:
        tensor, inner = _unscale(graph, node.input[0])
        node, outer, wanted = graph.producer.get(tensor), outer * inner, _HEADS_FIRST
    if node is None or node.op_type != "Transpose" or attribute(node, "perm") != wanted:
        return None
    reshape = graph.producer.get(node.input[0])
    if reshape is None or reshape.op_type != "Reshape" or reshape.input[1] not in graph.constants:
        return None
    target = graph.array(reshape.input[1]).tolist()
    if len(target) != 4 or target[:2] not in ([0, 0], [0, -1]) or min(target[2:]) < 1:
        return None
    source, inner = _unscale(graph, reshape.input[0])
    return _Heads(source, int(target[2]), outer * inner)


def _joined(graph: Graph, context: str) -> str | None:
    """The [B, L, hidden] tensor that the heads' contexts are joined into."""
    transpose = _only_consumer(graph, context, "Transpose")
    if transpose is None or attribute(transpose, "perm") != _HEADS_FIRST:
        return None
    reshape = _only_consumer(graph, transpose.output[0], "Reshape")
    if reshape is None or reshape.input[1] not in graph.constants:
        return None
    target = graph.array(reshape.input[1]).tolist()
    joined: str = reshape.output[0]
    return joined if len(target) == 3 and target[:2] in ([0, 0], [0, -1]) else None


def _without_biases(graph: Graph, tensors: list[str]) -> tuple[list[str], str]:
    """Let the operator add the three projections' biases, where there are three."""
    stripped, biases = [], []
    for tensor in tensors:
        add = graph.producer.get(tensor)
        if add is None or add.op_type != "Add":
            return tensors, ""
        constants = [name for name in add.input if name in graph.constants and len(graph.constants[name].dims) == 1]
        if len(constants) != 1:
            return tensors, ""
        biases.append(graph.array(constants[0]))
        stripped.append(next(name for name in add.input if name != constants[0]))
    return stripped, graph.constant(np.concatenate(biases), "projection_bias")
