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

Parts = tuple[ir.Value, ir.Value, ir.Value]  # numbers, scale or scales, zero point or zero points

_LARGEST = 64  # of a quantized weight
_COLUMNS = 4096  # that are quantized at a time


def quantize_products(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    rows = mask_row_values(graph)
    activations: dict[ir.Value, Parts] = {}
    weights: dict[ir.Value, Parts] = {}
    for node in graph.nodes:
        value, weight = (*node.inputs, None, None)[:2]
        if not becomes_int8(node, rows) or value is None or weight is None:
            continue
        if value not in activations:
            activations[value] = quantized_values(graph, value)
        if weight not in weights:
            weights[weight] = quantized_weights(graph, array(weight))
        graph.replace(node.outputs[0], int8_product(graph, activations[value], weights[weight]))
    graph.prune()
    return {}


def quantized_values(graph: Graph, value: ir.Value) -> Parts:
    """Add the operator that quantizes fp32 values of any shape, with a scale taken at run time."""
    numbers, scale, zero = graph.add_node("DynamicQuantizeLinear", [value], ["quantized", "scale", "zero_point"])
    return numbers, scale, zero


def quantized_weights(graph: Graph, matrix: NDArray[Any]) -> Parts:
    """Add a matrix [inner, columns] in int8."""
    numbers, scales = quantized(matrix)
    zeros = np.zeros(len(scales), np.int8)
    return (
        graph.constant(numbers, "weight_quantized"),
        graph.constant(scales, "weight_scale"),
        graph.constant(zeros, "weight_zero_point"),
    )


def int8_product(graph: Graph, values: Parts, weights: Parts) -> ir.Value:
    """Add the product of quantized values [..., inner] and weights [inner, columns]: fp32 [..., columns]."""
    (q, q_scale, q_zero), (w, w_scale, w_zero) = values, weights
    product = graph.add("MatMulInteger", [q, w, q_zero, w_zero], "product")
    product = graph.add("Cast", [product], "product_float", to=int(ir.DataType.FLOAT))
    scale = graph.add("Mul", [q_scale, w_scale], "scales")
    return graph.add("Mul", [product, scale], "product_scaled")


def quantized(weights: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantize a matrix with a scale for each column; some columns at a time, to need little memory.

    Args:
        weights: float32 [inner, columns].

    Returns:
        int8 [inner, columns] within ±64, and float32 scales [columns]: weights ≈ numbers × scales.
    """
    numbers, scales = np.empty(weights.shape, np.int8), np.empty(weights.shape[1], np.float32)
    for start in range(0, len(scales), _COLUMNS):
        part = slice(start, start + _COLUMNS)
        numbers[:, part], scales[part] = _quantized_columns(weights[:, part])
    return numbers, scales


def _quantized_columns(weights: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    peaks = np.abs(weights).max(axis=0).astype(np.float64)
    scales = (2 * peaks / (2 * _LARGEST)).astype(np.float32)
    scales = np.where(2 * peaks / (2 * _LARGEST) < np.finfo(np.float32).tiny, np.float32(1), scales)
    numbers = (weights / scales).round()
    return np.clip(numbers, -128, 127).astype(np.int8), scales
