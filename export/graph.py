"""A small editing view of an ONNX graph, and running it to see what its tensors hold.

Passes rewrite a graph in place through `Graph` and end with `prune`, which drops what no output needs and restores the
topological order that ONNX demands. What a pass assumes about a tensor (its shape, that a mask is all zeros) it reads
off an actual run at several input shapes (`observe`) instead of inferring it; the parity check after the last pass
covers the whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

_Message = TypeVar("_Message", ModelProto, NodeProto, TensorProto)
_LARGEST_PROTOBUF = 2**31 - 2**20  # protobuf cannot serialise 2 GiB; larger weights go to a file beside the graph
_SMALLEST_APART = 1024  # bytes; what is smaller stays in the graph


class Graph:
    """The nodes and constants of one ONNX model, with lookups by tensor name.

    `producer` maps a tensor to the node that computes it; `constants` maps a tensor to its initializer. Both are kept
    up to date by `add`, `constant`, `replace_uses` and `prune`; after any other edit call `index`.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self._fresh = 0
        _constant_nodes_to_initializers(model)
        self.index()
        self._skip_identities()

    def copy(self) -> "Graph":
        """A twin of its own, to be rewritten."""
        return Graph(_copy(self.model))

    def index(self) -> None:
        """Rebuild the lookups from the protobuf."""
        self.producer: dict[str, NodeProto] = {out: node for node in self.nodes for out in node.output if out}
        self.constants: dict[str, TensorProto] = {tensor.name: tensor for tensor in self.model.graph.initializer}

    @property
    def nodes(self) -> Sequence[NodeProto]:
        """All nodes in topological order."""
        nodes: Sequence[NodeProto] = self.model.graph.node
        return nodes

    @property
    def inputs(self) -> list[str]:
        """Names of the graph's inputs."""
        return [value.name for value in self.model.graph.input]

    @property
    def outputs(self) -> list[str]:
        """Names of the graph's outputs."""
        return [value.name for value in self.model.graph.output]

    def consumers(self, tensor: str) -> list[NodeProto]:
        """Nodes that read a tensor."""
        return [node for node in self.nodes if tensor in reads(node)]

    def name(self, stem: str) -> str:
        """A tensor name that is not yet in use."""
        while True:
            self._fresh += 1
            name = f"{stem}_{self._fresh}"
            if name not in self.producer and name not in self.constants:
                return name

    def add(self, operator: str, inputs: Sequence[str], stem: str, *, domain: str = "", **attributes: object) -> str:
        """Append a node with one output; returns the output's name."""
        output = self.name(stem)
        node = helper.make_node(operator, list(inputs), [output], name=f"node_{output}", domain=domain, **attributes)
        self.model.graph.node.append(node)
        self.producer[output] = self.model.graph.node[-1]
        return output

    def constant(self, values: NDArray[np.generic], stem: str) -> str:
        """Add an initializer; returns its name."""
        name = self.name(stem)
        tensor = numpy_helper.from_array(np.ascontiguousarray(values), name)
        self.model.graph.initializer.append(tensor)
        self.constants[name] = self.model.graph.initializer[-1]
        return name

    def array(self, constant: str) -> NDArray[np.generic]:
        """The values of an initializer."""
        values: NDArray[np.generic] = numpy_helper.to_array(self.constants[constant])
        return values

    def replace_uses(self, old: str, new: str) -> None:
        """Let every node and graph output that reads `old` read `new`."""
        for node in self.nodes:
            for i, name in enumerate(node.input):
                if name == old:
                    node.input[i] = new
        if old in self.outputs:
            # An output keeps its public name: the tensor is renamed on the way out.
            value = next(v for v in self.model.graph.output if v.name == old)
            source = self.producer[old]
            source.output[list(source.output).index(old)] = self.name(old)
            self.model.graph.node.append(helper.make_node("Identity", [new], [value.name]))
            self.index()

    def rename(self, old: str, new: str) -> None:
        """Give a tensor that a node computes another name; one that has it already gets a fresh one."""
        if old == new:
            return
        if new in self.producer:
            self.rename(new, self.name(new))
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new
        self.index()

    def from_constants(self) -> set[str]:
        """Tensors that depend on no graph input: initializers and what is computed from them alone."""
        known = set(self.constants)
        for node in self.nodes:
            if node.input and all(not name or name in known for name in reads(node)):
                known.update(node.output)
        return known

    def _skip_identities(self) -> None:
        """Exporters let tensors that are equal share one value by way of Identity: read the value itself."""
        inside = {name for node in self.nodes for name in set(reads(node)) - set(node.input)}
        for node in [node for node in self.nodes if node.op_type == "Identity"]:
            if node.output[0] not in self.outputs and node.output[0] not in inside:
                self.replace_uses(node.output[0], node.input[0])

    def prune(self) -> None:
        """Drop nodes and initializers that no output needs and put the rest in topological order."""
        ordered: list[NodeProto] = []
        done: set[str] = {*self.inputs, *self.constants, ""}
        stack = list(reversed(self.outputs))
        while stack:  # depth first without recursion: graphs are deeper than Python's stack
            tensor = stack[-1]
            if tensor in done:
                stack.pop()
                continue
            node = self.producer[tensor]
            missing = [name for name in reads(node) if name not in done]
            if missing:
                stack.extend(missing)
                continue
            ordered.append(node)
            done.update(node.output)
        used = {name for node in ordered for name in reads(node)} | set(self.outputs)
        kept_tensors = [tensor for tensor in self.model.graph.initializer if tensor.name in used]
        kept_nodes = [_copy(node) for node in ordered]
        del self.model.graph.node[:]
        self.model.graph.node.extend(kept_nodes)
        if len(kept_tensors) < len(self.model.graph.initializer):
            kept_tensors = [_copy(tensor) for tensor in kept_tensors]
            del self.model.graph.initializer[:]
            self.model.graph.initializer.extend(kept_tensors)
        del self.model.graph.value_info[:]
        self.index()


