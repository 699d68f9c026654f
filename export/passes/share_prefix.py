"""Sentences that begin alike share what is computed for their beginning, where a finished fp32 graph allows it.

It does if every operator over tokens treats rows one by one (`RowRules`), belongs to a position, or is a causal
attention without anything that depends on the tokens' distance.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from ...engine.inference.exported import HIDDEN
from ...engine.inference.trees import BIAS, POSITIONS
from ..graph import Graph, attribute, attributes, given, is_constant, reads
from ..observe import PROBE, Layout, layouts
from .context import Context
from .hoist import ELEMENTWISE, RowRules, takes_row
from .masks import causal_mask
from .outputs import drop_hidden

SHARES_PREFIXES = "shares_prefixes"


def find_sharing(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Tell whether the graph, which stays as it is, allows sharing."""
    rules, ids = RowRules(graph), graph.inputs["input_ids"]
    of_tokens = {ids}
    for node in graph.nodes:
        is_length = node.op_type == "Shape" and node.inputs[0] is ids
        is_length = is_length and (attribute(node, "start"), attribute(node, "end")) == (1, 2)
        if of_tokens.isdisjoint(reads(node)) or is_length or takes_row(node):
            continue
        attends = node.op_type == "MultiHeadAttention"
        if attends and node.inputs[0] not in of_tokens:  # the mask's row, which sees the rows before it
            continue
        is_lookup = node.op_type == "Gather" and attribute(node, "axis", 0) == 0 and node.inputs[1] is ids
        embeds = is_lookup and is_constant(node.inputs[0])
        number = position_rows(node, rules.layouts)
        adds_positions = number is not None and node.inputs[number] not in of_tokens
        treats_rows = rules.acts_by_row(node) and (not attends or attribute(node, "unidirectional", 0))
        if not (treats_rows or embeds or adds_positions):
            return {SHARES_PREFIXES: False}
        of_tokens.update(node.outputs)
    return {SHARES_PREFIXES: True}


def position_rows(node: ir.Node, known: Mapping[ir.Value, Layout]) -> int | None:
    """The number of the input of a node that has a row for each position, [1, L, H], beside rows of tokens."""
    if node.op_type not in ELEMENTWISE or len(node.inputs) != 2:
        return None
    shapes = [known[value].shape if value is not None and value in known else () for value in node.inputs]
    for number, (shape, other) in enumerate(zip(shapes, shapes[::-1], strict=True)):
        if len(shape) == len(other) == 3 and shape[:2] == (1, PROBE[1]) and other[:2] == PROBE:
            return number
    return None


_KINDS = {"MultiHeadAttention": ("unidirectional", 5), "Attention": ("is_causal", 3)}  # attribute, input of the mask


def share_prefix(graph: Graph, context: Context) -> None:
    """Compute what sentences have in common once: the first tokens of all sentences of a batch.

        prefix_ids   int32 [1, P]    the tokens that all sentences begin with
        suffix_ids   int32 [B, S]    what follows in each of them

    All rows lie in one line, P + B × S of them, over which every operator that treats rows one by one runs. Only the
    attention takes it apart: prefix rows attend to each other, suffix rows to the prefix and to their own sentence.
    `mask_position` and all positions count in whole sentences. Demands a finished graph that `find_sharing` allows.
    """
    if HIDDEN in graph.outputs:
        drop_hidden(graph, context)
    nodes, ids = graph.nodes, graph.inputs["input_ids"]
    lines = _Lines(graph, layouts(graph))
    for node in nodes:
        if (number := position_rows(node, lines.known)) is not None:
            node.replace_input_with(number, lines.repeated(given(node.inputs[number])))
        if node.op_type == "Shape" and node.inputs[0] is ids:
            graph.replace(node.outputs[0], lines.length)
        elif node.op_type == "RotaryEmbedding" and len(lines.known[given(node.inputs[1])].shape) == 1:
            graph.replace(node.outputs[0], lines.rotated(node))
        elif takes_row(node):
            flat = graph.add("Squeeze", [given(node.inputs[0]), lines.zero], "flat")
            graph.replace(node.outputs[0], graph.add("Gather", [flat, lines.index], "row"))
        elif node.op_type in _KINDS:
            graph.replace(node.outputs[0], lines.attention(node))
    graph.replace(ids, lines.ids)
    graph.model.graph.inputs.remove(ids)


