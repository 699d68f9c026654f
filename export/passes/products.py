"""Which products become int8: those over all positions, by a constant matrix.

Products for one row of each sentence (the mask's, a classifier's first) stay in fp32: they cost next to nothing after
the hoist, and are closest to the logits. The vocabulary projection is an exception, see `leaders`.
"""

import onnx_ir as ir

from ..graph import Graph, attribute, dims, is_constant

OUTLIERS = 16  # channels split off behind an activation; a multiple of the processor's vector width


def mask_row_values(graph: Graph) -> set[ir.Value]:
    """Values with one row for each sentence: all that depends on the mask position, or on a row that was gathered."""
    rows = {value for name, value in graph.inputs.items() if name == "mask_position"}
    for node in graph.nodes:
        is_gathered = node.op_type == "GatherND" and attribute(node, "batch_dims", 0) == 1  # by `hoist`
        if is_gathered or not rows.isdisjoint(node.inputs):
            rows.update(node.outputs)
    return rows


def becomes_int8(node: ir.Node, rows: set[ir.Value]) -> bool:
    """Whether a node is a product whose weight is quantized."""
    if node.op_type != "MatMul" or not is_constant(node.inputs[1]) or node.outputs[0] in rows:
        return False
    sizes = dims(node.inputs[1])
    return len(sizes) == 2 and min(sizes) > OUTLIERS
