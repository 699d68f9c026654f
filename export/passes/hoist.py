"""Compute only the mask's row: move the gather of the mask position back through the graph.

A cloze probe reads the logits of one position. Taking one row of a [B, L, H] tensor commutes with every operator that
treats rows independently: products with a constant matrix, biases, normalisations, activations, residual sums. So the
gather moves from the logits back to the last attention, and through its query: there, only keys and values are computed
for all positions. The vocabulary projection then costs 1 row instead of L, the last layer little more than K and V.

One walk from the outputs to the inputs decides, tensor by tensor, whether all rows are needed, or the mask's row alone.
An operator without a rule needs all rows of its inputs: it stops the hoist there and breaks nothing. Where a tensor is
needed whole for another reason (the last layer's input, by K and V), its row is gathered, not computed again.
"""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto

from ..graph import Graph, attribute, attributes, observe
from .head import mask_rows

_ELEMENTWISE = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Sqrt",
        "Neg",
        "Exp",
        "Erf",
        "Tanh",
        "Sigmoid",
        "Relu",
        "Gelu",
        "FastGelu",
        "QuickGelu",
        "BiasGelu",
        "Cast",
        "Identity",
        "Clip",
        "Where",
        "Max",
        "Min",
        "Reciprocal",
        "Softplus",
    ]
)
_NORMALISING = frozenset(
    ["LayerNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"]
)
_ALONG_LAST_AXIS = frozenset({"Softmax", "LogSoftmax", "Split"})


def hoist(graph: Graph, logits: str, index: str) -> str:
    """Gather the mask's row as early as possible.

    Args:
        graph: changed in place.
        logits: name of the [B, L, V] logits.
        index: name of the int64 [B, 1] mask positions.

    Returns:
        The name of the [B, V] logits at the mask.
    """
    rules = _Rules(graph)
    row_wanted, all_wanted = {logits}, set[str]()
    gathered: set[str] = set()
    narrowed: list[NodeProto] = []
    for node in reversed(graph.nodes):
        outputs = [name for name in node.output if name in row_wanted]
        if outputs and all_wanted.isdisjoint(node.output) and rules.apply_to(node):
            narrowed.append(node)
            row_wanted.update(rules.row_inputs(node))
            all_wanted.update(rules.whole_inputs(node))
        elif outputs or not all_wanted.isdisjoint(node.output):
            gathered.update(outputs)
            all_wanted.update(node.input)

    rows: dict[str, str] = {}
    for node in [*graph.nodes]:
        for name in node.output:
            if name in gathered:
                rows[name] = mask_rows(graph, name, index)
        if any(node is other for other in narrowed):
            rows.update(rules.emit(node, rows))
    graph.index()
    return rows[logits]


class _Rules:
    """Which operators act row by row, and what they become when they get one row a sentence."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constant = graph.from_constants()
        self.shapes = _observed_shapes(graph)

    def _is_rows(self, tensor: str) -> bool:
        """True for a tensor [B, L, ·] that is not a constant."""
        shape = self.shapes.get(tensor, ())
        return tensor not in self.constant and len(shape) == 3 and shape[:2] == _PROBE

    def _is_shared(self, tensor: str) -> bool:
        """True for a constant that is the same for every row: it has no extent but along the last axis."""
        return not tensor or (tensor in self.constant and all(size == 1 for size in self.shapes[tensor][:-1]))

    def apply_to(self, node: NodeProto) -> bool:
        """Whether there is a rule for the node as it stands."""
        kind, inputs = node.op_type, list(node.input)
        if kind == "MatMul":
            return self._is_rows(inputs[0]) and inputs[1] in self.constant and len(self.shapes[inputs[1]]) == 2
        if kind in _ELEMENTWISE or kind in _NORMALISING:
            whole_rows = kind in _ELEMENTWISE or attribute(node, "axis", -1) in {-1, 2}
            return whole_rows and all(self._is_rows(name) or self._is_shared(name) for name in inputs)
        if kind in _ALONG_LAST_AXIS:
            default = 0 if kind == "Split" else -1
            return self._is_rows(inputs[0]) and attribute(node, "axis", default) in {-1, 2}
        if kind == "MultiHeadAttention":
            return all(self._is_rows(name) for name in inputs[:3]) and not any(inputs[4:])
        return False

    def row_inputs(self, node: NodeProto) -> list[str]:
        """Inputs of which the mask's row is enough."""
        if node.op_type in {"MultiHeadAttention", "MatMul"}:
            return [node.input[0]]
        return [name for name in node.input if self._is_rows(name)]

    def whole_inputs(self, node: NodeProto) -> list[str]:
        """Inputs that are needed whole."""
        return [name for name in node.input if name and name not in self.row_inputs(node)]

    def emit(self, node: NodeProto, rows: Mapping[str, str]) -> dict[str, str]:
        """Add the node's one-row twin; returns the one-row tensor for each of its outputs."""
        if node.op_type == "MultiHeadAttention":
            return {node.output[0]: self._attend(node, rows[node.input[0]])}
        twin = NodeProto()
        twin.CopyFrom(node)
        twin.input[:] = [rows.get(name) or self._flat(name) for name in node.input]
        twin.output[:] = [name and self.graph.name("at_mask") for name in node.output]
        twin.name = f"node_{twin.output[0]}"
        for item in twin.attribute:
            if item.name == "axis":
                item.i = -1
        self.graph.model.graph.node.append(twin)
        for name in twin.output:
            self.graph.producer[name] = twin
        return {old: new for old, new in zip(node.output, twin.output, strict=True) if old}

    def _flat(self, constant: str) -> str:
        """A shared constant [1, 1, H] would bring back the third axis: give it as [H]."""
        if len(self.shapes.get(constant, ())) < 3:
            return constant
        if constant in self.graph.constants:
            return self.graph.constant(self.graph.array(constant).reshape(-1), "flat")
        return self.graph.add("Reshape", [constant, self._numbers(-1)], "flat")

    def _attend(self, node: NodeProto, query: str) -> str:
        """The same attention, asked by the mask's row alone: its query has length 1."""
        graph, axis = self.graph, self._numbers(1)
        inputs = [graph.add("Unsqueeze", [query, axis], "query"), *node.input[1:]]
        context = graph.add("MultiHeadAttention", inputs, "context", domain=node.domain, **attributes(node))
        return graph.add("Squeeze", [context, axis], "context")

    def _numbers(self, *values: int) -> str:
        return self.graph.constant(np.array(values, np.int64), "number")


_PROBE = (2, 5)


def _observed_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor for a batch of `_PROBE` = (sentences, tokens)."""
    batch, length = _PROBE
    feeds = {"input_ids": np.full((batch, length), 7, np.int32), "mask_position": np.zeros(batch, np.int32)}
    names = [name for node in graph.nodes for name in node.output if name]
    shapes = {name: values.shape for name, values in observe(graph.model, feeds, names).items()}
    return shapes | {name: tuple(tensor.dims) for name, tensor in graph.constants.items()} | {"input_ids": _PROBE}
