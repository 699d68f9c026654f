"""Keep sentences and tokens as two axes: products over [batch × length, H] become products over [batch, length, H].

Some models (GPT-2, OPT) join the two axes before a product and divide them after it, which hides from the other passes
that rows belong to tokens:

    Reshape [-1, H], Gemm, …, Reshape [batch, length, N]  ->  MatMul, + bias, …

Demands a graph whose only input is `input_ids`.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from ..graph import Graph, attribute, attributes, dims, is_constant
from ..observe import PROBE, Layout, layouts
from .context import Context
from .rows import ELEMENTWISE, NORMALISING

_FLAT = PROBE[0] * PROBE[1]


def keep_tokens_apart(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    known = layouts(graph)
    apart: dict[ir.Value, ir.Value] = {}  # [batch * length, H] -> the same as [batch, length, H]
    for node in graph.nodes:
        if node.op_type == "Reshape":
            _reshape(graph, node, known, apart)
        elif any(value in apart for value in node.inputs if value is not None):
            result = _apart(graph, node, apart)
            if result is not None:
                apart[node.outputs[0]] = result
    graph.prune()
    return {}


def _reshape(graph: Graph, node: ir.Node, known: Mapping[ir.Value, Layout], apart: dict[ir.Value, ir.Value]) -> None:
    before, after = node.inputs[0], node.outputs[0]
    if before is None:
        return
    shape = known[after].shape
    if known[before].shape == shape:  # `ids.view(-1, length)` of ids that have this shape already
        graph.replace(after, before)
        return
    if known[before].shape == (*PROBE, *shape[-1:]) and shape == (_FLAT, *shape[-1:]) and before.producer() is not None:
        apart[after] = before
    elif before in apart and shape == (*PROBE, *known[before].shape[-1:]):
        graph.replace(after, apart[before])


def _apart(graph: Graph, node: ir.Node, apart: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
    """The node over two axes; None if it does not treat rows one by one."""
    inputs = [value for value in node.inputs if value is not None]
    if node.op_type == "Gemm":
        return _product(graph, node, apart)
    rowwise = node.op_type in ELEMENTWISE or (node.op_type in NORMALISING and attribute(node, "axis", -1) in {-1, 1})
    if not rowwise or len(node.outputs) != 1:
        return None
    if not all(value in apart or (is_constant(value) and len(dims(value)) < 2) for value in inputs):
        return None
    changed = attributes(node) | ({"axis": -1} if "axis" in node.attributes else {})
    found = [value and apart.get(value, value) for value in node.inputs]
    return graph.add(node.op_type, found, "rows", domain=node.domain, **changed)


def _product(graph: Graph, node: ir.Node, apart: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
    rows, weight, bias = [*node.inputs, None][:3]
    plain = all(attribute(node, name, default) == default for name, default in _GEMM.items())
    if rows is None or rows not in apart or not plain or not is_constant(weight):
        return None
    product = graph.add("MatMul", [apart[rows], weight], "product")
    return product if bias is None else graph.add("Add", [product, bias], "biased")


_GEMM = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
