"""Compute what sentences have in common once: the first tokens of all sentences of a batch.

In a causal model, keys and values of a token depend on that token and those before it. All verbs of one [NAME, PROF]
pair share the first half of their sentences, so its rows are computed once for the whole batch:

    prefix_ids   int32 [1, P]    the tokens that all sentences begin with
    suffix_ids   int32 [B, S]    what follows in each of them

All rows lie in one line, P + B × S of them, and every operator that treats rows one by one runs over that line. Only
the attention takes it apart: prefix rows attend to each other, suffix rows to the prefix and to their own sentence.
`mask_position` counts in whole sentences, as before.

Demands a finished graph whose attentions are all fused.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, attribute, attributes, is_constant
from .causal_masks import causal_mask
from .context import Context

_DOMAIN = "com.microsoft"


def share_prefix(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    nodes = graph.nodes
    ids = graph.inputs["input_ids"]
    lines = _Lines(graph)
    for node in nodes:
        if node.op_type == "Shape" and node.inputs[0] is ids:
            graph.replace(node.outputs[0], lines.length)
        elif (
            node.op_type == "Slice" and is_constant(node.inputs[0]) and node.outputs[0].name.startswith("position_rows")
        ):
            graph.replace(node.outputs[0], lines.repeated(node))
        elif node.op_type == "GatherND":
            graph.replace(node.outputs[0], lines.rows(node.inputs[0]))
        elif node.op_type == "MultiHeadAttention":
            graph.replace(node.outputs[0], lines.attention(node))
    graph.replace(ids, lines.ids)
    graph.model.graph.inputs.remove(ids)
    graph.prune()
    return {}


class _Lines:
    """Sentences with a common prefix as one line of rows."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        prefix = graph.add_input("prefix_ids", ir.DataType.INT32, [1, "prefix"])
        suffix = graph.add_input("suffix_ids", ir.DataType.INT32, ["batch", "suffix"])
        self.zero, self.one = self.number(0), self.number(1)
        self.first = graph.add("Shape", [prefix], "prefix_length", start=1, end=2)
        self.batch = graph.add("Shape", [suffix], "batch", start=0, end=1)
        self.rest = graph.add("Shape", [suffix], "suffix_length", start=1, end=2)
        self.length = graph.add("Add", [self.first, self.rest], "length")
        line = graph.add("Reshape", [suffix, self.number(1, -1)], "suffix_line")
        self.ids = graph.add("Concat", [prefix, line], "line", axis=1)
        self.end = self.number(np.iinfo(np.int64).max)
        self.apart = graph.add("Concat", [self.batch, self.rest, self.number(-1)], "apart", axis=0)
        self.together = self.number(1, -1)
        self.index = self._index()
        self._mask: ir.Value | None = None

    def number(self, *values: int) -> ir.Value:
        return self.graph.constant(np.array(values, np.int64), "number")

    def _index(self) -> ir.Value:
        """The row of each sentence's mask in the line, int64 [B]."""
        graph = self.graph
        wide = graph.add("Cast", [graph.inputs["mask_position"]], "position", to=int(ir.DataType.INT64))
        scalar = graph.constant(np.array(0, np.int64), "scalar")
        count = graph.add("Squeeze", [self.batch, self.zero], "count")
        order = graph.add("Range", [scalar, count, graph.constant(np.array(1, np.int64), "scalar")], "order")
        return graph.add("Add", [wide, graph.add("Mul", [order, self.rest], "starts")], "line_index")

    def part(self, value: ir.Value, *, of_prefix: bool) -> ir.Value:
        """The rows of the prefix, [1, P, H], or of the suffixes, [B, S, H]."""
        bounds = [self.zero, self.first] if of_prefix else [self.first, self.end]
        rows = self.graph.add("Slice", [value, *bounds, self.one], "part")
        return rows if of_prefix else self.graph.add("Reshape", [rows, self.apart], "apart")

    def joined(self, prefix: ir.Value, suffix: ir.Value) -> ir.Value:
        """Rows [1, P, H] and [B, S, H] as one line."""
        graph = self.graph
        width = graph.add("Shape", [prefix], "width", start=2, end=3)
        target = graph.add("Concat", [self.together, width], "line", axis=0)
        return graph.add("Concat", [prefix, graph.add("Reshape", [suffix, target], "line")], "line", axis=1)

    def repeated(self, node: ir.Node) -> ir.Value:
        """The rows of positions that a Slice takes of their table, [1, P + S, H], for the line."""
        graph = self.graph
        positions = graph.add("Slice", node.inputs, "whole_positions")
        head = graph.add("Slice", [positions, self.zero, self.first, self.one], "head")
        tail = graph.add("Slice", [positions, self.first, self.end, self.one], "tail")
        times = graph.add("Concat", [self.one, self.batch, self.one], "times", axis=0)
        return graph.add("Concat", [head, graph.add("Tile", [tail, times], "tails")], "line", axis=1)

    def rows(self, value: ir.Value) -> ir.Value:
        """One row of each sentence, [B, H]."""
        flat = self.graph.add("Squeeze", [value, self.zero], "flat")
        return self.graph.add("Gather", [flat, self.index], "row")

    def whole(self, value: ir.Value) -> ir.Value:
        """Keys or values of whole sentences, [B, P + S, H]."""
        graph = self.graph
        prefix = self.part(value, of_prefix=True)
        shape = graph.add("Concat", [self.batch, self.one, self.one], "shape", axis=0)
        copies = graph.add("Expand", [prefix, shape], "copies")
        return graph.add("Concat", [copies, self.part(value, of_prefix=False)], "whole", axis=1)

    @property
    def mask(self) -> ir.Value:
        """The causal mask of the suffix rows, [1, 1, S, P + S]."""
        if self._mask is None:
            full = causal_mask(self.graph, self.length)
            self._mask = self.graph.add("Slice", [full, self.first, self.end, self.number(2)], "suffix_mask")
        return self._mask

    def attention(self, node: ir.Node) -> ir.Value:
        """The attention over the line, or of one row of each sentence."""
        graph = self.graph
        query, key, value, *further = node.inputs
        bias = further[0] if further else None
        plain = {name: item for name, item in attributes(node).items() if name != "unidirectional"}
        keys, values = self.whole(key), self.whole(value)
        if not attribute(node, "unidirectional", 0):  # the mask's row
            return graph.add("MultiHeadAttention", [query, keys, values, *further], "context", domain=_DOMAIN, **plain)
        own = [self.part(rows, of_prefix=True) for rows in (query, key, value)]
        prefix = graph.add(
            "MultiHeadAttention", [*own, *([bias] if bias else [])], "context", domain=_DOMAIN, **attributes(node)
        )
        inputs = [self.part(query, of_prefix=False), keys, values, bias, None, self.mask]
        suffix = graph.add("MultiHeadAttention", inputs, "context", domain=_DOMAIN, **plain)
        return self.joined(prefix, suffix)
