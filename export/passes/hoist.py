"""Compute only the mask's row: move the gather of the mask position from the logits back through the graph.

Taking one row of [B, L, H] commutes with every operator that treats rows independently. An operator without a rule
needs all rows of its inputs: it stops the hoist there and breaks nothing. So the vocabulary projection costs 1 row
instead of L, the last layer little more than K and V.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, attribute, attributes, is_constant, numbers_in
from ..observe import PROBE, layouts
from .masks import causal_mask

ELEMENTWISE = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Neg", "Reciprocal", "Max", "Min", "Clip", "Where"),
        *("Exp", "Erf", "Tanh", "Sigmoid", "Relu", "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "Softplus"),
        *("Cast", "Identity"),
    }
)
NORMALISING = frozenset(
    {"LayerNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
)
RESHAPING = frozenset({"Reshape", "Expand"})  # whose second input has a number for each axis
_ALONG_LAST_AXIS = frozenset({"Softmax", "LogSoftmax", "Split"})


class RowRules:
    """Which operators of a graph act row by row."""

    def __init__(self, graph: Graph) -> None:
        self.constant = graph.from_constants()
        self.layouts = layouts(graph)
        self._divided: set[ir.Value] = set()  # rows with more axes than one
        for node in graph.nodes:
            if self.acts_by_row(node):
                self._divided.update(value for value in node.outputs if self._has_tokens(value, 4))

    def _shape(self, value: ir.Value) -> tuple[int, ...]:
        return self.layouts[value].shape if value in self.layouts else ()

    def _has_tokens(self, value: ir.Value, fewest_axes: int) -> bool:
        shape = self._shape(value)
        return len(shape) >= fewest_axes and shape[:2] == PROBE

    def is_rows(self, value: ir.Value | None) -> bool:
        """Whether a value has a row for each token, and is not a constant."""
        if value is None or value in self.constant or not self._has_tokens(value, 3):
            return False
        return len(self._shape(value)) == 3 or value in self._divided

    def acts_by_row(self, node: ir.Node) -> bool:
        kind, inputs = node.op_type, node.inputs
        if not inputs:
            return False
        first = inputs[0]
        last = {-1, len(self._shape(first)) - 1} if first is not None else {-1}
        if kind == "MatMul":
            right = inputs[1]
            return self.is_rows(first) and right in self.constant and right is not None and len(self._shape(right)) == 2
        if kind in ELEMENTWISE or kind in NORMALISING:
            axes = {len(self._shape(value)) for value in inputs if value is not None and self.is_rows(value)}
            along_rows = kind in ELEMENTWISE or attribute(node, "axis", -1) in last
            shared = (one for one in inputs if not self.is_rows(one))  # has no extent but along the last axis
            is_shared = all(
                one is None or (one in self.constant and set(self._shape(one)[:-1]) <= {1}) for one in shared
            )
            return along_rows and len(axes) == 1 and is_shared
        if kind == "ReduceMean":  # its axes are an attribute, or an input since operator set 18
            reduced = inputs[1] if len(inputs) > 1 else attribute(node, "axes", ())
            return self.is_rows(first) and bool(attribute(node, "keepdims", 1)) and _are_last(reduced, last)
        if kind in _ALONG_LAST_AXIS:
            default = 0 if kind == "Split" else -1
            return self.is_rows(first) and attribute(node, "axis", default) in last
        if kind == "Slice":
            bounds = inputs[1:]
            is_known = len(bounds) > 2 and all(map(is_constant, bounds))
            return self.is_rows(first) and is_known and _are_last(bounds[2], last)
        if kind in RESHAPING:  # the axes of sentences and tokens stay as they are
            sizes, kept = numbers_in(inputs[1]), 0 if kind == "Reshape" else 1
            if sizes is None or not self.is_rows(first) or not self._has_tokens(node.outputs[0], 3):
                return False
            return len(sizes) == len(self._shape(node.outputs[0])) and sizes[:2] == [kept, kept]
        if kind == "RotaryEmbedding":  # positions count from 0
            return self.is_rows(first) and len(self._shape(node.outputs[0])) == 3 and numbers_in(inputs[1]) == [0]
        if kind == "MultiHeadAttention":
            return all(self.is_rows(value) for value in inputs[:3]) and not any(inputs[4:])
        return False


def _are_last(axes: ir.Value | Sequence[int] | None, last: set[int]) -> bool:
    """Whether axes, known or in a constant, are the last one alone."""
    axes = np.atleast_1d(numbers_in(axes) or []).tolist() if isinstance(axes, ir.Value) else axes
    return axes is not None and len(axes) == 1 and axes[0] in last


def hoist(graph: Graph, logits: ir.Value, index: ir.Value) -> ir.Value:
    """Gather one row of each sentence of logits [B, L, ·] as early as possible; returns the rows, [B, ·].

    The index of the rows is int64 [B, 1]. Demands a graph in topological order.
    """
    rules = _OneRow(graph, index)
    nodes = graph.nodes
    row_wanted, all_wanted = {logits}, set[ir.Value]()
    gathered: set[ir.Value] = set()
    narrowed: set[ir.Node] = set()
    for node in reversed(nodes):
        outputs = [value for value in node.outputs if value in row_wanted]
        if outputs and all_wanted.isdisjoint(node.outputs) and rules.acts_by_row(node):
            narrowed.add(node)
            row_wanted.update(rules.row_inputs(node))
            all_wanted.update(rules.whole_inputs(node))
        elif outputs or not all_wanted.isdisjoint(node.outputs):
            gathered.update(outputs)
            all_wanted.update(value for value in node.inputs if value is not None)

    rows: dict[ir.Value, ir.Value] = {}
    for node in nodes:
        for value in node.outputs:
            if value in gathered:
                rows[value] = graph.add("GatherND", [value, index], "mask_row", batch_dims=1)
        if node in narrowed:
            rows.update(rules.emit(node, rows))
    return rows[logits]


def takes_row(node: ir.Node) -> bool:
    """Whether a node gathers one row of each sentence, as `hoist` does."""
    return node.op_type == "GatherND" and attribute(node, "batch_dims", 0) == 1


class _OneRow(RowRules):
    """What operators that act row by row become when they get one row for each sentence."""

    def __init__(self, graph: Graph, index: ir.Value) -> None:
        super().__init__(graph)
        self.graph, self.index = graph, index

    def row_inputs(self, node: ir.Node) -> Sequence[ir.Value]:
        """Inputs of which one row is enough."""
        rows = [value for value in node.inputs if value is not None and self.is_rows(value)]
        return rows[:1] if node.op_type in {"MultiHeadAttention", "MatMul"} else rows

    def whole_inputs(self, node: ir.Node) -> Sequence[ir.Value]:
        if node.op_type == "MultiHeadAttention":  # whose keys may be its queries
            return [value for value in node.inputs[1:] if value is not None]
        rows = self.row_inputs(node)
        return [value for value in node.inputs if value is not None and value not in rows]

    def emit(self, node: ir.Node, rows: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
        """Add the node for one row; returns the one-row value for each of its outputs."""
        graph = self.graph
        if node.op_type in {"MultiHeadAttention", "RotaryEmbedding"}:  # the row is a sentence of one token, [B, 1, ·]
            own, axis = attributes(node), graph.numbers(1)
            token = graph.add("Unsqueeze", [rows[self.row_inputs(node)[0]], axis], "one_token")
            given = [token, *node.inputs[1:]]
            if node.op_type == "RotaryEmbedding":  # by the row's own position
                given[1] = self.index
            elif own.pop("unidirectional", 0):
                given = [*given, *[None] * (5 - len(given)), self._seen_by_row]
            alone = graph.add(node.op_type, given, "alone", domain=node.domain, **own)
            return {node.outputs[0]: graph.add("Squeeze", [alone, axis], "alone")}
        inputs = [value and (rows.get(value) or self._flat(value)) for value in node.inputs]
        if node.op_type in RESHAPING:  # without the axis of tokens
            inputs[1] = graph.numbers(*array(node.inputs[1]).tolist()[1:])
        if node.op_type == "Slice":
            inputs[3] = graph.numbers(-1)
        if node.op_type == "ReduceMean" and len(inputs) > 1:
            inputs[1] = graph.numbers(-1)
        last: dict[str, Any] = {"axis": -1, "axes": [-1]}
        changed = attributes(node) | {name: value for name, value in last.items() if name in node.attributes}
        stems = ["at_mask" if value.name else "" for value in node.outputs]
        outputs = graph.add_node(node.op_type, inputs, stems, domain=node.domain, **changed)
        return dict(zip(node.outputs, outputs, strict=True))

    def _flat(self, constant: ir.Value) -> ir.Value:
        """A shared constant [1, 1, H] would bring back the third axis: give it as [H]."""
        if len(self._shape(constant)) < 3:
            return constant
        if is_constant(constant):
            return self.graph.constant(array(constant).reshape(-1), "flat")
        return self.graph.add("Reshape", [constant, self.graph.numbers(-1)], "flat")

    @cached_property
    def _seen_by_row(self) -> ir.Value:
        """The causal mask of each sentence's row, [B, 1, 1, L]: the row of the mask for all tokens."""
        graph = self.graph
        table = graph.add("Squeeze", [causal_mask(graph), self.graph.numbers(0, 1)], "causal_rows")
        row = graph.add("Gather", [table, self.index], "causal_row")
        return graph.add("Unsqueeze", [row, self.graph.numbers(1)], "seen")
