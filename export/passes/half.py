"""fp16 for CUDA: the trunk in half precision, the decision in single.

Half precision has 11 bits of mantissa, enough for a transformer's activations, and ends at 65,504, which is not always
enough. So nothing is converted on trust:

- Only operators known to be safe become fp16. Products accumulate in fp32, the fused normalisations take their
  statistics and the fused attention its softmax in fp32; unfused pieces of these (means, powers, roots, exponentials)
  stay fp32, as does whatever is not listed.
- An operator stays fp32 if a value that it reads or writes came within a factor of 8 of the end of the range on real
  sentences and on strings of random tokens up to the longest, if a weight does, or if a scalar constant (an epsilon, a
  mask's fill) is no longer itself in fp16.
- All that follows the vocabulary product stays fp32: bias, top-2, rank, log-sum-exp. The product itself is fp16: alone
  in fp32 it would take a fifth of the time, as fp32 runs past a GPU's tensor cores.

A tensor has the type of the operator that writes it; where a reader wants the other one, one Cast stands between.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto

from ..graph import Graph, observe, reads
from .residual import fuse_residuals

Feeds = dict[str, NDArray[np.int32]]

LARGEST = float(np.finfo(np.float16).max)
HEADROOM = 8.0  # between the largest value seen and the end of the range: other sentences will have larger ones

_PRODUCTS = frozenset({"MatMul", "Gemm"})
_SAFE = _PRODUCTS | {
    "MultiHeadAttention",
    "LayerNormalization",
    "SkipLayerNormalization",
    *("Gelu", "BiasGelu", "FastGelu", "Relu", "Tanh", "Erf", "Sigmoid"),
    *("Add", "Sub", "Mul", "Div", "Neg", "Where"),
    *("Gather", "GatherND", "Slice", "Split", "Concat", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Expand"),
}


@dataclass(frozen=True)
class Half:
    """What became of a graph.

    Attributes:
        graph: the twin, with the same inputs and outputs.
        products: matrix products and attentions in fp16.
        kept: operators of the trunk that could have been fp16 but for their values, as `operator name: why`.
    """

    graph: Graph
    products: int
    kept: tuple[str, ...]


def half(graph: Graph, sentences: Sequence[Feeds]) -> Half:
    """An fp16 twin of a finished graph.

    Args:
        graph: with hoist and decision head; it is not changed.
        sentences: batches of real sentences, to measure the range of every tensor on.
    """
    twin = graph.copy()
    fuse_residuals(twin)
    peaks = _peaks(twin, sentences)
    decision = _decision(twin)
    reasons = {
        node.output[0]: _too_wide(twin, node, peaks)
        for node in twin.nodes
        if node.op_type in _SAFE and node.output[0] in peaks and node.output[0] not in decision
    }
    # A graph inside a node (an If, a Loop) reads tensors that no Cast can stand before: they keep their type.
    captured = {name for node in twin.nodes for name in set(reads(node)) - set(node.input)}
    halved = [node for node in twin.nodes if reasons.get(node.output[0]) == "" and captured.isdisjoint([*node.output])]
    _convert(twin, halved, set(peaks))
    twin.prune()
    return Half(
        graph=twin,
        products=sum(node.op_type in _PRODUCTS | {"MultiHeadAttention"} for node in halved),
        kept=tuple(f"{_kind(twin, name)} {name}: {why}" for name, why in reasons.items() if why),
    )


def _kind(graph: Graph, output: str) -> str:
    return str(graph.producer[output].op_type)


def _peaks(graph: Graph, sentences: Sequence[Feeds]) -> dict[str, float]:
    """The largest magnitude of every fp32 tensor that a node writes, over all sentences; infinite if not finite."""
    written = [name for node in graph.nodes for name in node.output if name]
    peaks: dict[str, float] = {}
    for feeds in sentences:
        for name, values in observe(graph.model, feeds, written).items():
            if values.dtype == np.float32:
                largest = float(np.abs(values).max(initial=0))
                peaks[name] = max(peaks.get(name, 0.0), largest if np.isfinite(largest) else np.inf)
    return peaks


def _decision(graph: Graph) -> set[str]:
    """Everything behind the vocabulary product, from its bias on."""
    logits = "logits"
    bias: set[str] = set()
    while (node := graph.producer[logits]).op_type not in _PRODUCTS and node.op_type in _SAFE:
        bias.add(logits)
        computed = [name for name in node.input if name in graph.producer]
        if len(computed) != 1:
            break
        logits = computed[0]
    behind = {logits, *bias}
    for node in graph.nodes:
        if not behind.isdisjoint(node.input):
            behind.update(node.output)
    is_product = graph.producer[logits].op_type in _PRODUCTS
    return behind - {logits} if is_product else behind


def _too_wide(graph: Graph, node: NodeProto, peaks: dict[str, float]) -> str:
    """Why a node's values do not fit into fp16, empty if they do."""
    for name in (*node.input, *node.output):
        if name in peaks and not peaks[name] <= LARGEST / HEADROOM:
            return f"|{name}| reaches {peaks[name]:.3g}"
        if name in graph.constants and graph.constants[name].data_type == TensorProto.FLOAT:
            values = graph.array(name)
            largest = float(np.abs(values).max(initial=0))
            if not largest <= LARGEST / HEADROOM:
                return f"constant {name} reaches {largest:.3g}"
            if values.size == 1 and not math.isclose(float(np.float16(values.item())), values.item(), rel_tol=1e-3):
                return f"constant {name} is {values.item():.3g}"
    return ""


def _convert(graph: Graph, halved: Sequence[NodeProto], computed: set[str]) -> None:
    """Let the nodes of `halved` run in fp16, with casts where the types meet.

    Args:
        graph: changed in place.
        halved: some of its nodes.
        computed: all fp32 tensors that its nodes write.
    """
    in_half = {name for node in halved for name in node.output if name in computed}
    names = {node.output[0] for node in halved}
    twins: dict[str, str] = {}

    def other(name: str, to: int) -> str:
        if name not in twins:
            if name in graph.constants:
                twins[name] = graph.constant(graph.array(name).astype(np.float16), f"{name}_half")
            else:
                twins[name] = graph.add("Cast", [name], f"{name}_cast", to=to)
        return twins[name]

    for node in [*graph.nodes]:
        is_half = node.output[0] in names
        for i, name in enumerate(node.input):
            is_constant = name in graph.constants and graph.constants[name].data_type == TensorProto.FLOAT
            if is_half and (is_constant or (name in computed and name not in in_half)):
                node.input[i] = other(name, TensorProto.FLOAT16)
            elif not is_half and name in in_half:
                node.input[i] = other(name, TensorProto.FLOAT)
