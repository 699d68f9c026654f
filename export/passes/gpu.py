"""What CUDA computes in fewer bytes, of the finished fp32 graph: attention and log-sum-exp without a copy."""

import numpy as np
import onnx_ir as ir

from ..graph import Array, Graph, array, attributes, bias_of, dims, given, is_constant, like, only_reader, written_by
from .context import Context
from .outputs import ADDED_AT_ONCE

LOWEST = -8000.0  # logit of what is not a token: below all logits, and within the range of fp16


def move_biases(graph: Graph, _: Context) -> None:
    """Take the biases of queries, keys and values out of attention, where CUDA adds them into a copy of all three.

        softmax((q + b)(k + c)ᵀ) = softmax((q + b) kᵀ)    as (q + b) cᵀ is the same for all keys of a query
        A (v + d) = A v + d, and (A v + d) W + e = (A v) W + (d W + e)    as the rows of A have the sum 1

    So b alone is added, to the queries. One packed product for all three would not do: the kernels of attention read
    them apart, and ONNX Runtime unpacks them by a copy. Demands a finished graph.
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


def fill_vocabulary(graph: Graph, context: Context) -> None:
    """Fill the vocabulary up to whole rows of 256, for faster products and a log-sum-exp without a copy.

        logits = x W + b    ->   x [W 0] + [b LOWEST]

    A column that is not a token is never the best, counts in no rank, and adds nothing to the sum. Kernels of products
    in fp16 want multiples of 8 columns, which 28,996 and 50,265 tokens are not. Demands the finished graph of a
    language model, whose logits are a product with a constant, and perhaps a bias.
    """
    logits = graph.outputs["logits"]
    value, bias = bias_of(written_by(logits, "Add")) or (logits, None)
    product, tokens = written_by(value, "MatMul"), context.vocabulary
    if product is None or tokens < ADDED_AT_ONCE or (value is not logits and len(value.consumers()) > 1):
        return
    row, weight = map(given, product.inputs)
    transpose = written_by(weight, "Transpose")
    table = given(transpose.inputs[0]) if transpose is not None else weight
    if not is_constant(table) or dims(table)[0 if transpose is not None else -1] != tokens:
        return
    width, filled = dims(table)[1 if transpose is not None else 0], tokens + -tokens % ADDED_AT_ONCE

    def widened() -> Array:
        rows = np.zeros((filled, width), np.float32)  # as most tables lie: else each number would be fetched alone
        rows[:tokens] = array(table) if transpose is not None else array(table).T
        return rows.T

    columns = graph.later(widened, table, (width, filled), "vocabulary")
    lowest = np.full(filled, LOWEST, np.float32)
    lowest[:tokens] = array(bias) if bias is not None else 0
    wider = graph.add("MatMul", [row, columns], "products")
    like(wider, value)
    every = graph.add("Add", [wider, graph.constant(lowest, "bias")], "all_logits")
    like(every, value)
    plain = graph.add("Slice", [every, *map(graph.numbers, (0, tokens, -1))], "logits")
    graph.replace(logits, plain)
    for node in list(plain.consumers()):
        node.replace_input_with(list(node.inputs).index(plain), every)
        added = only_reader(node.outputs[0], "Exp") if node.op_type == "Sub" else None
        whole = only_reader(added.outputs[0], "Pad") if added is not None else None
        if whole is not None:
            graph.replace(whole.outputs[0], given(whole.inputs[0]))
