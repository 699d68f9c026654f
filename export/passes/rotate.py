"""Fuse rotary positions into one RotaryEmbedding operator (Su et al. 2021, RoFormer).

Queries and keys of a token are turned by angles that grow with its position, pair by pair of the channels of a head.
Most models (GPT-NeoX, Llama, Mistral, Qwen2, Phi, Gemma) pair the first half of these channels with the second:

    x · cos + [-x₂, x₁] · sin,  with x = [x₁, x₂]  ->  RotaryEmbedding(x, positions, cos, sin)

Some rotate the first channels of each head alone, and join the others to them; the operator does that, too. It has the
positions as an input of its own. So it can rotate one row of each sentence (`hoist`), or a line of rows
(`share_prefix`).

Tables of cosines and sines stay what they are in the graph, but of their two equal halves one is kept. That they are
two equal halves, one row a position and the same for all sentences, is observed at several lengths.

Demands a graph whose only input is `input_ids`, and bounds of slices that are constants (`fold`). A model that pairs
neighbouring channels (GPT-J) keeps its operators.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Array, Graph, attribute, only_reader, written_by
from ..observe import PROBE, Layout, layouts, observe
from .context import Context
from .masks import value_independent
from .slices import part_of_last_axis

_CONTRIB = "com.microsoft"
_ROUNDING = 1e-6  # a kernel rounds the cosine of one angle differently at the end of a vector


@dataclass(frozen=True)
class _Rotation:
    """`before` [B, heads, L, d], of which the first `width` channels of each head are turned, becomes `after`."""

    before: ir.Value
    after: ir.Value
    cos: ir.Value
    sin: ir.Value
    width: int


def fuse_rotations(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    if not any(node.op_type == "Neg" for node in graph.nodes):
        return {}
    known = layouts(graph)
    static = value_independent(graph, graph.from_constants())
    found = [each for node in graph.nodes if (each := _rotation(node, known)) is not None]
    found = [each for each in found if {each.cos, each.sin} <= static]
    probes = context.probes()
    seen = observe(graph, probes, [table for each in found for table in (each.cos, each.sin)])
    tables: dict[ir.Value, ir.Value | None] = {}
    first = graph.constant(np.array([0], np.int64), "first_position")
    for each in found:
        for table in (each.cos, each.sin):
            if table not in tables:
                rows = [values[table] for values in seen]
                lengths = [batch["input_ids"].shape[1] for batch in probes]
                fits = all(_is_table(values, length, each.width) for values, length in zip(rows, lengths, strict=True))
                tables[table] = _half(graph, table, rows[0].ndim, each.width) if fits else None
        cos, sin = tables[each.cos], tables[each.sin]
        if cos is not None and sin is not None:
            turned = graph.add(
                "RotaryEmbedding",
                [each.before, first, cos, sin],
                "rotated",
                domain=_CONTRIB,
                num_heads=known[each.before].shape[1],
                rotary_embedding_dim=each.width,
            )
            graph.replace(each.after, turned)
    graph.model.graph.opset_imports[_CONTRIB] = 1
    graph.prune()
    return {}


def _rotation(add: ir.Node, known: Mapping[ir.Value, Layout]) -> _Rotation | None:
    """The rotation that a sum ends, or that a Concat behind it ends."""
    products = [written_by(value, "Mul") for value in add.inputs] if add.op_type == "Add" else []
    for straight, crossed in (products, products[::-1]) if len(products) == 2 else ():
        for turned, sin in _either(crossed):
            value = _turned(turned, known)
            cos = next((cos for one, cos in _either(straight) if one is value), None)
            if value is None or cos is None or sin is None or not _has_heads(value, known):
                continue
            return _whole(_Rotation(value, add.outputs[0], cos, sin, known[value].shape[-1]), known)
    return None


def _either(product: ir.Node | None) -> list[tuple[ir.Value | None, ir.Value | None]]:
    """The two factors of a product, in both orders."""
    if product is None:
        return []
    one, other = product.inputs
    return [(one, other), (other, one)]


def _turned(value: ir.Value | None, known: Mapping[ir.Value, Layout]) -> ir.Value | None:
    """The x = [x₁, x₂] of which a value is [-x₂, x₁]."""
    concat = written_by(value, "Concat")
    if concat is None or len(concat.inputs) != 2 or not _is_along_last_axis(concat, known):
        return None
    negative = written_by(concat.inputs[0], "Neg")
    second = part_of_last_axis(negative.inputs[0], known) if negative is not None else None
    first = part_of_last_axis(concat.inputs[1], known)
    if first is None or second is None or first.whole is not second.whole:
        return None
    width = known[first.whole].shape[-1]
    halves = (first.start, first.stop, second.start, second.stop)
    return first.whole if halves == (0, width // 2, width // 2, width) and width % 2 == 0 else None


def _whole(rotation: _Rotation, known: Mapping[ir.Value, Layout]) -> _Rotation:
    """The rotation of whole heads, where it is one of their first channels and a Concat joins the others to them."""
    rotated = part_of_last_axis(rotation.before, known)
    concat = only_reader(rotation.after, "Concat")
    if rotated is None or concat is None or len(concat.inputs) != 2 or not _is_along_last_axis(concat, known):
        return rotation
    rest = part_of_last_axis(concat.inputs[1], known)
    if concat.inputs[0] is not rotation.after or rest is None or rest.whole is not rotated.whole:
        return rotation
    width = known[rotated.whole].shape[-1]
    if (rotated.start, rotated.stop, rest.stop) != (0, rest.start, width):
        return rotation
    return _Rotation(rotated.whole, concat.outputs[0], rotation.cos, rotation.sin, rotation.width)


def _is_along_last_axis(concat: ir.Node, known: Mapping[ir.Value, Layout]) -> bool:
    return attribute(concat, "axis") in {-1, len(known[concat.outputs[0]].shape) - 1}


def _has_heads(value: ir.Value, known: Mapping[ir.Value, Layout]) -> bool:
    """Whether a value is fp32 [B, heads, L, d]."""
    shape = known[value].shape
    return known[value].is_float32 and len(shape) == 4 and (shape[0], shape[2]) == PROBE


def _is_table(values: Array, length: int, width: int) -> bool:
    """Whether each position has one row for all sentences and heads, whose halves are equal."""
    if values.shape[-2:] != (length, width):
        return False
    rows = values.reshape(-1, length, 2, width // 2)
    return bool(np.allclose(rows, rows[:1, :, :1], rtol=0, atol=_ROUNDING))


def _half(graph: Graph, table: ir.Value, rank: int, width: int) -> ir.Value:
    """The first half of a table's channels, [L, width / 2]."""

    def numbers(*values: int) -> ir.Value:
        return graph.constant(np.array(values, np.int64), "number")

    axes = [*range(rank - 2), rank - 1]
    bounds = [numbers(*[0] * len(axes)), numbers(*[1] * (rank - 2), width // 2), numbers(*axes)]
    return graph.add("Reshape", [graph.add("Slice", [table, *bounds], "half"), numbers(-1, width // 2)], "table")
