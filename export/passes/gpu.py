"""What CUDA computes in fewer bytes, of the finished fp32 graph: log-sum-exp without a copy."""

import numpy as np

from ..graph import Array, Graph, array, bias_of, dims, given, is_constant, like, only_reader, written_by
from .context import Context
from .outputs import ADDED_AT_ONCE

LOWEST = -8000.0  # logit of what is not a token: below all logits, and within the range of fp16


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
