"""Fuse the pieces of an attention into one MultiHeadAttention operator over all tokens of a batch.

Of the biases of queries, keys and values, only that of the queries is added:

    softmax((q + b)(k + c)ᵀ) = softmax((q + b) kᵀ)    as (q + b) cᵀ is the same for all keys of a query
    A (v + d) = A v + d, and (A v + d) W + e = (A v) W + (d W + e)    as the rows of A have the sum 1

So no program has to add them into a copy of all three, as the operator does with biases of its own.

Heads that share keys and values (Ainslie et al. 2023, grouped-query attention) are repeated as
[B, heads, L, d] -> Unsqueeze [B, heads, 1, L, d], Expand [B, heads, n, L, d], Reshape [B, heads × n, L, d].
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..graph import (
    Graph,
    array,
    attribute,
    attributes,
    bias_of,
    is_constant,
    is_scalar,
    numbers_in,
    only_reader,
    written_by,
)
from ..observe import PROBE, Layout, layouts
from .context import Context
from .masks import is_causal_mask
from .rotate import part_of_last_axis

_HEADS_FIRST = [0, 2, 1, 3]  # [B, L, heads, d] -> [B, heads, L, d], and back
_KEYS_LAST = [0, 2, 3, 1]  # [B, L, heads, d] -> [B, heads, d, L]
_SWAP_LAST = [0, 1, 3, 2]
_HEADS_TO_SECOND, _ROWS = 2, 3  # the axis along which heads are repeated

Layouts = Mapping[ir.Value, Layout]


@dataclass(frozen=True)
class _Heads:
    value: ir.Value  # [B, L, hidden]
    heads: int
    scale: float  # by which it was multiplied


def fuse_attention(graph: Graph, _: Context) -> None:
    """Replace every attention that has the standard form. Demands reshapes with constant targets (`fix_shapes`)."""
    softmaxes = [node for node in graph.nodes if node.op_type == "Softmax"]
    known = layouts(graph) if softmaxes else {}
    for node in softmaxes:
        _fuse_one(graph, node, known)


def _fuse_one(graph: Graph, softmax: ir.Node, known: Layouts) -> None:
    scores, scale = _unscale(softmax.inputs[0])
    bias = None
    if scale == 1.0 and (add := written_by(scores, "Add")) is not None:
        bias, scores = add.inputs  # the scores come from a product
        if written_by(_unscale(bias)[0], "MatMul") is not None:
            bias, scores = scores, bias
        scores, scale = _unscale(scores)
    product = written_by(scores, "MatMul")
    context = only_reader(softmax.outputs[0], "MatMul")
    if product is None or context is None or context.inputs[0] is not softmax.outputs[0]:
        return
    query = _heads(graph, product.inputs[0], known)
    key = _keys(graph, product.inputs[1], known)
    value = _heads(graph, context.inputs[1], known)
    transpose = only_reader(context.outputs[0], "Transpose")
    if transpose is None or _order(transpose) != _HEADS_FIRST or query is None or key is None or value is None:
        return
    joined = only_reader(transpose.outputs[0], "Reshape")
    target = (joined and numbers_in(joined.inputs[1])) or []
    if joined is None or len(target) != 3 or target[:2] not in ([0, 0], [0, -1]) or value.scale != 1.0:
        return
    if not query.heads == key.heads == value.heads or (bias is not None and len(known[bias].shape) != 4):
        return
    causal = {"unidirectional": 1} if is_causal_mask(bias) else {}
    rows = [query.value, _without_bias(key.value), _with_moved_bias(graph, value.value, joined.outputs[0])]
    inputs = [*rows, None, None, None if causal else bias]
    while inputs[-1] is None:
        inputs.pop()
    own = {"num_heads": query.heads, "scale": float(scale * query.scale * key.scale), **causal}
    fused = graph.add("MultiHeadAttention", inputs, "context", domain="com.microsoft", **own)
    graph.replace(joined.outputs[0], fused)


def _unscale(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """Walk up through products with and quotients by constant scalars."""
    scale = 1.0
    while (node := written_by(value, "Mul", "Div")) is not None:
        if is_scalar(node.inputs[1]):
            factor, rest = array(node.inputs[1]).item(), node.inputs[0]
            scale = scale / factor if node.op_type == "Div" else scale * factor
        elif node.op_type == "Mul" and is_scalar(node.inputs[0]):
            scale, rest = scale * array(node.inputs[0]).item(), node.inputs[1]
        else:
            break
        value = rest
    return value, scale


def _keys(graph: Graph, value: ir.Value | None, known: Layouts) -> _Heads | None:
    """The rows behind keys [B, heads, d, L]."""
    value, scale = _unscale(value)
    node = written_by(value, "Transpose")
    if node is None:
        return None
    if _order(node) == _SWAP_LAST:
        return _scaled(_heads(graph, node.inputs[0], known), scale)
    return _scaled(_divided(graph, node.inputs[0], known), scale) if _order(node) == _KEYS_LAST else None


def _heads(graph: Graph, value: ir.Value | None, known: Layouts) -> _Heads | None:
    """The rows [B, L, hidden] behind heads [B, heads, L, d]; where their form is not known, made of the heads."""
    value, scale = _unscale(value)
    node = value.producer() if value is not None else None
    found = None
    if node is not None and node.op_type == "Transpose" and _order(node) == _HEADS_FIRST:
        found = _divided(graph, node.inputs[0], known)
    elif node is not None and node.op_type == "RotaryEmbedding":
        found = _heads(graph, node.inputs[0], known)
        if found is not None:
            inputs = [found.value, *node.inputs[1:]]
            rotated = graph.add("RotaryEmbedding", inputs, "rotated", domain=node.domain, **attributes(node))
            found = _Heads(rotated, found.heads, found.scale)
    elif node is not None and value is not None and node.op_type in {"Slice", "Split"}:
        found = _side_by_side(graph, value, known)
    elif (shared := repeated_heads(value)) is not None and (found := _heads(graph, shared[0], known)) is not None:
        rows = repeated(graph, found.value, found.heads, shared[1])
        found = _Heads(rows, found.heads * shared[1], found.scale)
    if found is None and value is not None and len(shape := known[value].shape) == 4 and shape[::2] == PROBE:
        found = _Heads(_rows(graph, graph.add("Transpose", [value], "apart", perm=_HEADS_FIRST)), shape[1], 1.0)
    return _scaled(found, scale)


def _scaled(found: _Heads | None, scale: float) -> _Heads | None:
    return None if found is None else _Heads(found.value, found.heads, found.scale * scale)


def _divided(graph: Graph, value: ir.Value | None, known: Layouts) -> _Heads | None:
    """The rows behind [B, L, heads, d]: what is reshaped to it, or it, reshaped."""
    reshape = written_by(value, "Reshape")
    found = _heads_of(reshape)
    if reshape is not None and found:
        source, scale = _unscale(reshape.inputs[0])
        if source is None or len(known[source].shape) == 3:
            return None if source is None else _Heads(source, found, scale)
    return None if value is None else _Heads(_rows(graph, value), known[value].shape[2], 1.0)


def _heads_of(reshape: ir.Node | None) -> int:
    """The number of heads, where a Reshape divides rows into heads; else 0."""
    target = (reshape and numbers_in(reshape.inputs[1])) or []
    divides = len(target) == 4 and target[:2] in ([0, 0], [0, -1]) and min(target[2:]) > 0
    return int(target[2]) if divides else 0


def _side_by_side(graph: Graph, part: ir.Value, known: Layouts) -> _Heads | None:
    """The rows of heads that are a part of wider ones, by constant bounds along their last axis."""
    whole, channels = part_of_last_axis(part, known)
    transpose = written_by(whole, "Transpose")
    if transpose is None or _order(transpose) != _HEADS_FIRST or channels.step != 1:
        return None
    heads = _heads_of(written_by(transpose.inputs[0], "Reshape"))
    bounds = map(graph.numbers, (channels.start, channels.stop, -1))
    own = graph.add("Slice", [transpose.inputs[0], *bounds], "part") if heads else None
    return _Heads(_rows(graph, own), heads, 1.0) if own is not None else None


def _rows(graph: Graph, divided: ir.Value) -> ir.Value:
    """[B, L, heads, d] as rows [B, L, heads × d]."""
    return graph.add("Reshape", [divided, graph.numbers(0, 0, -1, stem="target")], "rows")


def _order(transpose: ir.Node) -> list[int]:
    return list(attribute(transpose, "perm", ()))


def _without_bias(rows: ir.Value) -> ir.Value:
    biased = bias_of(written_by(rows, "Add"))
    return rows if biased is None else biased[0]


def _with_moved_bias(graph: Graph, rows: ir.Value, context: ir.Value) -> ir.Value:
    """Values without their bias, if it can move into the one behind the product that alone reads the context."""
    product = only_reader(context, "MatMul")
    add = only_reader(product.outputs[0], "Add") if product is not None else None
    biased, behind = bias_of(written_by(rows, "Add")), bias_of(add)
    if product is None or add is None or biased is None or behind is None or not is_constant(product.inputs[1]):
        return rows
    own, weights, later = (array(one).astype(np.float64) for one in (biased[1], product.inputs[1], behind[1]))
    moved = (own @ weights + later).astype(np.float32)
    add.replace_input_with(list(add.inputs).index(behind[1]), graph.constant(moved, "bias"))
    return biased[0]


def repeated_heads(value: ir.Value | None) -> tuple[ir.Value, int] | None:
    """Of a value [B, ·, L, d] whose heads are repeated, the value [B, heads, L, d] before that, and how often."""
    found = _before_expand(value, _HEADS_TO_SECOND)
    unsqueeze = written_by(found[0], "Unsqueeze") if found is not None else None
    if found is None or unsqueeze is None or unsqueeze.inputs[0] is None:
        return None
    return (unsqueeze.inputs[0], found[1]) if numbers_in(unsqueeze.inputs[1]) == [_HEADS_TO_SECOND] else None


def repeated(graph: Graph, rows: ir.Value, heads: int, times: int) -> ir.Value:
    """Rows [B, L, heads × times × d], where each head of the rows [B, L, heads × d] stands so many times."""

    def reshape(value: ir.Value, *sizes: int) -> ir.Value:
        return graph.add("Reshape", [value, graph.numbers(0, 0, *sizes, stem="target")], "heads")

    apart = reshape(rows, heads, 1, -1)
    sizes = graph.numbers(*_sizes(_ROWS, times), stem="times")
    return reshape(graph.add("Expand", [apart, sizes], "repeated"), -1)


def before_repetition(rows: ir.Value | None) -> tuple[ir.Value | None, int]:
    """The rows whose heads are repeated, and how often; the rows themselves and 1 if they are not."""
    found = _before_expand(rows, _ROWS)
    apart = written_by(found[0], "Reshape") if found is not None else None
    if found is None or apart is None or apart.inputs[0] is None:
        return rows, 1
    return apart.inputs[0], found[1]


def _before_expand(value: ir.Value | None, axis: int) -> tuple[ir.Value, int] | None:
    """What is repeated along an axis of its own and joined again, and how often."""
    reshape = written_by(value, "Reshape")
    expand = written_by(reshape.inputs[0], "Expand") if reshape is not None else None
    sizes = numbers_in(expand.inputs[1]) if expand is not None else None
    if expand is None or expand.inputs[0] is None or sizes is None:
        return None
    times = int(sizes[axis]) if len(sizes) == 5 else 1
    return (expand.inputs[0], times) if times > 1 and sizes == _sizes(axis, times) else None


def _sizes(axis: int, times: int) -> list[int]:
    return [times if each == axis else 1 for each in range(5)]
