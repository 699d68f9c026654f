"""The product with the vocabulary in int8, and the logits that decide once more in fp32.

    logits = x W + b   ->   logits = x W + b in int8 (`quantize`)
                            leaders = the tokens with the highest of them, and the expected token
                            logits[leaders] = x W[leaders] + b[leaders] in fp32

For the masks of a batch, a few rows, this product takes as long as reading its matrix takes: a table of 50,265 × 768
has 154 MB in fp32, and a quarter in int8. A decision compares the expected token's logit with the highest others. All
of these are computed in fp32, from the fp32 row before the product, so the margin has the same error as with a
product in fp32. Rank and log-sum-exp count the other tokens, too, and take their logits from int8.

The true best token would be missed if 8 bits put it behind as many others as there are leaders. Calibration and audit
measure this error with all others.

Demands the finished graph of a language model. Logits that are scaled or capped after the product stay in fp32.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, attribute, dims, is_constant, written_by
from .context import Context
from .quantize import int8_product, quantized_values, quantized_weights

_LEADERS = 16


def quantize_vocabulary(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    logits = graph.outputs["logits"]
    bias, product = _bias_and_product(logits)
    if product is None:
        return {}
    row, weight = product.inputs
    transpose = written_by(weight, "Transpose")
    table = transpose.inputs[0] if transpose is not None else weight  # [V, H] there, [H, V] here
    if row is None or not is_constant(table) or len(dims(table)) != 2:
        return {}
    if transpose is not None and tuple(attribute(transpose, "perm", (1, 0))) != (1, 0):
        return {}
    matrix = array(table).T if transpose is not None else array(table)
    coarse = int8_product(graph, quantized_values(graph, row), quantized_weights(graph, matrix))
    coarse = graph.add("Add", [coarse, bias], "coarse_logits") if bias is not None else coarse

    def numbers(*values: int) -> ir.Value:
        return graph.constant(np.array(values, np.int64), "number")

    count = numbers(min(_LEADERS, matrix.shape[1]))
    stems = ["leading", "leaders"]
    leaders = graph.add_node("TopK", [coarse, count], stems, axis=-1, largest=1, sorted=0)[1]
    expected = graph.add("Cast", [graph.inputs["expected_id"]], "expected_wide", to=int(ir.DataType.INT64))
    expected = graph.add("Unsqueeze", [expected, numbers(-1)], "expected")
    leaders = graph.add("Concat", [leaders, expected], "leaders", axis=-1)

    rows = table if transpose is not None else graph.add("Transpose", [table], "rows", perm=[1, 0])
    exact = graph.add("Gather", [rows, leaders], "leading_rows", axis=0)  # [B, leaders, H]
    exact = graph.add("MatMul", [exact, graph.add("Unsqueeze", [row, numbers(-1)], "column")], "leading_logits")
    exact = graph.add("Squeeze", [exact, numbers(-1)], "leading_logits")
    if bias is not None:
        exact = graph.add(
            "Add", [exact, graph.add("Gather", [bias, leaders], "leading_bias", axis=0)], "leading_logits"
        )
    graph.replace(logits, graph.add("ScatterElements", [coarse, leaders, exact], "logits", axis=-1))
    graph.prune()
    return {}


def _bias_and_product(logits: ir.Value) -> tuple[ir.Value | None, ir.Node | None]:
    """The bias, if there is one, and the product that make logits; no product if there is anything else between."""
    add = written_by(logits, "Add")
    if add is None:
        return None, written_by(logits, "MatMul")
    bias = next((value for value in add.inputs if is_constant(value) and len(dims(value)) == 1), None)
    other = next((value for value in add.inputs if value is not bias), None)
    return bias, written_by(other, "MatMul") if bias is not None else None
