"""Rotary positions: queries and keys are rotated by one operator."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Array, Graph, attribute, numbers_in, only_reader, written_by
from ..observe import PROBE, Layout, layouts, observe
from .context import Context
from .masks import value_independent

_CONTRIB = "com.microsoft"
_ROUNDING = 1e-6  # a kernel rounds the cosine of one angle differently at the end of a vector


@dataclass(frozen=True)
class _Rotation:
    """How heads `before` become heads `after`."""

    before: ir.Value
    after: ir.Value
    tables: tuple[ir.Value, ir.Value]
    tokens: int
    width: int
    neighbours: bool


def fuse_rotations(graph: Graph, context: Context) -> None:
    """Fuse rotary positions into one RotaryEmbedding operator (Su et al. 2021, RoFormer).

        x · cos + turned · sin  ->  RotaryEmbedding(x, positions, cos, sin)

        turned = [-x₂, x₁], halves of the channels x = [x₁, x₂]            GPT-NeoX, Llama, Mistral, Qwen2, Phi, Gemma
        turned = [-x₁, x₀, -x₃, x₂, …], neighbouring channels              GPT-J, CodeGen, Cohere

    Where the first channels of each head are rotated alone, the operator joins the others to them. That the channels of
    a pair have equal tables, and each position has one row for all sentences and heads, is observed at several lengths.
    Demands a graph whose only input is `input_ids`, and bounds of slices that are constants (`fold_constants`).
    """
    if not any(node.op_type == "Neg" for node in graph.nodes):
        return
    known = layouts(graph)
    static = value_independent(graph, graph.from_constants())
    found = [each for node in graph.nodes if (each := _rotation(node, known)) is not None]
    found = [each for each in found if static.issuperset(each.tables)]
    probes = context.probes()
    seen = observe(graph, probes, [table for each in found for table in each.tables])
    lengths = [batch["input_ids"].shape[1] for batch in probes]
    made: dict[ir.Value, ir.Value] = {}
    for each in found:
        if all(_is_table(values[one], n, each) for values, n in zip(seen, lengths, strict=True) for one in each.tables):
            for table in each.tables:
                if table not in made:  # one channel of each pair of it, [L, width / 2]
                    end, step = (each.width, 2) if each.neighbours else (each.width // 2, 1)
                    rank, half = seen[0][table].ndim, graph.numbers(-1, each.width // 2)
                    axes = [axis for axis in range(rank) if axis != rank + each.tokens - 4]
                    first = [1] * (len(axes) - 1)
                    bounds = [[0] * len(axes), [*first, end], axes, [*first, step]]
                    part = graph.add("Slice", [table, *(graph.numbers(*own) for own in bounds)], "one_of_pairs")
                    made[table] = graph.add("Reshape", [part, half], "table")
            graph.replace(each.after, _rotated(graph, each, [made[table] for table in each.tables], known))
    graph.model.graph.opset_imports[_CONTRIB] = 1


def _rotation(add: ir.Node, known: Mapping[ir.Value, Layout]) -> _Rotation | None:
    """The rotation that a sum ends, or that a Concat behind it ends."""
    products = [written_by(value, "Mul") for value in add.inputs] if add.op_type == "Add" else []
    for straight, crossed in (products, products[::-1]) if len(products) == 2 else ():
        for turned, sin in _either(crossed):
            value, neighbours = _turned(turned, known)
            cos = next((cos for one, cos in _either(straight) if one is value), None)
            tokens = _axis_of_tokens(value, cos, known)
            if value is not None and cos is not None and sin is not None and tokens:
                width = known[value].shape[-1]
                return _whole(_Rotation(value, add.outputs[0], (cos, sin), tokens, width, neighbours), known)
    return None


def _either(product: ir.Node | None) -> list[tuple[ir.Value | None, ir.Value | None]]:
    if product is None:
        return []
    one, other = product.inputs
    return [(one, other), (other, one)]


def _turned(value: ir.Value | None, known: Mapping[ir.Value, Layout]) -> tuple[ir.Value | None, bool]:
    """The x of which a value is the turned form, and whether its pairs are neighbours."""
    flat = written_by(value, "Reshape")
    concat = written_by(flat.inputs[0] if flat is not None else value, "Concat")
    if concat is None or len(concat.inputs) != 2 or not _is_along_last_axis(concat, known):
        return None, False
    pair = list(concat.inputs)
    if flat is not None:  # each channel of a pair had an axis of its own
        apart = [written_by(one, "Unsqueeze") for one in pair]
        if any(one is None or known[one.outputs[0]].shape[-1] != 1 for one in apart):
            return None, False
        pair = [one.inputs[0] for one in apart if one is not None]
    negative = written_by(pair[0], "Neg")
    whole, second = part_of_last_axis(negative.inputs[0] if negative is not None else None, known)
    same, first = part_of_last_axis(pair[1], known)
    if value is None or whole is None or whole is not same:
        return None, False
    shape = known[whole].shape
    channels, half = range(shape[-1]), shape[-1] // 2
    wanted = (channels[::2], channels[1::2]) if flat is not None else (channels[:half], channels[half:])
    fits = (first, second) == wanted and shape[-1] == 2 * half and known[value].shape == shape
    return (whole if fits else None), flat is not None


def part_of_last_axis(value: ir.Value | None, known: Mapping[ir.Value, Layout]) -> tuple[ir.Value | None, range]:
    """Of which other value a value is some channels, and which, if a Slice or a Split takes them; else no value."""
    node = written_by(value, "Slice", "Split")
    whole = node.inputs[0] if node is not None else None
    if value is None or node is None or whole is None:
        return None, range(0)
    rank, width = len(known[whole].shape), known[whole].shape[-1]
    if node.op_type == "Split":
        before = node.outputs[: node.outputs.index(value)]
        start = sum(known[one].shape[-1] for one in before)
        along_last_axis = attribute(node, "axis", 0) in {-1, rank - 1}
        return (whole if along_last_axis else None), range(start, start + known[value].shape[-1])
    numbers: list[Any] = [numbers_in(bound) or () for bound in node.inputs[1:]]
    if len(numbers) < 3 or any(len(each) != 1 for each in numbers) or numbers[2][0] not in {-1, rank - 1}:
        return None, range(0)
    step = numbers[3][0] if len(numbers) > 3 else 1
    return whole, range(width)[numbers[0][0] : numbers[1][0] : step]


def _axis_of_tokens(value: ir.Value | None, cos: ir.Value | None, known: Mapping[ir.Value, Layout]) -> int:
    """Which axis of fp32 heads, [B, heads, L, d] or [B, L, heads, d], the tokens are; 0 if a value is neither."""
    if value is None or cos is None or not known[value].is_float32:
        return 0
    shape, table = known[value].shape, known[cos].shape
    if len(shape) != 4 or shape[0] != PROBE[0] or len(table) < 2:
        return 0
    if shape[2] == table[-2] == PROBE[1]:
        return 2
    return 1 if len(table) > 2 and shape[1] == table[-3] == PROBE[1] else 0


def _whole(rotation: _Rotation, known: Mapping[ir.Value, Layout]) -> _Rotation:
    """The rotation of whole heads, where it is one of their first channels and a Concat joins the others to them."""
    whole, rotated = part_of_last_axis(rotation.before, known)
    concat = only_reader(rotation.after, "Concat")
    if whole is None or concat is None or len(concat.inputs) != 2 or not _is_along_last_axis(concat, known):
        return rotation
    same, rest = part_of_last_axis(concat.inputs[1], known)
    channels = range(known[whole].shape[-1])
    parts = (channels[: rotation.width], channels[rotation.width :])
    if concat.inputs[0] is not rotation.after or same is not whole or (rotated, rest) != parts:
        return rotation
    return replace(rotation, before=whole, after=concat.outputs[0])


def _is_along_last_axis(concat: ir.Node, known: Mapping[ir.Value, Layout]) -> bool:
    return attribute(concat, "axis") in {-1, len(known[concat.outputs[0]].shape) - 1}


def _is_table(values: Array, length: int, rotation: _Rotation) -> bool:
    """Whether each position has one row for all sentences and heads, in which the channels of a pair are equal."""
    rows = np.moveaxis(values, rotation.tokens - 4, 0)  # of the axes of the heads, counted from behind
    if rows.shape[0] != length or rows.shape[-1] != rotation.width:
        return False
    half = rotation.width // 2
    pairs = rows.reshape(length, -1, *((half, 2) if rotation.neighbours else (2, half)))
    one = pairs[:, :1, :, :1] if rotation.neighbours else pairs[:, :1, :1]
    return bool(np.allclose(pairs, one, rtol=0, atol=_ROUNDING))


def _rotated(graph: Graph, rotation: _Rotation, tables: list[ir.Value], known: Mapping[ir.Value, Layout]) -> ir.Value:
    """The operator, over heads [B, heads, L, d], or over rows [B, L, heads × d]."""

    def reshape(value: ir.Value, *sizes: int) -> ir.Value:
        return graph.add("Reshape", [value, graph.numbers(*sizes, stem="target")], "rows")

    heads, width = known[rotation.before].shape[3 - rotation.tokens], known[rotation.before].shape[-1]
    rows = rotation.before if rotation.tokens == 2 else reshape(rotation.before, 0, 0, heads * width)
    own = {"num_heads": heads, "rotary_embedding_dim": rotation.width, "interleaved": int(rotation.neighbours)}
    inputs = [rows, graph.numbers(0, stem="first_position"), *tables]
    result = graph.add("RotaryEmbedding", inputs, "rotated", domain=_CONTRIB, **own)
    return result if rotation.tokens == 2 else reshape(result, 0, 0, heads, width)
