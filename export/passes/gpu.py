"""What CUDA computes in fewer bytes, of the finished fp32 graph: attention without a copy, logits read once."""

import math

import numpy as np
import onnx_ir as ir

from ..graph import Array, Graph, array, attributes, bias_of, dims, given, is_constant, like, only_reader, written_by
from .context import Context

_ROW = 256  # values a row that CUDA's TopK sorts in one read, ties by the smaller index; of more, it reads them 7 times
_ALIGNED = 8  # columns: products in fp16 on tensor cores want multiples of it
LOWEST = -8000.0  # logit of what is no token: below all logits, as their range is looked at, and within that of fp16


def move_biases(graph: Graph, _: Context) -> None:
    """Take the biases of queries, keys and values out of attention, where CUDA adds them into a copy of all three.

        softmax((q + b)(k + c)ᵀ) = softmax((q + b) kᵀ)    as (q + b) cᵀ is the same for all keys of a query
        A (v + d) = A v + d, and (A v + d) W + e = (A v) W + (d W + e)    as the rows of A have the sum 1

    So b alone is added, to the queries. One packed product for all three would not do: the kernels of flash attention
    read them apart, and ONNX Runtime unpacks them by a copy. Demands a finished graph.
    """
    for node in graph.nodes:
        bias = node.inputs[3] if node.op_type == "MultiHeadAttention" and len(node.inputs) > 3 else None
        if bias is None or not is_constant(bias):
            continue
        own = array(bias).astype(np.float64)
        queries, values = own[: len(own) // 3], own[2 * len(own) // 3 :]
        biased = graph.add("Add", [node.inputs[0], graph.constant(queries.astype(np.float32), "bias")], "queries")
        like(biased, given(node.inputs[0]))
        inputs = [biased, *node.inputs[1:3], None, *node.inputs[4:]]
        while inputs[-1] is None:
            inputs.pop()
        context = graph.add("MultiHeadAttention", inputs, "context", domain=node.domain, **attributes(node))
        like(context, node.outputs[0])
        if not _moved(graph, node.outputs[0], values):
            context = graph.add("Add", [context, graph.constant(values.astype(np.float32), "bias")], "biased")
        graph.replace(node.outputs[0], context)


def _moved(graph: Graph, context: ir.Value, bias: Array) -> bool:
    """Put the bias of values into that behind the product that alone reads the context."""
    while (view := only_reader(context, "Squeeze")) is not None:
        context = view.outputs[0]
    product = only_reader(context, "MatMul")
    if product is None or product.inputs[0] is not context or not is_constant(product.inputs[1]):
        return False
    add = only_reader(product.outputs[0], "Add")
    if (known := bias_of(add)) is None or add is None:
        return False
    moved = bias @ array(product.inputs[1]).astype(np.float64) + array(known[1]).astype(np.float64)
    add.replace_input_with(list(add.inputs).index(known[1]), graph.constant(moved.astype(np.float32), "bias"))
    return True


def read_logits_once(graph: Graph, context: Context) -> None:
    """The two best of a vocabulary by steps of at most 256 values, and its bias as columns of the product.

        logits = x W + b    ->   [x, 1, 1, 0 …] [W; b in fp16; what that lacks; 0 …], and columns of `LOWEST` behind
        TopK of V logits    ->   TopK of each 256 logits, then of each 2 · 128 that these give, then of the rest

    Each step gives the smaller of two tokens with the same logit, as the CPU does. Demands the finished graph of a
    language model, whose logits are a product with a constant, and perhaps a bias.
    """
    logits = graph.outputs["logits"]
    value, bias = bias_of(written_by(logits, "Add")) or (logits, None)
    product = written_by(value, "MatMul")
    top = next((node for node in logits.consumers() if node.op_type == "TopK"), None)
    if product is None or top is None or (value is not logits and len(value.consumers()) > 1):
        return
    row, weight = map(given, product.inputs)
    transpose = written_by(weight, "Transpose")
    table = given(transpose.inputs[0]) if transpose is not None else weight
    tokens = context.vocabulary
    if not is_constant(table) or sorted(dims(table))[1:] != [tokens] or dims(table)[0 if transpose else 1] != tokens:
        return
    groups = math.ceil(tokens / _ROW)
    further = math.ceil(groups / (_ROW // 2))  # rows of the second step
    groups = further * math.ceil(groups / further)

    def widened() -> Array:
        matrix = array(table).T if transpose is not None else array(table)
        found = np.zeros((len(matrix) + _ALIGNED, groups * _ROW), np.float32)
        found[: len(matrix), :tokens] = matrix
        found[len(matrix)] = LOWEST
        own = array(bias).astype(np.float32) if bias is not None else np.zeros(tokens, np.float32)
        found[len(matrix), :tokens] = own.astype(np.float16)
        found[len(matrix) + 1, :tokens] = own - found[len(matrix), :tokens]
        return found

    width = dims(table)[1 if transpose is not None else 0]
    columns = graph.later(widened, table, (width + _ALIGNED, groups * _ROW), "vocabulary")
    ones = graph.constant(np.array(1.0, np.float32), "one")
    longer = graph.add("Pad", [row, graph.numbers(0, 0, 0, _ALIGNED, stem="pads"), ones], "row_and_ones")
    like(longer, row)
    every = graph.add("MatMul", [longer, columns], "all_logits")
    like(every, value)
    start, last = graph.numbers(0), graph.numbers(-1)
    steps = [(groups, _ROW), (further, 2 * groups // further), (1, 2 * further)]
    values, ids = _best(graph, every, steps if further > 1 else steps[:2])
    for old, new in zip(top.outputs, (values, ids), strict=True):
        graph.replace(old, new)
    plain = graph.add("Slice", [every, start, graph.numbers(tokens), last], "logits")
    graph.replace(logits, plain)
    for node in plain.consumers():  # logits of no token are not counted, and add nothing up
        if node.op_type in {"Greater", "Sub", "GatherElements"}:
            node.replace_input_with(list(node.inputs).index(plain), every)
            added = only_reader(node.outputs[0], "Exp") if node.op_type == "Sub" else None
            filled = only_reader(added.outputs[0], "Pad") if added is not None else None
            if filled is not None:  # up to a multiple of `_ROW`
                graph.replace(filled.outputs[0], given(filled.inputs[0]))


def _best(graph: Graph, logits: ir.Value, steps: list[tuple[int, int]]) -> tuple[ir.Value, ir.Value]:
    """Logits and ids of the two best, [B, 2], step by step: rows, and values in each."""
    two, values, ids = graph.numbers(2), logits, None
    for rows, size in steps:
        if rows > 1:
            values = graph.add("Reshape", [values, graph.numbers(0, rows, size, stem="target")], "rows")
        values, inside = graph.add_node("TopK", [values, two], ["best_logits", "best"], axis=-1, largest=1, sorted=1)
        if rows > 1:
            offsets = graph.constant(
                np.arange(0, rows * size, size)[:, None], "offsets"
            )  # of each row, int64 [rows, 1]
            inside = graph.add("Add", [inside, offsets], "places")
            flat = graph.numbers(0, 2 * rows, stem="target")
            values, inside = (graph.add("Reshape", [own, flat], "flat") for own in (values, inside))
        ids = inside if ids is None else graph.add("GatherElements", [ids, inside], "ids", axis=-1)
    assert ids is not None  # noqa: S101 - there are steps
    return values, ids
