"""What CUDA computes in fewer bytes, of the finished fp32 graph: attention without a copy."""

import numpy as np
import onnx_ir as ir

from ..graph import Array, Graph, array, attributes, bias_of, given, is_constant, like, only_reader
from .context import Context


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
