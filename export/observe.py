"""Run a graph to observe its values: their content, their shapes and their largest magnitudes.

Of large values only a summary computed inside the graph leaves ONNX Runtime.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, helper, numpy_helper
from onnx.shape_inference import infer_shapes

from ..engine.basics.errors import InputError
from ..engine.inference.exported import HIDDEN
from ..engine.inference.session import give_back_freed_memory
from .graph import AXES_ARE_INPUTS, Array, Graph, dims, reads

Feeds = Mapping[str, NDArray[np.int32]]
_KINDS = {TensorProto.FLOAT: "tensor(float)", TensorProto.FLOAT16: "tensor(float16)", TensorProto.BOOL: "tensor(bool)"}
_KINDS |= {TensorProto.INT64: "tensor(int64)", TensorProto.INT32: "tensor(int32)"}
PROBE = (2, 5)  # sentences and tokens of a run that shows shapes
_SHORT = 64  # tokens that a whole model computes in no time


@dataclass(frozen=True)
class Layout:
    """Shape and ONNX Runtime's type, such as `tensor(float)`, of a value."""

    shape: tuple[int, ...]
    kind: str

    @property
    def is_float32(self) -> bool:
        return self.kind == "tensor(float)"


@contextmanager
def told_in_one_line(name: str, what: str) -> Iterator[None]:
    """Turn what a library raises about an unsuitable model into an InputError that says what was done."""
    try:
        yield
    except (InputError, OSError):  # a full disk says nothing about the model
        raise
    except Exception as error:  # libraries raise errors of every kind about a model that does not suit them
        lines = (line.strip() for line in str(error).rpartition("Status Message: ")[2].splitlines())
        reason = re.sub(r"^/\S+:\d+ .*?\) ", "", next((line for line in lines if line), type(error).__name__))
        reason += " is not known" if isinstance(error, KeyError) else ""
        raise InputError(f"{name} cannot be exported: {what} failed: {reason}") from error


def observe(
    graph: Graph, batches: Sequence[Mapping[str, Array]], values: Iterable[ir.Value]
) -> list[dict[ir.Value, Array]]:
    """Run a graph on each batch and return some of its inner values."""
    wanted = list(dict.fromkeys(values))
    names = [str(value.name) for value in wanted]
    if not wanted:
        return [{} for _ in batches]
    proto = graph.proto()
    _set_outputs(proto, names)

    def run(proto: ModelProto, some: Sequence[Mapping[str, Array]]) -> list[dict[ir.Value, Array]]:
        return [dict(zip(wanted, own, strict=True)) for own in _run(graph, _session(graph, proto), some, names)]

    is_short = [max(own.size for own in batch.values()) <= _SHORT for batch in batches]
    short = iter(run(proto, [batch for batch, short in zip(batches, is_short, strict=True) if short]))
    return [
        next(short) if own else run(_with_known_shapes(graph, proto, batch, names), [batch])[0]
        for batch, own in zip(batches, is_short, strict=True)
    ]


def _with_known_shapes(graph: Graph, proto: ModelProto, feeds: Mapping[str, Array], names: Sequence[str]) -> ModelProto:
    """The same for inputs of these sizes alone: what is computed for its shape is left out, where rules tell that."""
    known = {str(value.name): layout.shape for value, layout in _inferred(graph, proto, feeds).items()}
    own = ModelProto()
    own.CopyFrom(proto)
    for node in own.graph.node:
        if node.op_type == "Shape" and node.input[0] in known:
            bounds = {attribute.name: attribute.i for attribute in node.attribute}
            sizes = np.array(known[node.input[0]][bounds.get("start") : bounds.get("end")], np.int64)
            node.CopyFrom(helper.make_node("Constant", [], node.output, value=numpy_helper.from_array(sizes)))
    _set_outputs(own, names)
    return own


def layouts(graph: Graph, shape: tuple[int, int] = PROBE) -> dict[ir.Value, Layout]:
    """Shape and type of every value of a graph, for so many sentences of so many tokens."""
    ids = np.ones(shape, np.int32)
    feeds = {name: ids if name in {"input_ids", "token_type_ids"} else ids[:, 0] for name in graph.inputs}
    feeds["mask_position"] = np.zeros(shape[0], np.int32)
    proto = graph.proto()
    known = _inferred(graph, proto, feeds)
    if written := [value for node in graph.nodes for value in node.outputs if value.name and value not in known]:
        known |= _seen(graph, proto, feeds, written)
    for value in graph.initializers:
        known[value] = Layout(dims(value), "tensor(float)" if value.dtype == ir.DataType.FLOAT else "")
    for name, value in graph.inputs.items():
        known[value] = Layout(feeds[name].shape, "")
    return known


