"""int8 for the CPU: 8-bit weights with a scale for each column, 8-bit activations with a scale taken at run time.

    x W  ->  DynamicQuantizeLinear(x), MatMulInteger, × (scale of x · scales of W)

The same operators and numbers as ONNX Runtime's own dynamic quantization (symmetric, reduced range), written weight by
weight: that tool holds the whole model in memory, several times. Weights use 7 of their 8 bits: processors without VNNI
add pairs of products in 16 bits, which would saturate.

Demands a finished graph (`products` says which products become int8).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ..graph import Graph, array
from .context import Context
from .products import becomes_int8, mask_row_values

_LARGEST = 64  # of a quantized weight


def quantize_products(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    rows = mask_row_values(graph)
    activations: dict[ir.Value, tuple[ir.Value, ...]] = {}
    weights: dict[ir.Value, tuple[ir.Value, ...]] = {}
    for node in graph.nodes:
        value, weight = (*node.inputs, None, None)[:2]
        if not becomes_int8(node, rows) or value is None or weight is None:
            continue
        if value not in activations:
            stems = ["quantized", "scale", "zero_point"]
            activations[value] = tuple(graph.add_node("DynamicQuantizeLinear", [value], stems))
        if weight not in weights:
            numbers, scales = quantized(array(weight))
            zeros = np.zeros(len(scales), np.int8)
            weights[weight] = tuple(
                graph.constant(values, f"weight_{what}")
                for values, what in ((numbers, "quantized"), (scales, "scale"), (zeros, "zero_point"))
            )
        (q, q_scale, q_zero), (w, w_scale, w_zero) = activations[value], weights[weight]
        product = graph.add("MatMulInteger", [q, w, q_zero, w_zero], "product")
        product = graph.add("Cast", [product], "product_float", to=int(ir.DataType.FLOAT))
        scale = graph.add("Mul", [q_scale, w_scale], "scales")
        graph.replace(node.outputs[0], graph.add("Mul", [product, scale], "product_scaled"))
    graph.prune()
    return {}


def quantized(weights: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantize a matrix with a scale for each column.

    Args:
        weights: float32 [inner, columns].

    Returns:
        int8 [inner, columns] within ±64, and float32 scales [columns]: weights ≈ numbers × scales.
    """
    peaks = np.abs(weights).max(axis=0).astype(np.float64)
    scales = (2 * peaks / (2 * _LARGEST)).astype(np.float32)
    scales = np.where(2 * peaks / (2 * _LARGEST) < np.finfo(np.float32).tiny, np.float32(1), scales)
    numbers = (weights / scales).round()
    return np.clip(numbers, -128, 127).astype(np.int8), scales