def share_beginnings(graph: Graph, _: Context) -> None:
    """Read a tree of texts: a token sees the tokens that it continues, whatever stands between them in the line.

        input_ids        int32 [B, L]          the tokens of a tree, a text's behind what it shares with the one before
        position_ids     int32 [B, L]          how many tokens a token continues
        attention_bias   float32 [B, 1, L, L]  0 for each pair of a token and one that it continues, or itself

    The only output is `hidden`. Demands a finished graph that `find_sharing` allows.
    """
    hidden = graph.outputs[HIDDEN]
    graph.model.graph.outputs[:] = [hidden]
    graph.prune()
    known = layouts(graph)
    for name in ("mask_position", "expected_id"):
        graph.model.graph.inputs.remove(graph.inputs[name])
    ids = graph.add_input(POSITIONS, ir.DataType.INT32, ["batch", "length"])
    bias = graph.add_input(BIAS, ir.DataType.FLOAT, ["batch", 1, "length", "length"])
    position, first = graph.add("Cast", [ids], "positions", to=int(ir.DataType.INT64)), graph.numbers(0)
    for node in graph.nodes:
        if (number := position_rows(node, known)) is not None:
            rows = graph.add("Squeeze", [given(node.inputs[number]), first], "table")
            node.replace_input_with(number, graph.add("Gather", [rows, position], "position_rows"))
        elif node.op_type == "RotaryEmbedding" and len(known[given(node.inputs[1])].shape) == 1:
            node.replace_input_with(1, position)
        elif node.op_type in _KINDS:
            causal, place = _KINDS[node.op_type]
            plain = {name: item for name, item in attributes(node).items() if name != causal}
            inputs = [*node.inputs, *[None] * (place - len(node.inputs)), bias]
            graph.replace(node.outputs[0], graph.add(node.op_type, inputs, "context", domain=node.domain, **plain))


