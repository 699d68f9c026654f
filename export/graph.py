"""An ONNX graph that is being rewritten, onnx-ir's; its weights are ranges of bytes in a file beside it.

They are mapped into memory where a pass asks for their values; a pass that makes a new weight appends it to the file.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import ModelProto
from onnx_ir.passes.common import LiftConstantsToInitializersPass, RemoveUnusedNodesPass, TopologicalSortPass

_SMALLEST_APART = 1024  # bytes; what is smaller stays in the graph
_STANDS_FOR = "stands for"
_ELEMENTWISE = {"Add", "Sub", "Mul", "Div"}
AXES_ARE_INPUTS = 18  # from this operator set on, of all reductions; of sums from 13 on
_PAGE = 4096  # bytes; a weight that begins on a page can be mapped into memory as it is

Array = NDArray[np.generic]
Found = TypeVar("Found")


class Graph:
    """One ONNX model whose graph is rewritten in place."""

    def __init__(self, model: ir.Model, weights: Path | None = None, name: str = "the model") -> None:
        self.weights, self.name = weights, name
        self._fresh = 0
        self._take(model)

    @classmethod
    def open(cls, path: Path, weights: Path | None = None, name: str = "the model") -> "Graph":
        return cls(ir.load(path), weights, name)

    def become(self, proto: ModelProto) -> None:
        """Take over what a library has made of `proto`; weights are again where they are on disk."""
        weights = {value.name: value.const_value for value in self.initializers}
        self._take(ir.from_proto(proto))
        for value in self.initializers:
            value.const_value = weights.get(value.name, value.const_value)

    def _take(self, model: ir.Model) -> None:
        self.model = model
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        for node in self.nodes:  # onnx-ir's own pass fails where an If passes on a value from outside
            if node.op_type == "Identity" and not node.outputs[0].is_graph_output() and node.inputs[0] is not None:
                node.outputs[0].replace_all_uses_with(node.inputs[0])
                model.graph.remove(node, safe=True)

    @property
    def nodes(self) -> list[ir.Node]:  # in topological order after `prune`
        return list(self.model.graph)

    @property
    def opset(self) -> int:
        return self.model.graph.opset_imports[""]

    @property
    def inputs(self) -> dict[str, ir.Value]:
        return {str(value.name): value for value in self.model.graph.inputs}

    @property
    def outputs(self) -> dict[str, ir.Value]:
        return {str(value.name): value for value in self.model.graph.outputs}

    @property
    def initializers(self) -> list[ir.Value]:
        return list(self.model.graph.initializers.values())

    def from_constants(self) -> set[ir.Value]:
        """Values that depend on no input of the graph: initializers and what is computed from them alone."""
        known = set(self.initializers)
        for node in self.nodes:
            read = reads(node)
            if read and all(value in known for value in read):
                known.update(node.outputs)
        return known

    def fresh(self, stem: str) -> str:
        if not self._fresh:
            values = [value.name for node in self.nodes for value in node.outputs]
            self._taken = {*values, *self.inputs, *self.model.graph.initializers}
        while True:
            self._fresh += 1
            name = f"{stem}_{self._fresh}"
            if name not in self._taken:
                return name

    def add(self, operator: str, inputs: Sequence[ir.Value | None], stem: str, **own: Any) -> ir.Value:
        """Append a node with one output, which is returned; its own are its attributes, and perhaps a `domain`."""
        return self.add_node(operator, inputs, [stem], **own)[0]

    def add_node(
        self, operator: str, inputs: Sequence[ir.Value | None], stems: Sequence[str], domain: str = "", **own: Any
    ) -> Sequence[ir.Value]:
        """Append a node with an output for each stem, or no output there where the stem is empty."""
        outputs = [ir.Value(name=self.fresh(stem) if stem else "") for stem in stems]
        node = ir.node(operator, inputs, own, domain=domain, outputs=outputs, name=f"node_{outputs[0].name}")
        self.model.graph.append(node)
        return node.outputs

    def constant(self, values: Array, stem: str) -> ir.Value:
        return self.register(self._kept(values, self.fresh(stem)))

    def reshaped(self, value: ir.Value, shape: Sequence[int], stem: str) -> ir.Value:
        """An initializer's values in another shape, which are the same bytes of the file of weights."""
        tensor, name = value.const_value, self.fresh(stem)
        if not isinstance(tensor, ir.ExternalTensor):
            return self.constant(array(value).reshape(shape), stem)
        place = (tensor.location, tensor.offset, tensor.length, tensor.dtype)
        return self.register(ir.ExternalTensor(*place, shape=ir.Shape(shape), name=name, base_dir=tensor.base_dir))

    def numbers(self, *values: int, stem: str = "number") -> ir.Value:  # int64 [n]
        return self.constant(np.array(values, np.int64), stem)

    def number(self, value: int, stem: str) -> ir.Value:  # int64 []
        return self.constant(np.array(value, np.int64), stem)

    def _kept(self, values: Array, name: str) -> ir.TensorProtocol:
        if self.weights is not None and values.nbytes >= _SMALLEST_APART:
            values = np.ascontiguousarray(values)
            with self.weights.open("ab") as stream:  # which grows by them
                stream.write(b"\0" * (-stream.tell() % _PAGE))
                offset = stream.tell()
                values.tofile(stream)
            file, size, dtype = self.weights, values.nbytes, ir.DataType.from_numpy(values.dtype)
            shape, folder = ir.Shape(values.shape), str(file.parent)
            return ir.ExternalTensor(file.name, offset, size, dtype, shape=shape, name=name, base_dir=folder)
        return ir.tensor(np.asarray(values, order="C"), name=name)  # `ascontiguousarray` gives a number an axis

    def keep(self, weights: Mapping[ir.Value, Callable[[], Array]]) -> None:
        """Turn values that no node writes into initializers, one by one from where they are in memory.

        The transposed form, by which a linear layer multiplies, is written, unless something else reads a weight too.
        """
        for value, read in weights.items():
            values, uses = read(), value.uses()
            order = _only_transposed(value)
            if order is not None:
                for node in list(value.consumers()):
                    node.outputs[0].replace_all_uses_with(value)
                    self.model.graph.remove(node, safe=True)
                values = values.transpose(order)
            elif (
                uses
                and not value.is_graph_output()
                and all(own.op_type == "Gemm" and at == 1 and attribute(own, "transB", 0) == 1 for own, at in uses)
            ):
                for node in value.consumers():
                    del node.attributes["transB"]
                values = values.T
            tensor = self._kept(values, str(value.name))
            value.const_value, value.type = tensor, ir.TensorType(tensor.dtype)
            value.shape = ir.Shape(tensor.shape.numpy())
            self.model.graph.register_initializer(value)

    def later(self, make: Callable[[], Array], like: ir.Value, shape: Sequence[int], stem: str) -> ir.Value:
        """Add an initializer whose values are computed each time that they are asked for, the last time by `save`."""
        name, dtype = self.fresh(stem), like.const_value.dtype if like.const_value is not None else ir.DataType.FLOAT
        return self.register(ir.LazyTensor(lambda: ir.tensor(make()), dtype=dtype, shape=ir.Shape(shape), name=name))

    def register(self, tensor: ir.TensorProtocol) -> ir.Value:
        shape = ir.Shape(tensor.shape.numpy())
        value = ir.Value(name=tensor.name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
        self.model.graph.register_initializer(value)
        return value

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let all that reads `old` read `new`, which then `stands_for` it; an output keeps its name, type and shape."""
        new.meta.setdefault(_STANDS_FOR, stands_for(old))
        if not old.is_graph_output():
            old.replace_all_uses_with(new)
            return
        name, kind, shape = str(old.name), old.type, old.shape
        if new.is_graph_input() or new.is_initializer() or new.is_graph_output():
            new = self.add("Identity", [new], name)
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name = self.fresh(name)
        new.name, new.type, new.shape = name, kind, shape

    def add_input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))
        self.model.graph.inputs.append(value)
        return value

    def set_outputs(self, outputs: Mapping[str, tuple[ir.Value, ir.DataType, Sequence[int | str]]]) -> None:
        """Replace the outputs: public name → value, type, shape."""
        names = {value.name: value for node in self.nodes for value in node.outputs}
        for name, (value, dtype, shape) in outputs.items():
            if name in names and names[name] is not value:
                names[name].name = self.fresh(name)
            value.name, value.type, value.shape = name, ir.TensorType(dtype), ir.Shape(shape)
        self.model.graph.outputs[:] = [value for value, *_ in outputs.values()]

    def prune(self) -> None:
        """Drop what no output needs and put the rest in topological order."""
        TopologicalSortPass()(self.model)
        RemoveUnusedNodesPass()(self.model)

    def proto(self, *, vectors_inside: bool = False) -> ModelProto:
        """The model as protobuf, without its weights; on demand with its vectors and what is added or multiplied."""
        proto: ModelProto = ir.to_proto(self.model)
        for tensor in proto.graph.initializer if vectors_inside else []:
            value = self.model.graph.initializers[tensor.name]
            is_inside = len(dims(value)) < 2 or {node.op_type for node in value.consumers()} <= _ELEMENTWISE
            if isinstance(value.const_value, ir.ExternalTensor) and is_inside:
                tensor.CopyFrom(ir.to_proto(ir.tensor(array(value), name=tensor.name)))
        return proto

    @property
    def folder(self) -> str:  # of its weights; empty if they are all in the graph
        apart = (value.const_value for value in self.initializers)
        return next((str(tensor.base_dir) for tensor in apart if isinstance(tensor, ir.ExternalTensor)), "")

    def save(self, path: Path) -> list[Path]:
        """Write the graph, in the folder of its weights; returns its file and, if it appended weights, theirs."""
        for value in self.initializers:
            if isinstance(value.const_value, ir.LazyTensor):
                value.const_value = self._kept(array(value), str(value.name))
        path.write_bytes(self.proto().SerializeToString())
        return [path, *([self.weights] if self.weights is not None and self.weights.exists() else [])]


def like(new: ir.Value, old: ir.Value) -> None:
    """Let a new value count as one of the graph's file, whose magnitudes are known: its own are about the same."""
    new.meta[_STANDS_FOR] = stands_for(old)


def stands_for(value: ir.Value) -> str:
    """The name that a value, or the first one that it replaced, had in the graph's file."""
    return str(value.meta.get(_STANDS_FOR, value.name))


def array(value: ir.Value | None) -> Array:
    """The values of an initializer, copied, so that what is mapped of its file is given back."""
    is_mapped = value is not None and isinstance(value.const_value, ir.ExternalTensor)
    return of_values(value, np.copy if is_mapped else np.asarray)


def of_values(value: ir.Value | None, compute: Callable[[Array], Found]) -> Found:
    """What is computed of an initializer's values where they lie: a copy of a weight takes longer than most results."""
    tensor = value.const_value if value is not None else None
    if tensor is None:
        raise ValueError(f"{value} is not a constant")
    found = compute(tensor.numpy())
    if isinstance(tensor, ir.ExternalTensor):
        tensor.release()
    return found


def _only_transposed(value: ir.Value) -> list[int] | None:
    """The order of axes if all that is done with a weight is to transpose it in that one way."""
    nodes = value.consumers()
    if not nodes or value.is_graph_output() or any(node.op_type != "Transpose" for node in nodes):
        return None
    if any(node.outputs[0].is_graph_output() for node in nodes):
        return None
    orders = [attribute(node, "perm") for node in nodes]
    return list(orders[0]) if orders[0] is not None and all(order == orders[0] for order in orders) else None


def is_constant(value: ir.Value | None) -> bool:
    """Whether a value is an initializer."""
    return value is not None and value.const_value is not None and value.producer() is None


def dims(value: ir.Value | None) -> tuple[int, ...]:
    """The shape of an initializer."""
    return tuple(value.const_value.shape.numpy()) if value is not None and value.const_value is not None else ()


def is_scalar(value: ir.Value | None) -> bool:
    """Whether a value is an initializer of one number."""
    return is_constant(value) and int(np.prod(dims(value))) == 1


def bias_of(add: ir.Node | None) -> tuple[ir.Value, ir.Value] | None:
    """Of an Add, the value and the constant vector that is added to it."""
    inputs = [value for value in add.inputs if value is not None] if add is not None else []
    vectors = [value for value in inputs if is_constant(value) and len(dims(value)) == 1]
    return (next(one for one in inputs if one is not vectors[0]), vectors[0]) if len(vectors) == 1 else None


def given(value: ir.Value | None) -> ir.Value:
    """An input that a node has."""
    if value is None:
        raise ValueError("an operator lacks an input")
    return value


def numbers_in(value: ir.Value | None) -> Any:
    """The numbers of an initializer in lists, as they stand; None for another value."""
    return array(value).tolist() if is_constant(value) else None


def reads(node: ir.Node) -> list[ir.Value]:
    """All values that a node reads: its inputs, and what it has `captured`."""
    return [value for value in node.inputs if value is not None] + captured(node)


def captured(node: ir.Node) -> list[ir.Value]:
    """What the graphs inside a node (of an If, a Loop) take from outside."""
    found: list[ir.Value] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graph = attribute.as_graph()
            inner = [value for other in graph for value in reads(other)]
            found += [value for value in (*inner, *graph.outputs) if value.graph is not graph]
    return found


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """Its value, or the default where the node has none."""
    return node.attributes[name].value if name in node.attributes else default


def attributes(node: ir.Node) -> dict[str, Any]:
    """All of them by name."""
    return {name: item.value for name, item in node.attributes.items()}


def written_by(value: ir.Value | None, *kinds: str) -> ir.Node | None:
    """The node that writes a value, if it is one of these operators."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type in kinds else None


def only_reader(value: ir.Value, *kinds: str) -> ir.Node | None:
    """The one node that reads a value, if it is one of these operators and the value is not an output of the graph."""
    readers = value.consumers()
    if len(readers) != 1 or value.is_graph_output() or readers[0].op_type not in kinds:
        return None
    return readers[0]
