"""What a GPU would take for a graph: bytes and operations of each kernel, and what a device does of them in a second.

A kernel takes the longer of two times: its operations at the device's rate of products, its bytes at the rate of its
memory. Activations count as if no cache held them. Every constant has its source; those that were *fitted* or
*assumed* say so, and `make gpu` prints what a real device takes beside them.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import onnx_ir as ir

from ..export.graph import Graph, attribute, given, is_constant, reads
from ..export.observe import layouts

LAUNCH = 5e-6  # seconds of a host thread for a kernel. Assumed: 3 to 8 µs are usual
SHORTEST = 2.5e-6  # seconds of the shortest kernel. Fitted to one sentence on an A100 (0.67 ms, about 85 kernels)
SYNCHRONISE = 2e-5  # seconds until a thread knows that its batch is done. Assumed
COPY, COPIED = 1e-5, 2.5e10  # seconds of a copy, assumed, and bytes a second over PCIe 4.0 × 16 (its standard: 32 GB/s)


@dataclass(frozen=True)
class Gpu:
    """A device's peaks: products without sparsity, in fp16 with sums in fp32, and in fp32 without TF32."""

    name: str
    fp16: float  # operations a second
    fp32: float
    memory: float  # bytes a second
    watts: float
    multiprocessors: int  # each computes one tile of a product at a time
    reached: float  # share of the peak that products in fp16 reach where all of them are busy
    reached_fp32: float = 0.7  # the same in fp32. Assumed; fitted for the T4
    reached_memory: float = 0.85  # share of the memory's rate that other kernels reach. Assumed; fitted for the H200


# All but the shares: NVIDIA's data sheets of these names, and its white papers on Hopper, Ampere, Ada and Turing. The
# shares of A100 and T4 are fitted to one figure each of docs/measured/simulation.csv; the T4's is that low because of
# its 70 W. Those of the H200 are fitted to its kernels as they were measured; the H100 is assumed to be alike. Assumed:
# the L4 (72 W) as the T4, the RTX 4090 as the A100.
GPUS = {
    "h100": Gpu("H100 SXM", 989e12, 67e12, 3.35e12, 700, 132, 0.6, 0.62, 0.42),
    "h200": Gpu("H200 SXM", 989e12, 67e12, 4.8e12, 700, 132, 0.6, 0.62, 0.42),
    "a100": Gpu("A100 SXM 40 GB", 312e12, 19.5e12, 1.555e12, 400, 108, 0.79),
    "l4": Gpu("L4", 121e12, 30.3e12, 0.3e12, 72, 58, 0.38),
    "rtx4090": Gpu("RTX 4090", 165e12, 82.6e12, 1.008e12, 450, 128, 0.79),
    "t4": Gpu("T4", 65e12, 8.1e12, 0.32e12, 70, 40, 0.36, 0.56),
}

_TILE = 128  # rows and columns that a multiprocessor computes at a time: the usual tile of cuBLAS
PRODUCTS, HEAD, ATTENTION, OTHERS = "products", "vocabulary's head", "attention", "normalisation, activation, sums"
CLASSES = (PRODUCTS, ATTENTION, OTHERS, HEAD)


class Kernel(NamedTuple):
    """One kernel: what it computes and moves."""

    kind: str  # one of `CLASSES`
    operations: float  # of products
    bytes: float  # read and written
    tiles: float = 0  # of a product's result; 0: unknown


def seconds(kernel: Kernel, gpu: Gpu, kind: str) -> float:
    """What a kernel takes on a device, `kind` the type of its products."""
    rate = gpu.fp32 * gpu.reached_fp32 if kind == "fp32" else gpu.fp16 * gpu.reached
    rounds = kernel.tiles / gpu.multiprocessors  # in the last round, some multiprocessors have nothing to do
    computing = kernel.operations / rate * (math.ceil(rounds) / rounds if rounds else 1)
    return max(SHORTEST, computing, kernel.bytes / (gpu.memory * gpu.reached_memory))


def tiles(rows: int, columns: int) -> int:
    """Of the result of a product."""
    return math.ceil(rows / _TILE) * math.ceil(columns / _TILE)


_BYTES = {"tensor(float)": 4, "tensor(float16)": 2, "tensor(int64)": 8, "tensor(int32)": 4, "tensor(bool)": 1}
_PRODUCTS, _ATTENTION = {"MatMul", "Gemm"}, {"MultiHeadAttention", "Attention"}
_VIEWS = {"Reshape", "Squeeze", "Unsqueeze", "Shape", "Identity"}  # no kernel: the same memory, or the host's
_PICKS = {"Gather", "GatherND", "GatherElements", "Slice"}  # read what they write, not all that they could
_PROBES = ((2, 5), (3, 7))


