"""Which operators act row by row: what they give for one token depends on no other token.

Values [B, L, ·] have a row for each token. The heads of a row may be an axis of their own, [B, L, heads, ·]. What
writes such a value tells it from others with as many axes.
"""

from collections.abc import Sequence

import onnx_ir as ir

from ..graph import Graph, array, attribute, is_constant
from ..observe import PROBE, layouts

ELEMENTWISE = frozenset(
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
NORMALISING = frozenset(
    ["LayerNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"]
)
RESHAPING = frozenset({"Reshape", "Expand"})  # whose second input has a number for each axis
_ALONG_LAST_AXIS = frozenset({"Softmax", "LogSoftmax", "Split"})


class RowRules:
    """Which operators of a graph act row by row.

    Attributes:
        constant: values that depend on no input of the graph.
        layouts: shape and type of every value, for a probe.
    """

    def __init__(self, graph: Graph) -> None:
        self.constant = graph.from_constants()
        self.layouts = layouts(graph)
        self._divided: set[ir.Value] = set()  # rows with more axes than one
        for node in graph.nodes:
            if self.acts_by_row(node):
                self._divided.update(value for value in node.outputs if self._has_tokens(value, 4))

    def _shape(self, value: ir.Value) -> tuple[int, ...]:
        return self.layouts[value].shape if value in self.layouts else ()

    def _has_tokens(self, value: ir.Value, fewest_axes: int) -> bool:
        shape = self._shape(value)
        return len(shape) >= fewest_axes and shape[:2] == PROBE

    def is_rows(self, value: ir.Value | None) -> bool:
        """Whether a value has a row for each token, and is not a constant."""
        if value is None or value in self.constant or not self._has_tokens(value, 3):
            return False
        return len(self._shape(value)) == 3 or value in self._divided

    def _is_shared(self, value: ir.Value | None) -> bool:
        """True for a constant that is the same for every row: it has no extent but along the last axis."""
        return value is None or (value in self.constant and all(size == 1 for size in self._shape(value)[:-1]))

    def acts_by_row(self, node: ir.Node) -> bool:
        """Whether a node treats rows one by one."""
        kind, inputs = node.op_type, node.inputs
        if not inputs:
            return False
        first = inputs[0]
        last = {-1, len(self._shape(first)) - 1} if first is not None else {-1}
        if kind == "MatMul":
            right = inputs[1]
            return self.is_rows(first) and right in self.constant and right is not None and len(self._shape(right)) == 2
        if kind in ELEMENTWISE or kind in NORMALISING:
            axes = {len(self._shape(value)) for value in inputs if value is not None and self.is_rows(value)}
            along_rows = kind in ELEMENTWISE or attribute(node, "axis", -1) in last
            return along_rows and len(axes) == 1 and all(self.is_rows(one) or self._is_shared(one) for one in inputs)
        if kind == "ReduceMean":
            return self.is_rows(first) and bool(attribute(node, "keepdims", 1)) and _are_last(_reduced(node), last)
        if kind in _ALONG_LAST_AXIS:
            default = 0 if kind == "Split" else -1
            return self.is_rows(first) and attribute(node, "axis", default) in last
        if kind == "Slice":
            bounds = inputs[1:]
            return (
                self.is_rows(first) and len(bounds) > 2 and all(map(is_constant, bounds)) and _are_last(bounds[2], last)
            )
        if kind in RESHAPING:
            return self.is_rows(first) and self._keeps_tokens(node)
        if kind == "RotaryEmbedding":
            return self.is_rows(first) and len(self._shape(node.outputs[0])) == 3 and _counts_from_zero(node)
        if kind == "MultiHeadAttention":
            return all(self.is_rows(value) for value in inputs[:3]) and not any(inputs[4:])
        return False

    def _keeps_tokens(self, node: ir.Node) -> bool:
        """Whether a Reshape or an Expand leaves the axes of sentences and tokens as they are."""
        if not is_constant(node.inputs[1]) or not self._has_tokens(node.outputs[0], 3):
            return False
        sizes, kept = array(node.inputs[1]).tolist(), 0 if node.op_type == "Reshape" else 1
        return len(sizes) == len(self._shape(node.outputs[0])) and sizes[:2] == [kept, kept]


def _reduced(reduction: ir.Node) -> ir.Value | Sequence[int] | None:
    """The axes of a reduction: an attribute, or an input since operator set 18."""
    own: Sequence[int] = attribute(reduction, "axes", ())
    return reduction.inputs[1] if len(reduction.inputs) > 1 else own


def _are_last(axes: ir.Value | Sequence[int] | None, last: set[int]) -> bool:
    """Whether axes, known or in a constant, are the last one alone."""
    if isinstance(axes, ir.Value):
        axes = [int(axis) for axis in array(axes).flat] if is_constant(axes) else []
    return axes is not None and len(axes) == 1 and axes[0] in last


def _counts_from_zero(rotation: ir.Node) -> bool:
    """Whether the first token of each sentence has the position 0, and the others follow."""
    positions = rotation.inputs[1]
    return is_constant(positions) and array(positions).tolist() == [0]
