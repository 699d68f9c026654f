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

from ..graph import Graph, array, attributes, is_constant
from .causal_masks import causal_mask
from .rows import RESHAPING, RowRules


def hoist(graph: Graph, logits: ir.Value, index: ir.Value) -> ir.Value:
    """Gather one row of each sentence as early as possible.

    Args:
        graph: changed in place, in topological order.
        logits: [B, L, ·], of which one row is wanted.
        index: int64 [B, 1], the row of each sentence.

    Returns:
        The row, [B, ·].
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
        """Inputs that are needed whole."""
        rows = self.row_inputs(node)
        return [value for value in node.inputs if value is not None and value not in rows]

    def emit(self, node: ir.Node, rows: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
        """Add the node for one row; returns the one-row value for each of its outputs."""
        if node.op_type == "MultiHeadAttention":
            return {node.outputs[0]: self._attend(node, rows)}
        if node.op_type == "RotaryEmbedding":
            return {node.outputs[0]: self._rotate(node, rows)}
        inputs = [value and (rows.get(value) or self._flat(value)) for value in node.inputs]
        if node.op_type in RESHAPING:  # without the axis of tokens
            inputs[1] = self._numbers(*array(node.inputs[1]).tolist()[1:])
        if node.op_type == "Slice":
            inputs[3] = self._numbers(-1)
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
        inputs, changed = [self._as_sentence(node, rows), *node.inputs[1:]], attributes(node)
        if changed.pop("unidirectional", 0):
            inputs = [*inputs, *[None] * (5 - len(inputs)), self._seen_by_row]
        context = graph.add("MultiHeadAttention", inputs, "context", domain=node.domain, **changed)
        return graph.add("Squeeze", [context, axis], "context")

    def _rotate(self, node: ir.Node, rows: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """The rotation of one row, by its own position."""
        inputs = [self._as_sentence(node, rows), self.index, *node.inputs[2:]]
        rotated = self.graph.add("RotaryEmbedding", inputs, "rotated", domain=node.domain, **attributes(node))
        return self.graph.add("Squeeze", [rotated, self._numbers(1)], "rotated")

    def _as_sentence(self, node: ir.Node, rows: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """The row of a node's first input as a sentence of one token, [B, 1, ·]."""
        return self.graph.add("Unsqueeze", [rows[self.row_inputs(node)[0]], self._numbers(1)], "one_token")

    @cached_property
    def _seen_by_row(self) -> ir.Value:
        """The causal mask of each sentence's row, [B, 1, 1, L]: the row of the mask for all tokens."""
        graph = self.graph
        table = graph.add("Squeeze", [causal_mask(graph), self._numbers(0, 1)], "causal_rows")
        row = graph.add("Gather", [table, self.index], "causal_row")
        return graph.add("Unsqueeze", [row, self._numbers(1)], "seen")

    def _numbers(self, *values: int) -> ir.Value:
        return self.graph.constant(np.array(values, np.int64), "number")
