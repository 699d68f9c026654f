"""Compute only the mask's row: move the gather of the mask position back through the graph.

A cloze probe reads the logits of one position. Taking one row of a [B, L, H] tensor commutes with every operator that
treats rows independently: products with a constant matrix, biases, normalisations, activations, residual sums. So the
gather moves from the logits back to the last attention, and through its query: there, only keys and values are computed
for all positions. The vocabulary projection then costs 1 row instead of L, the last layer little more than K and V.

One walk from the outputs to the inputs decides, tensor by tensor, whether all rows are needed, or the mask's row alone.
An operator without a rule needs all rows of its inputs: it stops the hoist there and breaks nothing. Where a tensor is
needed whole for another reason (the last layer's input, by K and V), its row is gathered, not computed again.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, attribute, attributes, is_constant
from ..observe import PROBE, layouts
from .causal_masks import causal_mask

ELEMENTWISE = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Sqrt",
        "Neg",
        "Exp",
        "Erf",
        "Tanh",
        "Sigmoid",
        "Relu",
        "Gelu",
        "FastGelu",
        "QuickGelu",
        "BiasGelu",
        "Cast",
        "Identity",
        "Clip",
        "Where",
        "Max",
        "Min",
        "Reciprocal",
        "Softplus",
    ]
)
NORMALISING = frozenset(
    ["LayerNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"]
)
_ALONG_LAST_AXIS = frozenset({"Softmax", "LogSoftmax", "Split"})


def hoist(graph: Graph, logits: ir.Value, index: ir.Value) -> ir.Value:
    """Gather one row of each sentence as early as possible.

    Args:
        graph: changed in place, in topological order.
        logits: [B, L, ·], of which one row is wanted.
        index: int64 [B, 1], the row of each sentence.

    Returns:
        The row, [B, ·].
    """
    rules = _Rules(graph, index)
    nodes = graph.nodes
    row_wanted, all_wanted = {logits}, set[ir.Value]()
    gathered: set[ir.Value] = set()
    narrowed: set[ir.Node] = set()
    for node in reversed(nodes):
        outputs = [value for value in node.outputs if value in row_wanted]
        if outputs and all_wanted.isdisjoint(node.outputs) and rules.apply_to(node):
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


class _Rules:
    """Which operators act row by row, and what they become when they get one row for each sentence."""

    def __init__(self, graph: Graph, index: ir.Value) -> None:
        self.graph, self.index = graph, index
        self.constant = graph.from_constants()
        self.layouts = layouts(graph)

    def _shape(self, value: ir.Value) -> tuple[int, ...]:
        return self.layouts[value].shape if value in self.layouts else ()

    def _is_rows(self, value: ir.Value | None) -> bool:
        """True for a value [B, L, ·] that is not a constant."""
        if value is None or value in self.constant:
            return False
        shape = self._shape(value)
        return len(shape) == 3 and shape[:2] == PROBE

    def _is_shared(self, value: ir.Value | None) -> bool:
        """True for a constant that is the same for every row: it has no extent but along the last axis."""
        return value is None or (value in self.constant and all(size == 1 for size in self._shape(value)[:-1]))

    def apply_to(self, node: ir.Node) -> bool:
        """Whether there is a rule for the node as it stands."""
        kind, inputs = node.op_type, node.inputs
        if kind == "MatMul":
            left, right = inputs
            return self._is_rows(left) and right in self.constant and right is not None and len(self._shape(right)) == 2
        if kind in ELEMENTWISE or kind in NORMALISING:
            whole_rows = kind in ELEMENTWISE or attribute(node, "axis", -1) in {-1, 2}
            return whole_rows and all(self._is_rows(value) or self._is_shared(value) for value in inputs)
        if kind == "ReduceMean":
            return self._is_rows(inputs[0]) and bool(attribute(node, "keepdims", 1)) and _axes(node) in ([-1], [2])
        if kind in _ALONG_LAST_AXIS:
            default = 0 if kind == "Split" else -1
            return self._is_rows(inputs[0]) and attribute(node, "axis", default) in {-1, 2}
        if kind == "MultiHeadAttention":
            return all(self._is_rows(value) for value in inputs[:3]) and not any(inputs[4:])
        return False

    def row_inputs(self, node: ir.Node) -> Sequence[ir.Value]:
        """Inputs of which one row is enough."""
        rows = [value for value in node.inputs if value is not None and self._is_rows(value)]
        return rows[:1] if node.op_type in {"MultiHeadAttention", "MatMul"} else rows

    def whole_inputs(self, node: ir.Node) -> Sequence[ir.Value]:
        """Inputs that are needed whole."""
        rows = self.row_inputs(node)
        return [value for value in node.inputs if value is not None and value not in rows]

    def emit(self, node: ir.Node, rows: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
        """Add the node for one row; returns the one-row value for each of its outputs."""
        if node.op_type == "MultiHeadAttention":
            return {node.outputs[0]: self._attend(node, rows)}
        inputs = [value and (rows.get(value) or self._flat(value)) for value in node.inputs]
        last: dict[str, Any] = {"axis": -1, "axes": [-1]}
        changed = attributes(node) | {name: value for name, value in last.items() if name in node.attributes}
        stems = ["at_mask" if value.name else "" for value in node.outputs]
        outputs = self.graph.add_node(node.op_type, inputs, stems, domain=node.domain, **changed)
        return dict(zip(node.outputs, outputs, strict=True))

    def _flat(self, constant: ir.Value) -> ir.Value:
        """A shared constant [1, 1, H] would bring back the third axis: give it as [H]."""
        if len(self._shape(constant)) < 3:
            return constant
        if is_constant(constant):
            return self.graph.constant(array(constant).reshape(-1), "flat")
        return self.graph.add("Reshape", [constant, self._numbers(-1)], "flat")

    def _attend(self, node: ir.Node, rows: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """The same attention for one row's query alone: it has length 1."""
        graph, axis = self.graph, self._numbers(1)
        query = graph.add("Unsqueeze", [rows[self.row_inputs(node)[0]], axis], "query")
        inputs, changed = [query, *node.inputs[1:]], attributes(node)
        if changed.pop("unidirectional", 0):
            inputs = [*inputs, *[None] * (5 - len(inputs)), self._seen_by_row]
        context = graph.add("MultiHeadAttention", inputs, "context", domain=node.domain, **changed)
        return graph.add("Squeeze", [context, axis], "context")

    @cached_property
    def _seen_by_row(self) -> ir.Value:
        """The causal mask of each sentence's row, [B, 1, 1, L]: the row of the mask for all tokens."""
        graph = self.graph
        table = graph.add("Squeeze", [causal_mask(graph), self._numbers(0, 1)], "causal_rows")
        row = graph.add("Gather", [table, self.index], "causal_row")
        return graph.add("Unsqueeze", [row, self._numbers(1)], "seen")

    def _numbers(self, *values: int) -> ir.Value:
        return self.graph.constant(np.array(values, np.int64), "number")


def _axes(node: ir.Node) -> list[int]:
    """The axes of a reduction: an attribute, or an input since operator set 18."""
    if len(node.inputs) > 1:
        return [int(axis) for axis in array(node.inputs[1]).flat] if is_constant(node.inputs[1]) else []
    return list(attribute(node, "axes", ()))