def _seen(graph: Graph, proto: ModelProto, feeds: Feeds, written: Sequence[ir.Value]) -> dict[ir.Value, Layout]:
    """What a run tells of these values."""
    names = [str(value.name) for value in written]
    # A value that is an output stays in memory to the end: so its shape is one, and for its type none of its numbers.
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.bool_), "none"))
    asked = {
        name: (
            helper.make_node("Shape", [name], [f"{name} shape"]),
            helper.make_node("Flatten", [name], [f"{name} flat"], axis=0),
            helper.make_node("Compress", [f"{name} flat", "none"], [f"{name} kind"]),
        )
        for name in names
    }
    _append(proto, asked)
    _set_outputs(proto, [f"{name} {what}" for name in names for what in ("shape", "kind")])
    session = _session(graph, proto)
    kinds = {output.name: output.type for output in session.get_outputs()}
    (found,) = _run(graph, session, [feeds], [f"{name} shape" for name in names])
    told = zip(written, names, found, strict=True)
    return {value: Layout(tuple(sizes.tolist()), kinds[f"{name} kind"]) for value, name, sizes in told}


def _inferred(graph: Graph, proto: ModelProto, feeds: Mapping[str, Array]) -> dict[ir.Value, Layout]:
    """What the rules of ONNX's own operators say for inputs of these sizes, before anything runs."""
    asked = ModelProto()
    asked.CopyFrom(proto)
    asked.graph.ClearField("value_info")  # what a pass has changed may be said there still
    asked.graph.ClearField("node")
    asked.graph.node.extend(own for node in proto.graph.node for own in _of_onnx(node))
    for value in asked.graph.input:
        sizes = [TensorShapeProto.Dimension(dim_value=size) for size in feeds[value.name].shape]
        value.type.tensor_type.shape.CopyFrom(TensorShapeProto(dim=sizes))
    for value in asked.graph.output:
        value.ClearField("type")
    inferred = infer_shapes(asked, data_prop=True).graph
    found = {own.name: own.type.tensor_type for own in (*inferred.value_info, *inferred.output)}
    known = {}
    for value in (value for node in graph.nodes for value in node.outputs):
        said = found.get(str(value.name), TypeProto.Tensor())
        is_known = said.HasField("shape") and all(size.HasField("dim_value") for size in said.shape.dim)
        if is_known and said.elem_type in _KINDS:
            known[value] = Layout(tuple(size.dim_value for size in said.shape.dim), _KINDS[said.elem_type])
    return known


_AS_FIRST_INPUT = {"SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
_AS_FIRST_INPUT |= {"RotaryEmbedding", "Gelu", "BiasGelu", "FastGelu", "QuickGelu"}


def _of_onnx(node: NodeProto) -> list[NodeProto]:
    """Nodes of ONNX whose outputs have the shapes of a node of ONNX Runtime, whose rules ONNX does not have.

    Else almost all values would be unknown, and a session would read all weights to tell their shapes.
    """
    outputs = [name for name in node.output if name]
    if node.op_type in _AS_FIRST_INPUT and set(outputs) == {*node.output[:1], *node.output[3:]} - {""}:
        return [helper.make_node("Identity", node.input[:1], [name]) for name in outputs]
    if node.op_type == "MultiHeadAttention" and len(outputs) == 1 and all([*node.input, "", ""][:3]):
        query, key, value = node.input[:3]
        keys, scores = f"{outputs[0]} keys", f"{outputs[0]} scores"
        return [
            helper.make_node("Transpose", [key], [keys], perm=[0, 2, 1]),
            helper.make_node("MatMul", [query, keys], [scores]),
            helper.make_node("MatMul", [scores, value], outputs),
        ]
    return [node]


def channel_peaks(graph: Graph, batches: Sequence[Feeds]) -> dict[str, NDArray[np.float32]]:
    """The largest magnitude of each channel (index along the last axis) of every fp32 value over all batches.

    By name of the value float32 [channels], infinite in all of them if any element was not finite. Where the last axis
    is not the same in all batches, float32 [1], the largest of all.
    """
    constant = graph.from_constants()
    known = layouts(graph)
    single = {own: known[own].shape for own in known if known[own].is_float32 and own.producer()}
    fixed, computed = (
        {str(value.name): len(shape) for value, shape in single.items() if (value in constant) == is_fixed}
        for is_fixed in (True, False)
    )
    return _peaks(graph, batches[:1], fixed) | _peaks(graph, batches, computed)


def _peaks(graph: Graph, batches: Sequence[Feeds], ranks: Mapping[str, int]) -> dict[str, NDArray[np.float32]]:
    if not ranks:
        return {}
    proto = graph.proto()
    axes: dict[str, Any] = {"axes": [0]} if graph.opset < AXES_ARE_INPUTS else {}
    axes_input = [] if axes else ["axes of peaks"]
    proto.graph.initializer.extend(numpy_helper.from_array(np.array([0]), name) for name in axes_input)
    further = {}
    for name, rank in ranks.items():
        size, rows, peak, total = (f"{name} {what}" for what in ("size", "rows", "peak", "total"))
        further[name] = [
            helper.make_node("Abs", [name], [size]),
            helper.make_node("Flatten", [size], [rows], axis=min(rank, 1) * -1),
            helper.make_node("ReduceMax", [rows, *axes_input], [peak], keepdims=0, **axes),
            # The sum tells what is not finite: a kernel's maximum may pass over it.
            helper.make_node("ReduceSum", [size], [total], keepdims=0),
        ]
    _append(proto, further)
    outputs = [f"{name} {what}" for name in ranks for what in ("peak", "total")]
    _set_outputs(proto, outputs)
    found: dict[str, NDArray[np.float32]] = {}
    for seen in _run(graph, _session(graph, proto), batches, outputs):
        for name, largest, sum_of in zip(ranks, seen[::2], seen[1::2], strict=True):
            now = np.where(np.isfinite(sum_of), largest, np.float32(np.inf)).astype(np.float32)
            before = found.get(name, now)
            both = (before, now) if before.shape == now.shape else (before.max(keepdims=True), now.max(keepdims=True))
            found[name] = np.maximum(*both)
    return found


def open_session(name: str, graph: str | bytes, options: ort.SessionOptions) -> ort.InferenceSession:
    """On the CPU."""
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting leaves the cores to others
    give_back_freed_memory()  # beside what is left of the session before, its weights would stand in memory twice
    with told_in_one_line(name, "opening the graph"):
        return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _set_outputs(proto: ModelProto, names: Sequence[str]) -> None:
    """Leave what computes these values, and nothing else: a mask is known without computing what it masks."""
    needed, kept = set(names), []
    for node in reversed(proto.graph.node):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed.update(_read_by(node))
    weights = [weight for weight in proto.graph.initializer if weight.name in needed]
    for field, left in (("node", kept[::-1]), ("initializer", weights)):
        proto.graph.ClearField(field)
        getattr(proto.graph, field).extend(left)
    proto.graph.ClearField("output")
    proto.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)


