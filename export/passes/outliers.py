"""Split off the outlier channels of feed-forward blocks, before int8.

What makes 8 bits coarse is a handful of channels that are many times larger than the rest: one scale for the whole
tensor then leaves few steps for all others. Which ones they are is the same in all sentences, and known from a few.
Behind a feed-forward activation they are split off, which costs nothing, as the block is a sum over its inner channels:

    gelu(x A + a) B  =  gelu(x A₁ + a₁) B₁ + gelu(x A₂ + a₂) B₂

The few outliers (A₂, B₂) stay in fp32, the rest goes to int8 with a scale that fits it (the mixed decomposition of
Dettmers et al. 2022, LLM.int8(), with the channels fixed beforehand).

Demands a finished graph and the context's peaks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ..graph import Graph, array, attributes, dims, is_constant
from .context import Context
from .products import OUTLIERS, becomes_int8, mask_row_values

_ACTIVATIONS = frozenset({"BiasGelu", "Gelu", "FastGelu", "Relu"})


@dataclass(frozen=True)
class _FeedForward:
    """A feed-forward block: first product, the steps from there (bias, activation), their result, second product."""

    first: ir.Node
    steps: tuple[ir.Node, ...]
    active: ir.Value
    second: ir.Node


def split_outliers(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    rows = mask_row_values(graph)
    found = [_block_before(node) for node in graph.nodes if becomes_int8(node, rows)]
    for block in found:
        if block is not None:
            _split(graph, block, context.peaks_of(block.active))
    graph.prune()
    return {}


def _block_before(second: ir.Node) -> _FeedForward | None:
    """Walk back from a product over one activation and biases to another product."""
    steps: list[ir.Node] = []
    value = second.inputs[0]
    while value is not None and (node := value.producer()) is not None and len(value.consumers()) == 1:
        if node.op_type == "MatMul" and is_constant(node.inputs[1]):
            active = sum(step.op_type in _ACTIVATIONS for step in steps)
            return _FeedForward(node, tuple(reversed(steps)), steps[0].outputs[0], second) if active == 1 else None
        inner = [one for one in node.inputs if not is_constant(one)]
        if node.op_type not in _ACTIVATIONS | {"Add"} or len(inner) != 1:
            return None
        steps.append(node)
        value = inner[0]
    return None


def _split(graph: Graph, block: _FeedForward, peaks: NDArray[np.float32]) -> None:
    order = np.argsort(peaks, kind="stable")
    rest, outliers = np.sort(order[:-OUTLIERS]), np.sort(order[-OUTLIERS:])
    if len(rest) == 0:
        return
    halves = [_part(graph, block, channels, stem) for channels, stem in ((rest, "rest"), (outliers, "outliers"))]
    graph.replace(block.second.outputs[0], graph.add("Add", halves, "feed_forward"))


def _part(graph: Graph, block: _FeedForward, channels: NDArray[np.int64], stem: str) -> ir.Value:
    """The block with some of its inner channels alone."""

    def part(constant: ir.Value, axis: int) -> ir.Value:
        shape = list(dims(constant))
        shape[axis] = len(channels)
        return graph.later(lambda: array(constant).take(channels, axis), constant, shape, f"{stem}_weight")

    value = graph.add("MatMul", [block.first.inputs[0], part(_weight(block.first), 1)], f"{stem}_inner")
    for step in block.steps:
        inputs = [part(one, -1) if one is not None and is_constant(one) else value for one in step.inputs]
        value = graph.add(step.op_type, inputs, f"{stem}_active", domain=step.domain, **attributes(step))
    return graph.add("MatMul", [value, part(_weight(block.second), 0)], f"{stem}_outer")


def _weight(product: ir.Node) -> ir.Value:
    weight = product.inputs[1]
    if weight is None:
        raise ValueError(f"{product.name} has no second input")
    return weight