class GraphKernels:
    """The kernels of a graph on CUDA, for any number of sentences and tokens."""

    def __init__(self, path: Path, outputs: Sequence[str]) -> None:
        graph = Graph.open(path)
        self._known = [layouts(graph, probe) for probe in _PROBES]
        fixed, needed = graph.from_constants(), set[ir.Node]()
        values = [value for name, value in graph.outputs.items() if name in outputs]
        while values:
            writer = values.pop().producer()
            if writer is not None and writer not in needed:
                needed.add(writer)
                values += reads(writer)
        computed = (node for node in graph.nodes if node in needed and node.outputs[0] not in fixed)
        self._nodes = [node for node in computed if node.op_type not in _VIEWS]
        last = max(at for at, node in enumerate(self._nodes) if node.op_type in _PRODUCTS)
        self._head = {node.name for node in self._nodes[last:]}  # from the product with the vocabulary on

    @cached_property
    def kind(self) -> str:
        product = next(node for node in self._nodes if node.op_type in _PRODUCTS)
        return "fp16" if self._known[0][product.outputs[0]].kind == "tensor(float16)" else "fp32"

    def of(self, sentences: int, length: int) -> list[Kernel]:
        """The kernels of a batch; those of no more than a few numbers a sentence count as launches."""

        def shape(value: ir.Value) -> tuple[int, ...]:
            both = (known[value].shape for known in self._known)
            return tuple(_grown(one, other, sentences, length) for one, other in zip(*both, strict=True))

        def size(value: ir.Value | None) -> float:
            if value is None or value not in self._known[0]:
                return 0.0
            constant = value.dtype.itemsize if is_constant(value) and value.dtype is not None else 0
            return float(math.prod(shape(value)) * (constant or _BYTES.get(self._known[0][value].kind, 4)))

        def moved(node: ir.Node) -> float:
            written = sum(size(value) for value in node.outputs if value.name)
            if node.op_type in _PICKS:
                return 2 * written
            read = sum(size(value) for value in dict.fromkeys(node.inputs))
            if node.op_type in _ATTENTION:
                queries, keys, own = *map(given, node.inputs[:2]), sum(map(size, node.inputs[:3]))
                if len(node.inputs) > 3 and node.inputs[3] is not None:
                    written += 2 * own  # biases are added into a copy of queries, keys and values
                if self.kind == "fp32":  # unfused: heads are made apart, and scores written and read
                    heads = attribute(node, "num_heads", 0) or attribute(node, "q_num_heads")
                    written += 2 * own + 16.0 * sentences * heads * shape(queries)[1] * shape(keys)[1]
            return written + read

        def work(node: ir.Node) -> tuple[float, int]:
            """Its operations, and the tiles of its result."""
            if node.op_type in _PRODUCTS:
                *rows, columns = shape(node.outputs[0])
                taken = shape(given(node.inputs[0]))[-1]
                return 2.0 * math.prod(rows) * columns * taken, tiles(math.prod(rows), columns)
            if node.op_type in _ATTENTION:
                return 4.0 * math.prod(shape(given(node.inputs[0]))) * shape(given(node.inputs[1]))[1], 0
            return 0.0, 0

        of = ((self.kind_of(node.op_type, str(node.name)), *work(node), moved(node)) for node in self._nodes)
        return [Kernel(kind, operations, size, cut) for kind, operations, cut, size in of]

    def kind_of(self, operator: str, name: str) -> str:
        """One of `CLASSES`, of a node."""
        if name in self._head:
            return HEAD
        return PRODUCTS if operator in _PRODUCTS else ATTENTION if operator in _ATTENTION else OTHERS


def by_class(kernels: Sequence[Kernel], gpu: Gpu, kind: str) -> dict[str, float]:
    """Kind of kernel → seconds of all of them on a device."""
    took: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        took[kernel.kind] += seconds(kernel, gpu, kind)
    return took


def _grown(one: int, other: int, sentences: int, length: int) -> int:
    """An axis of a batch, from those of two small ones: constant, or a multiple of sentences, tokens, or both."""
    (n, tokens), (more, longer) = _PROBES
    for small, large, grown in ((1, 1, 1), (n, more, sentences), (tokens, longer, length)):
        if one * large == other * small:
            return one * grown // small
    return one * sentences * length // (n * tokens)
