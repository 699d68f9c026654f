"""Remove what sentences of one exact length do not need: masks, position and shape arithmetic.

The engine never pads: all sentences of a batch have the same number of tokens. So the attention mask is all ones, the
positions are 0, 1, 2 … and the segments all 0. Exporters keep the machinery that computes this at run time, and it
hides the attention pattern from ONNX Runtime's fusions. Which tensors are neutral is not guessed from names or
operators: each candidate is observed at several shapes, one of them as long as the model allows (a sliding-window mask
is neutral for short sentences and not for long ones), and replaced only if it is neutral in all of them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from ..graph import Graph, observe, reads

Shape = tuple[int, int]  # (batch, length)

_SHAPES: tuple[Shape, Shape] = ((2, 5), (3, 7))  # pairwise different numbers, so that no dimension is mistaken
_LONGEST_PROBE = 1024


def simplify(graph: Graph, *, vocabulary: int, padding_id: int | None, longest: int) -> None:
    """Simplify a freshly exported encoder whose only input is `input_ids` (int64 [batch, length]).

    Args:
        graph: changed in place.
        vocabulary: number of entries, to draw token ids from.
        padding_id: the id that never occurs in a sentence, if the model has one.
        longest: most tokens that the model takes.
    """
    probes = [_random_ids(shape, vocabulary, padding_id) for shape in (*_SHAPES, (1, min(longest, _LONGEST_PROBE)))]
    _drop_neutral_masks(graph, probes)
    _slice_tables(graph, probes)
    _fix_reshapes(graph, probes[:2])
    graph.prune()
    _narrow_ids(graph)
    graph.prune()


def _random_ids(shape: Shape, vocabulary: int, padding_id: int | None) -> NDArray[np.int64]:
    ids = np.random.default_rng(0).integers(0, vocabulary, shape)
    return np.where(ids == padding_id, (ids + 1) % vocabulary, ids) if padding_id is not None else ids


def _value_independent(graph: Graph) -> set[str]:
    """Tensors that depend on the token ids, but through their shape alone."""
    constant = graph.from_constants()
    static = set(constant)
    for node in graph.nodes:
        if node.op_type == "Shape" or all(not name or name in static for name in reads(node)):
            static.update(node.output)
    return static - constant


def _drop_neutral_masks(graph: Graph, probes: Sequence[NDArray[np.int64]]) -> None:
    """`x + 0` and `where(never, fill, x)` become `x`."""
    static = _value_independent(graph)
    constant = graph.from_constants()
    adds = {
        node.output[0]: (node, mask)
        for node in graph.nodes
        if node.op_type == "Add" and not any(name in constant for name in node.input)
        for mask in node.input
        if mask in static and sum(name in static for name in node.input) == 1
    }
    wheres = {
        node.output[0]: (node, node.input[0])
        for node in graph.nodes
        if node.op_type == "Where" and node.input[0] in static and not all(name in static for name in node.input)
    }
    candidates = [mask for _, mask in (*adds.values(), *wheres.values())]
    if not candidates:
        return
    seen = [observe(graph.model, {"input_ids": ids}, candidates) for ids in probes]
    for output, (node, mask) in adds.items():
        if all(not values[mask].any() for values in seen):
            graph.replace_uses(output, next(name for name in node.input if name != mask))
    for output, (node, condition) in wheres.items():
        flags = [bool(values[condition].flat[0]) for values in seen]
        uniform = all((values[condition] == flags[0]).all() for values in seen)
        if uniform:
            graph.replace_uses(output, node.input[1 if flags[0] else 2])
    graph.prune()


def _slice_tables(graph: Graph, probes: Sequence[NDArray[np.int64]]) -> None:
    """Looking up positions first, first + 1, … in a table becomes a slice; looking up row 0 alone becomes that row."""
    lookups = [
        node
        for node in graph.nodes
        if node.op_type == "Gather"
        and node.input[0] in graph.constants
        and len(graph.constants[node.input[0]].dims) == 2
        and node.input[1] not in graph.inputs
        and node.input[1] not in graph.constants
    ]
    if not lookups:
        return
    seen = [observe(graph.model, {"input_ids": ids}, [node.input[1] for node in lookups]) for ids in probes]
    for node in lookups:
        indices = [values[node.input[1]] for values in seen]
        table = graph.array(node.input[0])
        first = int(indices[0].flat[0])
        if all((rows == first).all() for rows in indices):
            graph.replace_uses(node.output[0], graph.constant(table[first : first + 1][None], "row"))
        elif all((rows == np.arange(first, first + rows.shape[-1])).all() for rows in indices):
            rest = graph.constant(table[first:][None], "positions")
            # Shape's own bounds, not a Slice of it: that would be a node on the CPU, which a session on CUDA refuses.
            length = graph.add("Shape", ["input_ids"], "length", start=1, end=2)
            bounds = _numbers(graph, [0]), [length], _numbers(graph, [1])
            rows = graph.add("Slice", [rest, *(name for group in bounds for name in group)], "position_rows")
            graph.replace_uses(node.output[0], rows)


def _numbers(graph: Graph, *lists: list[int]) -> list[str]:
    return [graph.constant(np.array(numbers, np.int64), "number") for numbers in lists]


def _fix_reshapes(graph: Graph, probes: Sequence[NDArray[np.int64]]) -> None:
    """Give every Reshape a constant target: 0 copies a dimension, at most one -1 is left to the runtime."""
    reshapes = [n for n in graph.nodes if n.op_type == "Reshape" and n.input[1] not in graph.constants]
    reshapes = [n for n in reshapes if n.input[0] not in graph.constants]
    if not reshapes:
        return
    wanted = [name for n in reshapes for name in (n.input[0], n.output[0]) if name not in graph.inputs]
    seen = [observe(graph.model, {"input_ids": ids}, wanted) for ids in probes]
    for node in reshapes:
        if node.input[0] in graph.inputs:
            continue
        before = [values[node.input[0]].shape for values in seen]
        after = [values[node.output[0]].shape for values in seen]
        target = _constant_target(before, after)
        if target is not None:
            node.input[1] = graph.constant(np.array(target, np.int64), "target")


def _constant_target(before: list[tuple[int, ...]], after: list[tuple[int, ...]]) -> list[int] | None:
    target: list[int] = []
    for axis, sizes in enumerate(zip(*after, strict=True)):
        if len(set(sizes)) == 1:
            target.append(sizes[0])
        elif axis < len(before[0]) and all(shape[axis] == size for shape, size in zip(before, sizes, strict=True)):
            target.append(0)
        else:
            target.append(-1)
    return target if target.count(-1) <= 1 else None


def _narrow_ids(graph: Graph) -> None:
    """Token ids arrive as int32: half the bytes to the device, and what the fused embedding kernels take."""
    value = next(v for v in graph.model.graph.input if v.name == "input_ids")
    value.type.tensor_type.elem_type = TensorProto.INT32
    dimensions = value.type.tensor_type.shape.dim
    dimensions[0].dim_param, dimensions[1].dim_param = "batch", "length"
    others: list[NodeProto] = [
        node
        for node in graph.consumers("input_ids")
        if node.op_type != "Shape" and not (node.op_type == "Gather" and node.input[1] == "input_ids")
    ]
    if others:
        wide = graph.add("Cast", ["input_ids"], "wide_ids", to=helper.TensorProto.INT64)
        for node in others:
            for i, name in enumerate(node.input):
                if name == "input_ids":
                    node.input[i] = wide
