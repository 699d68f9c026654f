"""int8 for processors: which products, in which numbers, and how single channels are kept from spoiling the others.

Products for one row of each sentence stay in fp32, but for the vocabulary projection: they cost next to nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ..graph import Graph, array, attribute, attributes, bias_of, dims, given, is_constant, written_by
from .context import Context
from .hoist import takes_row

OUTLIERS = 16  # channels split off behind an activation; a multiple of the processor's vector width
_LARGEST = 64  # of a quantized weight
_COLUMNS = 4096  # that are quantized at a time, to need little memory
_SMOOTHED = 8  # channels behind a normalisation, about, that are made smaller
_ACTIVATIONS = frozenset({"BiasGelu", "Gelu", "FastGelu", "Relu"})
_LEADERS = 16  # tokens whose logits are computed once more in fp32

Parts = tuple[ir.Value, ir.Value, ir.Value]  # numbers, scale or scales, zero point or zero points


def mask_row_values(graph: Graph) -> set[ir.Value]:
    """Values with one row for each sentence: all that depends on the mask position, or on a row that was gathered."""
    rows = {value for name, value in graph.inputs.items() if name == "mask_position"}
    for node in graph.nodes:
        if takes_row(node) or not rows.isdisjoint(node.inputs):
            rows.update(node.outputs)
    return rows


def becomes_int8(node: ir.Node, rows: set[ir.Value]) -> bool:
    """Whether a node is a product whose weight is quantized."""
    if node.op_type != "MatMul" or not is_constant(node.inputs[1]) or node.outputs[0] in rows:
        return False
    sizes = dims(node.inputs[1])
    return len(sizes) == 2 and min(sizes) > OUTLIERS


def quantize_products(graph: Graph, _: Context) -> None:
    """int8 for the CPU: 8-bit weights with a scale for each column, 8-bit activations with a scale taken at run time.

        x W  ->  DynamicQuantizeLinear(x), MatMulInteger, × (scale of x · scales of W)

    The same numbers as of ONNX Runtime's own dynamic quantization (symmetric, reduced range), which holds the whole
    model in memory, several times. Weights use 7 of their 8 bits: processors without VNNI add pairs of products in 16
    bits, which would saturate. Demands a finished graph (`becomes_int8` says which products).
    """
    rows = mask_row_values(graph)
    values: dict[ir.Value, Parts] = {}
    weights: dict[ir.Value, Parts] = {}
    for node in graph.nodes:
        if becomes_int8(node, rows):
            value, weight = map(given, node.inputs)
            if value not in values:
                values[value] = _quantized_values(graph, value)
            if weight not in weights:
                weights[weight] = _quantized_weights(graph, array(weight))
            graph.replace(node.outputs[0], _int8_product(graph, values[value], weights[weight]))


def _quantized_values(graph: Graph, value: ir.Value) -> Parts:
    numbers, scale, zero = graph.add_node("DynamicQuantizeLinear", [value], ["quantized", "scale", "zero_point"])
    return numbers, scale, zero


def _quantized_weights(graph: Graph, matrix: NDArray[Any]) -> Parts:
    numbers, scales = quantized(matrix)
    zeros = graph.constant(np.zeros(len(scales), np.int8), "weight_zero_point")
    return graph.constant(numbers, "weight_quantized"), graph.constant(scales, "weight_scale"), zeros


def _int8_product(graph: Graph, values: Parts, weights: Parts) -> ir.Value:
    (q, q_scale, q_zero), (w, w_scale, w_zero) = values, weights  # [..., inner], [inner, columns]
    product = graph.add("MatMulInteger", [q, w, q_zero, w_zero], "product")
    product = graph.add("Cast", [product], "product_float", to=int(ir.DataType.FLOAT))
    scale = graph.add("Mul", [q_scale, w_scale], "scales")
    return graph.add("Mul", [product, scale], "product_scaled")


def quantized(weights: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantize float32 [inner, columns]: int8 within ±64 and float32 scales [columns], weights ≈ numbers × scales."""
    numbers, scales = np.empty(weights.shape, np.int8), np.empty(weights.shape[1], np.float32)
    for start in range(0, len(scales), _COLUMNS):
        part = slice(start, start + _COLUMNS)
        peaks = np.abs(weights[:, part]).max(axis=0).astype(np.float64)
        wanted = 2 * peaks / (2 * _LARGEST)
        own = np.where(wanted < np.finfo(np.float32).tiny, np.float32(1), wanted.astype(np.float32))
        numbers[:, part] = np.clip((weights[:, part] / own).round(), -128, 127).astype(np.int8)
        scales[part] = own
    return numbers, scales


def smooth(graph: Graph, context: Context) -> None:
    """Divide the outlier channels of normalised values before the products that become int8.

    The weights that they meet are multiplied by the same factors (Xiao et al. 2023, SmoothQuant, for outliers alone):

        x W  =  (x / s) (s W),      s = max(1, largest |x| of the channel / that of the eighth largest channel)

    With `split_outliers`, 10 instead of 16 % of the bundled model's decisions are close calls. Demands a finished graph
    and the context's peaks.
    """
    rows = mask_row_values(graph)
    readers: dict[ir.Value, list[ir.Node]] = {}
    for node in graph.nodes:
        if becomes_int8(node, rows) and written_by(node.inputs[0], "LayerNormalization") is not None:
            readers.setdefault(given(node.inputs[0]), []).append(node)
    for value, products in readers.items():
        peaks = context.peaks_of(value)
        largest = np.sort(peaks)[-min(_SMOOTHED, len(peaks))]
        factors = np.maximum(peaks / largest, 1) if largest > 0 else np.ones_like(peaks)
        divided = graph.add("Mul", [value, graph.constant((1 / factors).astype(np.float32), "smoothing")], "smooth")
        for node in products:
            node.replace_input_with(0, divided)
            node.replace_input_with(1, _multiplied(graph, given(node.inputs[1]), factors.astype(np.float32)))