def _append(proto: ModelProto, further: Mapping[str, Sequence[NodeProto]]) -> None:
    """Put nodes that read a value behind the one that writes it: so they run while it is in memory, and free it."""
    nodes = [
        own
        for node in proto.graph.node
        for own in (node, *(each for name in node.output for each in further.get(name, ())))
    ]
    proto.graph.ClearField("node")
    proto.graph.node.extend(nodes)


def _read_by(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, and those that its branches and loops read."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _read_by(inner)
        yield from (output.name for output in attribute.g.output)


def _session(graph: Graph, proto: ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # that of the nodes
    options.enable_mem_reuse = False  # finding a buffer for each value takes longer than everything else at opening
    options.add_session_config_entry("session.disable_prepacking", "1")  # no second copy of the weights
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", graph.folder)
    return open_session(graph.name, proto.SerializeToString(), options)


def _run(
    graph: Graph, session: ort.InferenceSession, batches: Sequence[Mapping[str, Array]], names: Sequence[str]
) -> Iterator[list[Array]]:
    # Ids are int64 in a fresh export and int32 in a finished graph.
    kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
    inputs = {value.name: kinds[value.type] for value in session.get_inputs()}
    for feeds in batches:
        used = {name: np.asarray(feeds[name]).astype(kind) for name, kind in inputs.items()}
        shape = next(iter(used.values())).shape
        with told_in_one_line(graph.name, f"running the graph on input of shape {list(shape)}"):
            found: list[Array] = session.run(list(names), used)
        yield found


def count_flops(graph: Graph, length: int) -> int:
    """Floating-point operations for one input of `length` tokens, at run time: what constants give is free.

    A product of an m × k by a k × n matrix counts 2 m k n; all else is below 1 % of that, and not counted, as is usual.
    """
    batch = 2  # two, so that no batch axis looks like a broadcast one; the result is for one input
    known = layouts(graph, (batch, length))
    constant = graph.from_constants()
    # The decisions do not depend on what computes the output `hidden` of a causal model.
    values = [value for name, value in graph.outputs.items() if name != HIDDEN]
    needed: set[ir.Node] = set()
    while values:
        writer = values.pop().producer()
        if writer is not None and writer not in needed:
            needed.add(writer)
            values += reads(writer)
    total = 0
    for node in graph.nodes:
        if node.op_type in _COUNTS and node in needed and node.outputs[0] not in constant:
            inputs = [known[value].shape if value is not None else () for value in node.inputs]
            total += _COUNTS[node.op_type](inputs, known[node.outputs[0]].shape)
    return total // batch


_COUNTS: Mapping[str, Callable[[list[tuple[int, ...]], tuple[int, ...]], int]] = {
    "MatMul": lambda inputs, output: 2 * math.prod(output) * inputs[0][-1],
    "Gemm": lambda inputs, output: 2 * inputs[0][0] * inputs[0][1] * output[1],
    "Conv": lambda inputs, output: 2 * math.prod(output) * math.prod(inputs[1][1:]),
    # Scores and context: of queries [B, L, H] and keys [B, K, H].
    **dict.fromkeys(("MultiHeadAttention", "Attention"), lambda inputs, _: 4 * math.prod(inputs[0]) * inputs[1][1]),
}
