"""fp16 for CUDA: all but the decision in half precision, which has 11 bits of mantissa and ends at 65,504.

Operators known to be safe become fp16: products accumulate in fp32, normalisations take their statistics and the fused
attention its softmax in fp32. An operator stays fp32 if

- a value that it reads or writes came within a factor of 8 of the end of the range on the samples, or a weight does,
- it reads a scalar constant that fp16 cannot hold (an epsilon, a mask's fill),
- it follows the vocabulary product: rank, log-sum-exp. The product itself is fp16: in fp32 it would take a fifth of the
  time, as fp32 runs past a GPU's tensor cores.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, captured, is_constant, is_scalar, of_values
from ..observe import layouts
from .context import Context
from .outputs import vocabulary_product

LARGEST = float(np.finfo(np.float16).max)
HEADROOM = 8.0  # between the largest value seen and the end of the range: other sentences will have larger ones

_PRODUCTS = frozenset({"MatMul", "Gemm"})
_SAFE = _PRODUCTS | {
    "MultiHeadAttention",
    "RotaryEmbedding",
    "LayerNormalization",
    "SkipLayerNormalization",
    *("Gelu", "BiasGelu", "FastGelu", "Relu", "Tanh", "Erf", "Sigmoid"),
    *("Add", "Sub", "Mul", "Div", "Neg", "Where"),
    *(
        "Gather",
        "GatherND",
        "Slice",
        "Split",
        "Concat",
        "Reshape",
        "Transpose",
        "Unsqueeze",
        "Squeeze",
        "Expand",
        "Pad",
    ),
}


def halve(graph: Graph, context: Context) -> Mapping[str, Any]:
    """Convert to fp16, and tell why operators stay fp32. Demands a finished graph and the context's peaks."""
    # Of every fp32 value that a node writes, over all sentences; infinite if not finite.
    known = layouts(graph)
    written = (value for node in graph.nodes for value in node.outputs if value.name)
    largest = {value: float(context.peaks_of(value).max(initial=0)) for value in written if known[value].is_float32}
    decision = _decision(graph)
    reasons = {
        node: _too_wide(node, largest)
        for node in graph.nodes
        if node.op_type in _SAFE and node.outputs[0] in largest and node.outputs[0] not in decision
    }
    # A graph inside a node (an If, a Loop) reads values that no Cast can stand before: they keep their type.
    inside = {value for node in graph.nodes for value in captured(node)}
    halved = [node for node, why in reasons.items() if not why and inside.isdisjoint(node.outputs)]
    _convert(graph, halved, set(largest))
    return {
        "fp16": {
            "products": sum(node.op_type in _PRODUCTS | {"MultiHeadAttention"} for node in halved),
            "kept in fp32": [f"{node.op_type} {node.outputs[0].name}: {why}" for node, why in reasons.items() if why],
        }
    }


def _decision(graph: Graph) -> set[ir.Value]:
    """Everything behind the vocabulary product, from its bias on; where there is none, the logits and what follows."""
    product = vocabulary_product(graph)
    begin = graph.outputs["logits"] if product is None else product.outputs[0]
    behind = {begin}
    for each in graph.nodes:
        if not behind.isdisjoint(each.inputs):
            behind.update(each.outputs)
    return behind if product is None else behind - {begin}


def _too_wide(node: ir.Node, seen: Mapping[ir.Value, float]) -> str:
    """Why a node's values do not fit into fp16, empty if they do."""
    for value in (*node.inputs, *node.outputs):
        if value is None:
            continue
        if value in seen and not seen[value] <= LARGEST / HEADROOM:
            return f"|{value.name}| reaches {seen[value]:.3g}"
        if is_constant(value) and value.dtype == ir.DataType.FLOAT:
            largest = of_values(value, lambda own: float(max(own.max(initial=0), -own.min(initial=0))))
            if not largest <= LARGEST / HEADROOM:
                return f"constant {value.name} reaches {largest:.3g}"
            if is_scalar(value) and not math.isclose(float(np.float16(own := array(value).item())), own, rel_tol=1e-3):
                return f"constant {value.name} is {own:.3g}"
    return ""


def _convert(graph: Graph, halved: Sequence[ir.Node], computed: set[ir.Value]) -> None:
    """Let some nodes run in fp16, with casts where the types meet."""
    in_half = {value for node in halved for value in node.outputs if value in computed}
    nodes = set(halved)
    converted: dict[ir.Value, ir.Value] = {}

    def other(value: ir.Value, to: ir.DataType) -> ir.Value:
        if value not in converted:
            if is_constant(value):
                converted[value] = graph.constant(
                    of_values(value, lambda own: own.astype(np.float16)), f"{value.name}_half"
                )
            else:
                converted[value] = graph.add("Cast", [value], f"{value.name}_cast", to=int(to))
        return converted[value]

    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            single = is_constant(value) and value.dtype == ir.DataType.FLOAT
            if node in nodes and (single or (value in computed and value not in in_half)):
                node.replace_input_with(index, other(value, ir.DataType.FLOAT16))
            elif node not in nodes and value in in_half:
                node.replace_input_with(index, other(value, ir.DataType.FLOAT))
    outputs = graph.model.graph.outputs
    for number, output in enumerate(outputs):
        if output in in_half:  # the vocabulary product of a model without a bias behind it
            wide, name = other(output, ir.DataType.FLOAT), output.name
            outputs[number] = wide
            output.name, wide.name = graph.fresh(str(name)), name
            wide.type, wide.shape = output.type, output.shape
    for value in in_half:
        value.type = None
