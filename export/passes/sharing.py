"""Whether sentences that begin alike can share what is computed for their beginning (`share_prefix`).

They can if every operator over tokens treats rows one by one (`rows`), or belongs to a position, or is a causal
attention without anything that depends on the tokens' distance. Operators behind the mask's row are free: there is one
row for each sentence.

Demands a finished fp32 graph. The graphs that are made of it (convolutions, int8) treat rows as it does.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from ..graph import Graph, attribute, is_constant, reads
from ..observe import PROBE, Layout
from .context import Context
from .rows import ELEMENTWISE, RowRules

SHARES_PREFIXES = "shares_prefixes"


def find_sharing(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module; the graph is not changed."""
    return {SHARES_PREFIXES: _can_share(graph)}


def position_rows(node: ir.Node, known: Mapping[ir.Value, Layout]) -> int | None:
    """The number of the input of a node that has a row for each position, [1, L, H], beside rows of tokens."""
    if node.op_type not in ELEMENTWISE or len(node.inputs) != 2:
        return None
    shapes = [known[value].shape if value is not None and value in known else () for value in node.inputs]
    for number, (shape, other) in enumerate(zip(shapes, shapes[::-1], strict=True)):
        if len(shape) == len(other) == 3 and shape[:2] == (1, PROBE[1]) and other[:2] == PROBE:
            return number
    return None


def _can_share(graph: Graph) -> bool:
    rules, ids = RowRules(graph), graph.inputs["input_ids"]
    of_tokens = {ids}
    for node in graph.nodes:
        if of_tokens.isdisjoint(reads(node)) or _is_length(node, ids) or takes_row(node):
            continue
        attends = node.op_type == "MultiHeadAttention"
        if attends and node.inputs[0] not in of_tokens:  # the mask's row, which sees the rows before it
            continue
        is_causal = attends and attribute(node, "unidirectional", 0) and rules.acts_by_row(node)
        by_row = not attends and rules.acts_by_row(node)
        if not (is_causal or by_row or _embeds(node, ids) or _adds_positions(node, rules.layouts, of_tokens)):
            return False
        of_tokens.update(node.outputs)
    return True


def _is_length(node: ir.Node, ids: ir.Value) -> bool:
    bounds = (attribute(node, "start"), attribute(node, "end"))
    return node.op_type == "Shape" and node.inputs[0] is ids and bounds == (1, 2)


def takes_row(node: ir.Node) -> bool:
    """Whether a node gathers one row of each sentence, as `hoist` does."""
    return node.op_type == "GatherND" and attribute(node, "batch_dims", 0) == 1


def _embeds(node: ir.Node, ids: ir.Value) -> bool:
    is_lookup = node.op_type == "Gather" and attribute(node, "axis", 0) == 0
    return is_lookup and is_constant(node.inputs[0]) and node.inputs[1] is ids


def _adds_positions(node: ir.Node, known: Mapping[ir.Value, Layout], of_tokens: set[ir.Value]) -> bool:
    number = position_rows(node, known)
    return number is not None and node.inputs[number] not in of_tokens
