"""Fuse the pieces of an attention into one MultiHeadAttention operator.

ONNX Runtime's own optimizer packs the three projections into its `Attention` operator, which on the CPU multiplies by
them sentence by sentence and head by head: matrices of 18 rows. `MultiHeadAttention` takes Q, K and V as they come out
of three products over all tokens of the batch, which is where a processor reaches its speed, and lets the mask's query
differ in length from the keys (`hoist`). This pass also recognises the forms that the optimizer does not: a scale
applied to Q or to K, a bias on the scores (MPNet's relative positions).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, attribute, dims, is_constant, only_reader, written_by
from .causal_masks import is_causal_mask
from .context import Context

_HEADS_FIRST = [0, 2, 1, 3]  # [B, L, heads, d] -> [B, heads, L, d], and back
_KEYS_LAST = [0, 2, 3, 1]  # [B, L, heads, d] -> [B, heads, d, L]
_SWAP_LAST = [0, 1, 3, 2]


@dataclass(frozen=True)
class _Heads:
    """A [B, L, hidden] value seen as heads, and the scalar it was multiplied by."""

    value: ir.Value
    heads: int
    scale: float


def fuse_attention(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Replace every attention that has the standard form. Demands reshapes with constant targets (`reshapes`)."""
    for node in graph.nodes:
        if node.op_type == "Softmax":
            _fuse_one(graph, node)
    graph.prune()
    return {}


def _fuse_one(graph: Graph, softmax: ir.Node) -> None:
    scores, scale = _unscale(softmax.inputs[0])
    bias = None
    if scale == 1.0 and (add := written_by(scores, "Add")) is not None:
        bias, scores = _split_bias(add)
        scores, scale = _unscale(scores)
    product = written_by(scores, "MatMul")
    context = only_reader(softmax.outputs[0], "MatMul")
    if product is None or context is None or context.inputs[0] is not softmax.outputs[0]:
        return
    query = _heads(product.inputs[0], keys=False)
    key = _heads(product.inputs[1], keys=True)
    value = _heads(context.inputs[1], keys=False)
    joined = _joined(context.outputs[0])
    if query is None or key is None or value is None or joined is None or value.scale != 1.0:
        return
    if not query.heads == key.heads == value.heads:
        return
    projections, projection_bias = _without_biases(graph, [query.value, key.value, value.value])
    causal = {"unidirectional": 1} if is_causal_mask(bias) else {}
    inputs = [*projections, projection_bias, None, None if causal else bias]
    while inputs[-1] is None:
        inputs.pop()
    fused = graph.add(
        "MultiHeadAttention",
        inputs,
        "context",
        domain="com.microsoft",
        num_heads=query.heads,
        scale=float(scale * query.scale * key.scale),
        **causal,
    )
    graph.replace(joined, fused)


def _unscale(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """Walk up through products with and quotients by constant scalars."""
    scale = 1.0
    while (node := written_by(value, "Mul", "Div")) is not None:
        if _is_scalar(node.inputs[1]):
            factor, rest = array(node.inputs[1]).item(), node.inputs[0]
            scale = scale / factor if node.op_type == "Div" else scale * factor
        elif node.op_type == "Mul" and _is_scalar(node.inputs[0]):
            scale, rest = scale * array(node.inputs[0]).item(), node.inputs[1]
        else:
            break
        value = rest
    return value, scale


def _is_scalar(value: ir.Value | None) -> bool:
    return is_constant(value) and int(np.prod(dims(value))) == 1


def _split_bias(add: ir.Node) -> tuple[ir.Value | None, ir.Value | None]:
    """Of a sum, the bias on the scores and the scores: those come from a product."""
    first, second = add.inputs
    is_scores = written_by(_unscale(first)[0], "MatMul") is not None
    return (second, first) if is_scores else (first, second)


def _heads(value: ir.Value | None, *, keys: bool) -> _Heads | None:
    """The [B, L, hidden] value behind Transpose(Reshape(·)); for keys, transposed once more."""
    value, outer = _unscale(value)
    node = written_by(value, "Transpose")
    wanted = _KEYS_LAST if keys else _HEADS_FIRST
    if keys and node is not None and _order(node) == _SWAP_LAST:
        value, inner = _unscale(node.inputs[0])
        node, outer, wanted = written_by(value, "Transpose"), outer * inner, _HEADS_FIRST
    if node is None or _order(node) != wanted:
        return None
    reshape = written_by(node.inputs[0], "Reshape")
    if reshape is None or not is_constant(reshape.inputs[1]):
        return None
    target = array(reshape.inputs[1]).tolist()
    if len(target) != 4 or target[:2] not in ([0, 0], [0, -1]) or min(target[2:]) < 1:
        return None
    source, inner = _unscale(reshape.inputs[0])
    return None if source is None else _Heads(source, int(target[2]), outer * inner)


def _order(transpose: ir.Node) -> list[int]:
    return list(attribute(transpose, "perm", ()))


def _joined(context: ir.Value) -> ir.Value | None:
    """The [B, L, hidden] value that the heads' contexts are joined into."""
    transpose = only_reader(context, "Transpose")
    if transpose is None or _order(transpose) != _HEADS_FIRST:
        return None
    reshape = only_reader(transpose.outputs[0], "Reshape")
    if reshape is None or not is_constant(reshape.inputs[1]):
        return None
    target = array(reshape.inputs[1]).tolist()
    return reshape.outputs[0] if len(target) == 3 and target[:2] in ([0, 0], [0, -1]) else None


def _without_biases(graph: Graph, values: Sequence[ir.Value]) -> tuple[Sequence[ir.Value | None], ir.Value | None]:
    """Let the operator add the three projections' biases, where there are three."""
    stripped, biases = [], []
    for value in values:
        add = written_by(value, "Add")
        constants = [] if add is None else [one for one in add.inputs if is_constant(one) and len(dims(one)) == 1]
        if add is None or len(constants) != 1:
            return values, None
        biases.append(array(constants[0]))
        stripped.append(next(one for one in add.inputs if one is not constants[0]))
    return stripped, graph.constant(np.concatenate(biases), "projection_bias")
