"""What a model computes from the shape of its ids alone, at each run: relative positions become one table in the graph.

The buckets of distances of DeBERTa v2 take some 200 operators on integers, which a GPU's provider leaves to the CPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx_ir as ir

from ..graph import Array, Graph
from ..observe import Layout, layouts, observe
from .context import Context
from .masks import value_independent

_MOST_NUMBERS = 1024  # of a constant


def tabulate_shapes(graph: Graph, context: Context) -> None:
    """Replace what is computed from the shape of the ids alone, where it meets what is not.

        positions [..., L, L] that GatherElements reads   ->  table[:L, :L], expanded
        sizes: numbers, L, the number of sentences        ->  Concat of these; -1 for one other size of a Reshape
        numbers that are the same for all shapes          ->  constants

    All is observed at several shapes. Demands a graph whose only input is `input_ids`.
    """
    static = value_independent(graph, graph.from_constants())
    known = layouts(graph)
    places = [
        (node, index, value)
        for node in graph.nodes
        for index, value in enumerate(node.inputs)
        if value is not None and value in static and _meets(node, index, value, static, known)
    ]
    probes = context.probes()
    seen = observe(graph, probes, [value for _, _, value in places])
    made = _Made(graph, [batch["input_ids"].shape for batch in probes])
    for node, index, value in places:
        values, place = [own[value] for own in seen], (node.op_type, index)
        new = None
        if all(np.array_equal(values[0], other) for other in values[1:]):
            new = graph.constant(values[0], "number")
        elif place == ("GatherElements", 1):
            new = made.positions(node, values) if context.has_compared_all else None
        elif values[0].ndim == 1 and len({own.shape for own in values}) == 1:
            new = made.sizes(values, may_infer=place == ("Reshape", 1))
        if new is not None:
            node.replace_input_with(index, new)


def _meets(node: ir.Node, index: int, value: ir.Value, static: set[ir.Value], known: dict[ir.Value, Layout]) -> bool:
    """Whether a small value, or a node's positions, leave the arithmetic with shapes at a node."""
    of_shapes = all(output in static and known[output].kind != "tensor(float)" for output in node.outputs)
    if of_shapes or (known[value].is_float32 and static.issuperset(node.outputs)):
        return False
    return (node.op_type, index) == ("GatherElements", 1) or np.prod(known[value].shape, dtype=int) <= _MOST_NUMBERS


@dataclass
class _Made:
    """What takes the place of values, each made once."""

    graph: Graph
    shapes: Sequence[tuple[int, ...]]  # of the ids, in each probe
    known: dict[object, ir.Value] = field(default_factory=dict)

    @cached_property
    def axes(self) -> dict[str, ir.Value]:  # number of sentences, and of tokens, int64 [1] each
        ids = self.graph.inputs["input_ids"]
        return {name: self.graph.add("Shape", [ids], "size", start=i, end=i + 1) for i, name in enumerate("BL")}

    def sizes(self, values: Sequence[Array], *, may_infer: bool) -> ir.Value | None:
        """Sizes, int64 [n], that were these in the probes; None where one is none of what is known."""
        of_ids = {sizes: name for name, sizes in zip("BL", zip(*self.shapes, strict=True), strict=True)}
        columns = [tuple(map(int, sizes)) for sizes in zip(*values, strict=True)]
        found: list[int | str] = [own[0] if len(set(own)) == 1 else of_ids.get(own, -1) for own in columns]
        if found.count(-1) > may_infer:
            return None
        if (key := tuple(found)) not in self.known:
            parts = [self.axes[own] if isinstance(own, str) else self.graph.numbers(own) for own in found]
            self.known[key] = self.graph.add("Concat", parts, "sizes", axis=0) if len(parts) > 1 else parts[0]
        return self.known[key]

    def positions(self, node: ir.Node, values: Sequence[Array]) -> ir.Value | None:
        """The positions, int32 [..., L, L], that a node reads beside values [..., L, other]."""
        whole = values[-1].reshape(-1, *values[-1].shape[-2:])[0]
        for own, (_, length) in zip(values, self.shapes, strict=True):
            if own.shape[-2:] != (length, length) or not (own == whole[:length, :length]).all():
                return None
        graph, table = self.graph, whole.astype(np.int32)
        if (key := table.tobytes()) not in self.known:
            ends = graph.add("Concat", [self.axes["L"]] * 2, "ends", axis=0)
            sliced = [graph.constant(table, "positions"), graph.numbers(0, 0), ends, graph.numbers(0, 1)]
            self.known[key] = graph.add("Slice", sliced, "positions")
        before = graph.add("Shape", [node.inputs[0]], "sizes", start=0, end=values[-1].ndim - 2)
        shape = graph.add("Concat", [before, self.axes["L"], self.axes["L"]], "shape", axis=0)
        return graph.add("Expand", [self.known[key], shape], "positions")
