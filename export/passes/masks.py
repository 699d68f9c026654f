"""Masks that mask nothing go, masks of causal attention become one, and segments are set aside and brought back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Array, Graph, array, is_scalar, reads
from ..observe import observe
from .context import Context

HIDES = -1e9  # added to a score, so that its probability is exactly 0
_FILL = -1e4  # what is below that was meant to hide
_IS_CAUSAL = "is causal"
_SEGMENTS, _DERIVED = "token_type_ids", "segments_from_ids"


def drop_neutral_masks(graph: Graph, context: Context) -> None:
    """Remove attention masks that mask nothing: `x + 0`, `x · 1` and `where(never, fill, x)` become `x`.

    All sentences of a batch have the same number of tokens, but exporters keep what computes a mask. Each candidate is
    observed at several shapes, and must be neutral in all. Demands a fresh graph whose only input is `input_ids`.
    """
    masks = _masking(graph)
    seen = observe(graph, context.probes(), masks.values())
    for node, mask in reversed(masks.items()):  # so each node still reads the mask that was seen
        values = [each[mask] for each in seen]
        if node.op_type == "Where":
            first = bool(values[0].flat[0])
            kept, neutral = node.inputs[1 if first else 2], all((each == first).all() for each in values)
        else:
            neutral = all((each == (node.op_type == "Mul")).all() for each in values)
            kept = next(value for value in node.inputs if value is not mask)
        if kept is not None and neutral:
            graph.replace(node.outputs[0], kept)


def _masking(graph: Graph) -> dict[ir.Node, ir.Value]:
    """Nodes that may mask, and their masks: sums, products and choices with what depends on the ids' shape alone."""
    constant = graph.from_constants()
    static = value_independent(graph, constant)
    found = {}
    for node in graph.nodes:
        inputs = [value for value in node.inputs if value is not None]
        masks = [value for value in inputs if value in static]
        if node.op_type in {"Add", "Mul"} and len(masks) == 1 and constant.isdisjoint(inputs):
            found[node] = masks[0]
        if node.op_type == "Where" and inputs[0] in static and not static.issuperset(inputs):
            found[node] = inputs[0]
    return found


def value_independent(graph: Graph, constant: set[ir.Value]) -> set[ir.Value]:
    """Values that depend on the token ids, but through their shape alone."""
    static = set(constant)
    for node in graph.nodes:
        if node.op_type == "Shape" or all(value in static for value in reads(node)):
            static.update(node.outputs)
    return static - constant


def causal_mask(graph: Graph, length: ir.Value | None = None) -> ir.Value:
    """Add the mask, float32 [1, 1, L, L]: 0 up to the diagonal, `HIDES` behind it; L by default as in `input_ids`."""
    length = length or graph.add("Shape", [graph.inputs["input_ids"]], "length", start=1, end=2)  # int64 [1]
    ones = graph.numbers(1, 1, stem="ones")
    shape = graph.add("Concat", [ones, length, length], "mask_shape", axis=0)
    full = graph.add("Expand", [graph.constant(np.array([HIDES], np.float32), "hides"), shape], "hidden_scores")
    first = graph.number(1, "diagonal")
    mask = graph.add("Trilu", [full, first], "causal_mask", upper=1)
    mask.meta[_IS_CAUSAL] = True
    return mask


def is_causal_mask(value: ir.Value | None) -> bool:
    """Whether a value is the mask that `causal_mask` has added."""
    return value is not None and bool(value.meta.get(_IS_CAUSAL))


def unify_causal_masks(graph: Graph, context: Context) -> None:
    """Replace the masks of a causal model by one mask, `causal_mask`, which a fused attention then applies by itself.

    Exporters write them as `scores + mask` or as `where(seen, scores, fill)`, some models as both. Whether a mask is
    causal is observed at several lengths. Demands a graph whose only input is `input_ids`.
    """
    masks = _masking(graph)
    seen = observe(graph, context.probes(), masks.values())
    found = {node: _scores(node, mask, [values[mask] for values in seen]) for node, mask in masks.items()}
    causal = {node: scores for node, scores in found.items() if scores is not None}
    if causal:
        mask = causal_mask(graph)
        for node in graph.nodes:
            scores = causal.get(node)
            if scores is None:
                continue
            before = scores.producer()
            is_masked = before is not None and before.op_type == "Add" and any(map(is_causal_mask, before.inputs))
            masked = scores if is_masked else graph.add("Add", [scores, mask], "masked_scores")
            causal |= {other: masked for other, value in causal.items() if value is node.outputs[0]}
            graph.replace(node.outputs[0], masked)


def _scores(node: ir.Node, mask: ir.Value, seen: Sequence[Array]) -> ir.Value | None:
    """What a node masks, if its mask is causal."""
    if node.op_type == "Mul":
        return None
    if node.op_type == "Add":
        hides: list[Array] = [np.less_equal(values, _FILL) for values in seen]
        if not all(map(_hides_what_follows, hides)):
            return None
        if any(values[np.logical_not(own)].any() for own, values in zip(hides, seen, strict=True)):
            return None
        return next(value for value in node.inputs if value is not mask)
    for kept, fill, hides in (
        (node.inputs[1], node.inputs[2], [np.logical_not(values) for values in seen]),
        (node.inputs[2], node.inputs[1], list(seen)),
    ):
        filled = is_scalar(fill) and float(array(fill).item()) <= _FILL
        if filled and all(map(_hides_what_follows, hides)):
            return kept
    return None


def _hides_what_follows(hides: Array) -> bool:
    """Whether exactly the scores of later tokens are hidden, bool [..., L, L]."""
    if hides.ndim < 2 or hides.shape[-1] != hides.shape[-2] or hides.shape[-1] < 2:
        return False
    rows = np.arange(hides.shape[-1])
    return bool((hides == (rows > rows[:, None])).all())


def derive_segments(graph: Graph, _: Context) -> None:
    """Replace the input `token_type_ids`, where there is one, by a function of `input_ids`."""
    if _SEGMENTS in graph.inputs:
        segments = graph.inputs[_SEGMENTS]
        derived = graph.add("Mod", [graph.inputs["input_ids"], graph.number(2, "two")], _DERIVED)
        derived.name = _DERIVED
        graph.replace(segments, derived)
        graph.model.graph.inputs.remove(segments)


def restore_segments(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Make the derived segments an input again, int32 like the token ids."""
    derived = next((value for node in graph.nodes for value in node.outputs if value.name == _DERIVED), None)
    if derived is not None:
        segments = graph.add_input(_SEGMENTS, ir.DataType.INT32, ["batch", "length"])
        if any(node.op_type != "Gather" or index != 1 for node, index in derived.uses()):
            segments = graph.add("Cast", [segments], "wide_segments", to=int(ir.DataType.INT64))
        graph.replace(derived, segments)
    return {"segments": derived is not None}