class _Lines:
    """Sentences with a common prefix as one line of rows."""

    def __init__(self, graph: Graph, known: dict[ir.Value, Layout]) -> None:
        self.graph, self.known = graph, known
        prefix = graph.add_input("prefix_ids", ir.DataType.INT32, [1, "prefix"])
        suffix = graph.add_input("suffix_ids", ir.DataType.INT32, ["batch", "suffix"])
        self.zero, self.one = graph.numbers(0), graph.numbers(1)
        self.first = graph.add("Shape", [prefix], "prefix_length", start=1, end=2)
        self.batch = graph.add("Shape", [suffix], "batch", start=0, end=1)
        self.rest = graph.add("Shape", [suffix], "suffix_length", start=1, end=2)
        self.length = graph.add("Add", [self.first, self.rest], "length")
        line = graph.add("Reshape", [suffix, self.graph.numbers(1, -1)], "suffix_line")
        self.ids = graph.add("Concat", [prefix, line], "line", axis=1)
        self.end = self.graph.numbers(np.iinfo(np.int64).max)
        # The row of each sentence's mask in the line, int64 [B].
        wide = graph.add("Cast", [graph.inputs["mask_position"]], "position", to=int(ir.DataType.INT64))
        count = graph.add("Squeeze", [self.batch, self.zero], "count")
        order = graph.add("Range", [graph.number(0, "scalar"), count, graph.number(1, "scalar")], "order")
        self.index = graph.add("Add", [wide, graph.add("Mul", [order, self.rest], "starts")], "line_index")
        self._repeated: dict[ir.Value, ir.Value] = {}

    def part(self, value: ir.Value, *, of_prefix: bool) -> ir.Value:
        """The rows of the prefix, [1, P, H], or of the suffixes, [B, S, H]."""
        # ONNX Runtime takes the width of an attention's result from the shape of its values. A Slice by computed bounds
        # hides it, so the Reshape behind it says it.
        bounds = [self.zero, self.first] if of_prefix else [self.first, self.end]
        rows, width = self.graph.add("Slice", [value, *bounds, self.one], "part"), self.known[value].shape[-1]
        if of_prefix:
            return self.graph.add("Reshape", [rows, self.graph.numbers(0, 0, width)], "prefix")
        target = self.graph.add("Concat", [self.batch, self.rest, self.graph.numbers(width)], "apart", axis=0)
        return self.graph.add("Reshape", [rows, target], "suffix")

    def joined(self, prefix: ir.Value, suffix: ir.Value, width: int) -> ir.Value:
        """Rows [1, P, width] and [B, S, width] as one line."""
        line = self.graph.add("Reshape", [suffix, self.graph.numbers(1, -1, width)], "line")
        return self.graph.add("Concat", [prefix, line], "line", axis=1)

    def repeated(self, positions: ir.Value) -> ir.Value:
        """Rows that belong to positions, [1, P + S, H], for the line."""
        if positions not in self._repeated:
            self._repeated[positions] = self._along_line(positions, self.known[positions].shape[-1])
        return self._repeated[positions]

    @cached_property
    def positions(self) -> ir.Value:
        """The position of each row of the line in its sentence, int64 [P + B × S, 1]."""
        graph = self.graph
        start, step = graph.number(0, "scalar"), graph.number(1, "scalar")
        count = graph.add("Squeeze", [self.length, self.zero], "count")
        numbers = graph.add("Range", [start, count, step], "positions")
        column = graph.add("Reshape", [numbers, self.graph.numbers(1, -1, 1)], "positions")
        return graph.add("Reshape", [self._along_line(column, 1), self.graph.numbers(-1, 1)], "positions")

    def rotated(self, node: ir.Node) -> ir.Value:
        """The rotation of each row of the line by its own position."""
        # The operator takes no more tokens in a sentence than its tables have positions, so each row is a sentence.
        rows, _, *tables = node.inputs
        result, width = node.outputs[0], self.known[node.outputs[0]].shape[-1]
        apart = self.graph.add("Reshape", [rows, self.graph.numbers(-1, 1, width)], "apart")
        inputs, own = [apart, self.positions, *tables], attributes(node)
        turned = self.graph.add(node.op_type, inputs, "rotated", domain=node.domain, **own)
        line = self.graph.add("Reshape", [turned, self.graph.numbers(1, -1, width)], "line")
        self.known[line] = self.known[result]
        return line

    def _along_line(self, whole: ir.Value, width: int) -> ir.Value:
        """What belongs to the positions of whole sentences, [1, P + S, width], for the line."""
        graph = self.graph
        head = graph.add("Slice", [whole, self.zero, self.first, self.one], "head")
        tail = graph.add("Slice", [whole, self.first, self.end, self.one], "tail")
        times = graph.add("Concat", [self.one, self.batch, self.one], "times", axis=0)
        return self.joined(head, graph.add("Tile", [tail, times], "tails"), width)

    def whole(self, value: ir.Value) -> ir.Value:
        """Keys or values of whole sentences, [B, P + S, H]."""
        graph = self.graph
        prefix = self.part(value, of_prefix=True)
        shape = graph.add("Concat", [self.batch, self.one, self.one], "shape", axis=0)
        copies = graph.add("Tile", [prefix, shape], "copies")
        both = graph.add("Concat", [copies, self.part(value, of_prefix=False)], "both", axis=1)
        return graph.add("Reshape", [both, self.graph.numbers(0, 0, self.known[value].shape[-1])], "whole")

    @cached_property
    def mask(self) -> ir.Value:
        """The causal mask of the suffix rows, [1, 1, S, P + S]."""
        full = causal_mask(self.graph, self.length)
        return self.graph.add("Slice", [full, self.first, self.end, self.graph.numbers(2)], "suffix_mask")

    def attention(self, node: ir.Node) -> ir.Value:
        (query, key, value), further = map(given, node.inputs[:3]), list(node.inputs[3:])
        causal, position_of_mask = _KINDS[node.op_type]
        plain = {name: item for name, item in attributes(node).items() if name != causal}
        keys, values = self.whole(key), self.whole(value)
        if not attribute(node, causal, 0):  # the mask's row
            return self._attend(node, [query, keys, values, *further], plain)
        own = [self.part(rows, of_prefix=True) for rows in (query, key, value)]
        prefix = self._attend(node, [*own, *further], attributes(node))
        inputs = [self.part(query, of_prefix=False), keys, values, *further]
        inputs += [None] * (position_of_mask - len(inputs))
        width = self.known[node.outputs[0]].shape[-1]
        return self.joined(prefix, self._attend(node, [*inputs, self.mask], plain), width)

    def _attend(self, node: ir.Node, inputs: Sequence[ir.Value | None], own: Mapping[str, Any]) -> ir.Value:
        return self.graph.add(node.op_type, inputs, "context", domain=node.domain, **own)
