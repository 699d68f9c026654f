"""What a fresh graph loses before anything is recognised in it: computed constants, casts, shapes of each run.

No pass here changes a result.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ..graph import Graph, array, attribute, attributes, dims, is_constant
from ..observe import PROBE, Layout, layouts, observe
from .context import Context
from .hoist import ELEMENTWISE, NORMALISING
from .masks import value_independent

Shapes = Sequence[tuple[int, ...]]


def drop_casts(graph: Graph, _: Context) -> None:
    """Remove casts of fp32 values to fp32. Demands a fresh graph whose only input is `input_ids`."""
    # Exporters keep `x.to(y.dtype)` as a cast, which hides an attention's form from the fusions.
    known = layouts(graph)
    for node in graph.nodes:
        value = node.inputs[0] if node.op_type == "Cast" else None
        if value is not None and known[value].is_float32 and attribute(node, "to") == int(ir.DataType.FLOAT):
            graph.replace(node.outputs[0], value)


def fold_constants(graph: Graph, context: Context) -> None:
    """Replace what is computed from constants alone by its value, where it is small. Demands nothing."""
    # Small are scales, shapes, indices. Large ones (a transposed table of word embeddings) stay operators: a session
    # computes them once when it opens, and the file of weights stays as small as the checkpoint.
    known = graph.from_constants()
    written = (value for node in graph.nodes for value in node.outputs)
    computed = [value for value in written if value in known and not value.is_graph_output()]
    read_outside = [value for value in computed if any(known.isdisjoint(node.outputs) for node in value.consumers())]
    if read_outside:
        shapes = layouts(graph)
        small = [value for value in read_outside if np.prod(shapes[value].shape, dtype=int) <= 1024]
        (values,) = observe(graph, context.probes()[:1], small)
        for value in small:
            graph.replace(value, graph.constant(values[value], "folded"))


def fold_shapes(graph: Graph, context: Context) -> None:
    """Replace numbers computed from shapes: what is the same for all shapes, and what is the length of `input_ids`.

    Some models take the width of their heads from the shape of their keys, and the number of tokens from that of their
    embeddings. What a number is is observed at several shapes. Demands a graph whose only input is `input_ids`.
    """
    static = value_independent(graph, graph.from_constants())
    known = layouts(graph)
    numbers = [
        value
        for node in graph.nodes
        for value in node.outputs
        if value in static and known[value].kind in {"tensor(float)", "tensor(int64)"}
        if np.prod(known[value].shape, dtype=int) == 1
    ]
    probes = context.probes()
    seen = observe(graph, probes, numbers)
    lengths = [batch["input_ids"].shape[1] for batch in probes]
    for value in numbers:
        first, *others = (values[value] for values in seen)
        if any(other.shape != first.shape for other in others):
            continue
        if all((other == first).all() for other in others):
            graph.replace(value, graph.constant(first, "folded"))
        elif first.dtype == np.int64 and [int(values[value].item()) for values in seen] == lengths:
            length = graph.add("Shape", [graph.inputs["input_ids"]], "length", start=1, end=2)
            if first.ndim != 1:  # a size of 1 along each of its axes
                target = graph.constant(np.ones(first.ndim, np.int64), "target")
                length = graph.add("Reshape", [length, target], "length")
            graph.replace(value, length)


def fix_shapes(graph: Graph, context: Context) -> None:
    """Give every Reshape a constant target, and every Expand that repeats a constant number of times.

    Of a target, 0 copies a dimension, and at most one -1 is left to the runtime. Exporters compute targets from shapes
    at run time, which hides the attention's form from the fusions. Two runs tell the target in terms of the input's
    shape. Demands a graph whose only input is `input_ids`.
    """
    found = [
        (node, node.inputs[0])
        for node in graph.nodes
        if node.op_type in {"Reshape", "Expand"} and not is_constant(node.inputs[1])
        if node.inputs[0] is not None and node.inputs[0].producer() is not None
    ]
    wanted = [value for node, source in found for value in (source, node.outputs[0])]
    seen = observe(graph, context.probes()[:2], wanted)
    for node, source in found:
        before, after = ([values[value].shape for values in seen] for value in (source, node.outputs[0]))
        target = (_target if node.op_type == "Reshape" else _times)(before, after)
        if target is not None:
            node.replace_input_with(1, graph.numbers(*target, stem="target"))
            node.attributes.pop("allowzero", None)


def _target(before: Shapes, after: Shapes) -> list[int] | None:
    target: list[int] = []
    for axis, sizes in enumerate(zip(*after, strict=True)):
        if len(set(sizes)) == 1:
            target.append(sizes[0])
        elif axis < len(before[0]) and all(shape[axis] == size for shape, size in zip(before, sizes, strict=True)):
            target.append(0)
        else:
            target.append(-1)
    return target if target.count(-1) <= 1 else None


def _times(before: Shapes, after: Shapes) -> list[int] | None:
    if len(before[0]) != len(after[0]):
        return None
    times = {
        tuple(size // own for size, own in zip(sizes, shape, strict=True))
        for sizes, shape in zip(after, before, strict=True)
    }
    return list(*times) if len(times) == 1 else None


def narrow_ids(graph: Graph, _: Context) -> None:
    """Take token ids as int32, half the bytes to the device. Demands a graph whose input `input_ids` is int64."""
    # It is also what the embedding kernels take. Sessions fix the axes by the names that they get here.
    ids = graph.inputs["input_ids"]
    ids.type, ids.shape = ir.TensorType(ir.DataType.INT32), ir.Shape(["batch", "length"])
    others = [use for use in ids.uses() if use[0].op_type != "Shape" and (use[0].op_type, use[1]) != ("Gather", 1)]
    if others:
        wide = graph.add("Cast", [ids], "wide_ids", to=int(ir.DataType.INT64))
        for node, index in others:
            node.replace_input_with(index, wide)


def keep_tokens_apart(graph: Graph, _: Context) -> None:
    """Keep sentences and tokens as two axes, which some models (GPT-2, OPT) join before a product and divide after it.

        Reshape [-1, H], Gemm, …, Reshape [batch, length, N]  ->  MatMul, + bias, …

    So other passes see that rows belong to tokens. Demands a graph whose only input is `input_ids`.
    """
    known = layouts(graph)
    apart: dict[ir.Value, ir.Value] = {}  # [batch * length, H] -> the same as [batch, length, H]
    for node in graph.nodes:
        if node.op_type == "Reshape":
            _reshape(graph, node, known, apart)
        elif any(value in apart for value in node.inputs if value is not None):
            result = _apart(graph, node, apart)
            if result is not None:
                apart[node.outputs[0]] = result


def _reshape(graph: Graph, node: ir.Node, known: Mapping[ir.Value, Layout], apart: dict[ir.Value, ir.Value]) -> None:
    before, after = node.inputs[0], node.outputs[0]
    if before is None:
        return
    shape = known[after].shape
    if known[before].shape == shape:  # `ids.view(-1, length)` of ids that have this shape already
        graph.replace(after, before)
        return
    is_flat = shape == (PROBE[0] * PROBE[1], *shape[-1:]) and known[before].shape[:2] == PROBE
    if is_flat and len(known[before].shape) > 2 and before.producer() is not None:
        heads = len(known[before].shape) > 3  # which are joined in the same step
        apart[after] = graph.add("Reshape", [before, graph.numbers(0, 0, shape[-1])], "rows") if heads else before
    elif before in apart and shape == (*PROBE, *known[before].shape[-1:]):
        graph.replace(after, apart[before])


def _apart(graph: Graph, node: ir.Node, apart: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
    """The node over two axes; None if it does not treat rows one by one."""
    inputs = [value for value in node.inputs if value is not None]
    if node.op_type == "Gemm":
        rows, weight, bias = [*node.inputs, None][:3]
        defaults = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
        plain = all(attribute(node, name, default) == default for name, default in defaults.items())
        if rows is None or rows not in apart or not plain or not is_constant(weight):
            return None
        product = graph.add("MatMul", [apart[rows], weight], "product")
        return product if bias is None else graph.add("Add", [product, bias], "biased")
    rowwise = node.op_type in ELEMENTWISE or (node.op_type in NORMALISING and attribute(node, "axis", -1) in {-1, 1})
    if not rowwise or len(node.outputs) != 1:
        return None
    if not all(value in apart or (is_constant(value) and len(dims(value)) < 2) for value in inputs):
        return None
    changed = attributes(node) | ({"axis": -1} if "axis" in node.attributes else {})
    found = [value and apart.get(value, value) for value in node.inputs]
    return graph.add(node.op_type, found, "rows", domain=node.domain, **changed)


def slice_position_tables(graph: Graph, context: Context) -> None:
    """Turn lookups of positions into slices: rows first, first + 1, … of a table are one range of it.

    A lookup of row 0 alone (segments that are all 0) becomes that row. Which rows are looked up is observed at several
    lengths. Demands a graph whose only input is `input_ids`.
    """
    lookups = {
        node: node.inputs[1]
        for node in graph.nodes
        if node.op_type == "Gather" and is_constant(node.inputs[0]) and len(dims(node.inputs[0])) == 2
        if node.inputs[1] is not None and node.inputs[1].producer() is not None
    }
    seen = observe(graph, context.probes(), lookups.values())
    for node, rows in lookups.items():
        indices = [values[rows] for values in seen]
        rank = indices[0].ndim
        first = int(indices[0].flat[0])
        if rank in {1, 2} and all((rows == first).all() for rows in indices):
            row = array(node.inputs[0])[first : first + 1]
            graph.replace(node.outputs[0], graph.constant(row if rank == 1 else row[None], "row"))
        elif rank in {1, 2} and all((own == np.arange(first, first + own.shape[-1])).all() for own in indices):
            rest = array(node.inputs[0])[first:]
            table = graph.constant(rest if rank == 1 else rest[None], "positions")
            # Shape's own bounds, not a Slice of it: that would be a node on the CPU, which a session on CUDA refuses.
            length = graph.add("Shape", [graph.inputs["input_ids"]], "length", start=1, end=2)
            start, axis = graph.numbers(0), graph.numbers(rank - 1)
            graph.replace(node.outputs[0], graph.add("Slice", [table, start, length, axis], "position_rows"))
