"""The weights of a traced graph: from the model's own memory to a file beside the graph, one by one.

The transposed form, by which a linear layer multiplies, is written, unless something else reads the weight too.
"""

from collections.abc import Callable, Mapping

import onnx_ir as ir

from .graph import Array, Graph, attribute


def write_weights(graph: Graph, weights: Mapping[ir.Value, Callable[[], Array]]) -> None:
    """Turn values of a graph that no node writes into initializers in its file of weights."""
    for value, read in weights.items():
        values, uses = read(), value.uses()
        order = _only_transposed(value)
        if order is not None:
            for node in list(value.consumers()):
                node.outputs[0].replace_all_uses_with(value)
                graph.model.graph.remove(node, safe=True)
            values = values.transpose(order)
        elif (
            uses
            and not value.is_graph_output()
            and all(node.op_type == "Gemm" and index == 1 and attribute(node, "transB", 0) == 1 for node, index in uses)
        ):
            for node in value.consumers():
                del node.attributes["transB"]
            values = values.T
        graph.keep(value, values)


def _only_transposed(value: ir.Value) -> list[int] | None:
    """The order of axes if all that is done with a weight is to transpose it in that one way."""
    nodes = value.consumers()
    if not nodes or value.is_graph_output() or any(node.op_type != "Transpose" for node in nodes):
        return None
    if any(node.outputs[0].is_graph_output() for node in nodes):
        return None
    orders = [attribute(node, "perm") for node in nodes]
    return list(orders[0]) if orders[0] is not None and all(order == orders[0] for order in orders) else None