def _multiplied(graph: Graph, weight: ir.Value, factors: NDArray[np.float32]) -> ir.Value:
    return graph.later(
        lambda: array(weight).astype(np.float32) * factors[:, None], weight, dims(weight), "smooth_weight"
    )


@dataclass(frozen=True)
class _FeedForward:
    first: ir.Node  # product
    steps: tuple[ir.Node, ...]  # from there: bias, activation
    active: ir.Value  # what they give
    second: ir.Node  # product


def split_outliers(graph: Graph, context: Context) -> None:
    """Split off the outlier channels of feed-forward blocks, before int8: a handful makes 8 bits coarse for all others.

    They are the same ones in all sentences. The block is a sum over its inner channels, so this costs nothing:

        gelu(x A + a) B  =  gelu(x A₁ + a₁) B₁ + gelu(x A₂ + a₂) B₂

    The outliers (A₂, B₂) stay in fp32 (as in Dettmers et al. 2022, LLM.int8(), with the channels fixed beforehand).
    Demands a finished graph and the context's peaks.
    """
    rows = mask_row_values(graph)
    for block in [_block_before(node) for node in graph.nodes if becomes_int8(node, rows)]:
        if block is None:
            continue
        order = np.argsort(context.peaks_of(block.active), kind="stable")
        rest, outliers = np.sort(order[:-OUTLIERS]), np.sort(order[-OUTLIERS:])
        if len(rest):
            halves = [_part(graph, block, own, stem) for own, stem in ((rest, "rest"), (outliers, "outliers"))]
            graph.replace(block.second.outputs[0], graph.add("Add", halves, "feed_forward"))


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


def _part(graph: Graph, block: _FeedForward, channels: NDArray[np.int64], stem: str) -> ir.Value:
    """The block with some of its inner channels alone."""

    def part(constant: ir.Value, axis: int) -> ir.Value:
        shape = list(dims(constant))
        shape[axis] = len(channels)
        return graph.later(lambda: array(constant).take(channels, axis), constant, shape, f"{stem}_weight")

    value = graph.add("MatMul", [block.first.inputs[0], part(given(block.first.inputs[1]), 1)], f"{stem}_inner")
    for step in block.steps:
        inputs = [part(one, -1) if one is not None and is_constant(one) else value for one in step.inputs]
        value = graph.add(step.op_type, inputs, f"{stem}_active", domain=step.domain, **attributes(step))
    return graph.add("MatMul", [value, part(given(block.second.inputs[1]), 0)], f"{stem}_outer")


def quantize_vocabulary(graph: Graph, _: Context) -> None:
    """The product with the vocabulary in int8, and the logits that decide once more in fp32.

        logits = x W + b   ->   logits = x W + b in int8 (`quantize_products`)
                                leaders = the tokens with the highest of them, and the expected token
                                logits[leaders] = x W[leaders] + b[leaders] in fp32

    For a few rows this product takes as long as reading its matrix, which has a quarter of the bytes in int8. The
    margin has the same error as with a product in fp32; calibration and audit measure what 8 bits put in a wrong place.
    Demands the finished graph of a language model; logits that are scaled or capped after the product stay in fp32.
    """
    logits = graph.outputs["logits"]
    value, bias = bias_of(written_by(logits, "Add")) or (logits, None)
    if (product := written_by(value, "MatMul")) is None:
        return
    row, weight = product.inputs
    transpose = written_by(weight, "Transpose")
    table = transpose.inputs[0] if transpose is not None else weight  # [V, H] there, [H, V] here
    if row is None or not is_constant(table) or len(dims(table)) != 2:
        return
    if transpose is not None and tuple(attribute(transpose, "perm", (1, 0))) != (1, 0):
        return
    matrix = array(table).T if transpose is not None else array(table)
    coarse = _int8_product(graph, _quantized_values(graph, row), _quantized_weights(graph, matrix))
    coarse = graph.add("Add", [coarse, bias], "coarse_logits") if bias is not None else coarse
    count = graph.numbers(min(_LEADERS, matrix.shape[1]))
    stems = ["leading", "leaders"]
    leaders = graph.add_node("TopK", [coarse, count], stems, axis=-1, largest=1, sorted=0)[1]
    expected = graph.add("Cast", [graph.inputs["expected_id"]], "expected_wide", to=int(ir.DataType.INT64))
    expected = graph.add("Unsqueeze", [expected, graph.numbers(-1)], "expected")
    leaders = graph.add("Concat", [leaders, expected], "leaders", axis=-1)
    rows = table if transpose is not None else graph.add("Transpose", [table], "rows", perm=[1, 0])
    exact = graph.add("Gather", [rows, leaders], "leading_rows", axis=0)  # [B, leaders, H]
    exact = graph.add("MatMul", [exact, graph.add("Unsqueeze", [row, graph.numbers(-1)], "column")], "leading_logits")
    exact = graph.add("Squeeze", [exact, graph.numbers(-1)], "leading_logits")
    if bias is not None:
        own = graph.add("Gather", [bias, leaders], "leading_bias", axis=0)
        exact = graph.add("Add", [exact, own], "leading_logits")
    graph.replace(logits, graph.add("ScatterElements", [coarse, leaders, exact], "logits", axis=-1))