def _copy(message: _Message) -> _Message:
    twin = type(message)()
    twin.CopyFrom(message)
    return twin


def _constant_nodes_to_initializers(model: ModelProto) -> None:
    """Passes look constants up in one place; exporters write them in two."""
    for node in [node for node in model.graph.node if node.op_type == "Constant"]:
        value = next((a.t for a in node.attribute if a.name == "value"), None)
        if value is None:
            continue
        tensor = _copy(value)
        tensor.name = node.output[0]
        model.graph.initializer.append(tensor)
        model.graph.node.remove(node)


def reads(node: NodeProto) -> list[str]:
    """All tensors that a node reads: its inputs, and what the graphs inside it (of an If, a Loop) take from outside."""
    names = list(node.input)
    for item in node.attribute:
        if item.type == onnx.AttributeProto.GRAPH:
            own = {value.name for value in (*item.g.input, *item.g.initializer)}
            for inner in item.g.node:
                names.extend(name for name in reads(inner) if name and name not in own)
                own.update(inner.output)
            names.extend(value.name for value in item.g.output if value.name not in own)
    return names


def attribute(node: NodeProto, name: str, default: object = None) -> object:
    """The value of a node's attribute, or the default where it has none."""
    for item in node.attribute:
        if item.name == name:
            return helper.get_attribute_value(item)
    return default


def attributes(node: NodeProto) -> dict[str, object]:
    """All attributes of a node, to give to a twin."""
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


def save(model: ModelProto, path: Path, *, weights_apart: bool = False) -> list[Path]:
    """Write a model, its weights in a file beside it if protobuf could not hold them, or if asked for.

    Returns:
        The files written, the graph first.
    """
    if not weights_apart and model.ByteSize() < _LARGEST_PROTOBUF:
        onnx.save(model, path)
        return [path]
    weights = path.with_name(path.name + "_data")
    # Of a copy, because the weights are taken out of what is saved.
    onnx.save(_copy(model), path, save_as_external_data=True, location=weights.name, size_threshold=_SMALLEST_APART)
    if not weights.exists():  # all are small
        return [path]
    weights.chmod(path.stat().st_mode)  # as readable as the graph: onnx writes it for its owner alone
    return [path, weights]


def save_sharing(model: ModelProto, path: Path, other: Path) -> list[Path]:
    """Write a model that reads the weights of the same names from the file of another, saved with `weights_apart`.

    The weights are taken out of the model.

    Returns:
        The file written.
    """
    apart = {
        tensor.name: tensor
        for tensor in onnx.load(other, load_external_data=False).graph.initializer
        if tensor.data_location == TensorProto.EXTERNAL
    }
    for tensor in model.graph.initializer:
        if tensor.name in apart:
            tensor.CopyFrom(apart[tensor.name])
    path.write_bytes(model.SerializeToString())
    return [path]


def observe(
    model: ModelProto, feeds: Mapping[str, NDArray[np.generic]], tensors: Iterable[str]
) -> dict[str, NDArray[np.generic]]:
    """Run a model and return the values of some of its inner tensors.

    Args:
        model: the graph; it is not changed.
        feeds: values of its inputs, integers; cast to what each input takes.
        tensors: names of the tensors wanted; constants and inputs are not allowed.
    """
    wanted = sorted(set(tensors))
    probe = ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    # Ids are int64 in a fresh export and int32 in a finished graph.
    kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
    used = {value.name: feeds[value.name].astype(kinds[value.type]) for value in session.get_inputs()}
    values = session.run(wanted, used)
    return dict(zip(wanted, values, strict=True))


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a finished graph, for two sentences of five tokens."""
    feeds = {name: np.full((2, 5) if name == "input_ids" else 2, 1, np.int32) for name in graph.inputs}
    written = [name for node in graph.nodes for name in node.output if name]
    found = {name: values.shape for name, values in observe(graph.model, feeds, written).items()}
    return found | {name: tuple(tensor.dims) for name, tensor in graph.constants.items()}
