"""int8 for the CPU: products with constant matrices on 8-bit weights and activations, scales taken at run time.

What makes 8 bits coarse is a handful of channels behind the feed-forward activations that are many times larger than
the rest: one scale for the whole tensor then leaves few steps for all others. These channels are known from real
sentences, and can be split off for nothing, because a feed-forward block is a sum over its inner channels:

    gelu(x A + a) B  =  gelu(x A₁ + a₁) B₁ + gelu(x A₂ + a₂) B₂

The few outliers (A₂, B₂) stay in fp32, the rest goes to int8 with a scale that fits it (the mixed decomposition of
Dettmers et al. 2022, LLM.int8(), with the channels fixed beforehand). Products for the mask's row alone and the
vocabulary projection stay in fp32: they cost next to nothing after the hoist, and sit closest to the logits.

Weights use 7 of their 8 bits: processors without VNNI add pairs of products in 16 bits, which would saturate.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto
from onnxruntime.quantization import QuantType, quantize_dynamic

from ..graph import Graph, observe, save

_OUTLIERS = 16  # a multiple of the processor's vector width
_ACTIVATIONS = frozenset({"BiasGelu", "Gelu", "FastGelu", "Relu"})

Feeds = dict[str, NDArray[np.int32]]


@dataclass(frozen=True)
class _FeedForward:
    """MatMul, activation, MatMul: the second one's input channels are the first one's output channels."""

    first: NodeProto
    activation: NodeProto
    second: NodeProto


def quantize(graph: Graph, sentences: Sequence[Feeds]) -> Graph:
    """An int8 twin of a finished graph.

    Args:
        graph: with hoist and decision head; it is not changed.
        sentences: batches of real sentences, to find the outlying channels on.

    Returns:
        The quantized graph, with the same inputs and outputs.
    """
    twin = Graph(_copy(graph.model))
    blocks = _feed_forwards(twin)
    peaks = _channel_peaks(twin, [block.activation.output[0] for block in blocks], sentences)
    for block in blocks:
        _split_outliers(twin, block, peaks[block.activation.output[0]])
    twin.prune()
    rows = _mask_row_tensors(twin)
    kept = [node.name for node in twin.nodes if node.op_type == "MatMul" and not _is_worth_it(twin, node, rows)]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "model.onnx", Path(folder) / "int8.onnx"
        save(twin.model, source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=kept,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT, "MatMulConstBOnly": True},
        )
        return Graph(onnx.load(target))


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    return twin


def _feed_forwards(graph: Graph) -> list[_FeedForward]:
    found = []
    for second in graph.nodes:
        activation = graph.producer.get(second.input[0]) if second.op_type == "MatMul" else None
        if activation is None or activation.op_type not in _ACTIVATIONS or second.input[1] not in graph.constants:
            continue
        first = graph.producer.get(activation.input[0])
        if first is None or first.op_type != "MatMul" or first.input[1] not in graph.constants:
            continue
        alone = all(len(graph.consumers(node.output[0])) == 1 for node in (first, activation))
        if alone and all(name in graph.constants for name in activation.input[1:]):
            found.append(_FeedForward(first, activation, second))
    rows = _mask_row_tensors(graph)
    return [block for block in found if block.second.output[0] not in rows]


def _channel_peaks(graph: Graph, tensors: list[str], sentences: Sequence[Feeds]) -> dict[str, NDArray[np.float32]]:
    """The largest magnitude of each channel over all sentences, float32 [channels]."""
    peaks: dict[str, NDArray[np.float32]] = {}
    for feeds in sentences if tensors else []:
        for name, values in observe(graph.model, feeds, tensors).items():
            largest = np.abs(values).reshape(-1, values.shape[-1]).max(axis=0)
            peaks[name] = np.maximum(peaks.get(name, largest), largest)
    return peaks


def _split_outliers(graph: Graph, block: _FeedForward, peaks: NDArray[np.float32]) -> None:
    order = np.argsort(peaks, kind="stable")
    rest, outliers = np.sort(order[:-_OUTLIERS]), np.sort(order[-_OUTLIERS:])
    if len(rest) == 0:
        return
    halves = [_half(graph, block, channels, stem) for channels, stem in ((rest, "rest"), (outliers, "outliers"))]
    graph.replace_uses(block.second.output[0], graph.add("Add", halves, "feed_forward"))


def _half(graph: Graph, block: _FeedForward, channels: NDArray[np.int64], stem: str) -> str:
    def part(constant: str, axis: int) -> str:
        return graph.constant(graph.array(constant).take(channels, axis), f"{stem}_weight")

    inner = graph.add("MatMul", [block.first.input[0], part(block.first.input[1], 1)], f"{stem}_inner")
    inputs = [inner, *(part(name, 0) for name in block.activation.input[1:])]
    active = graph.add(block.activation.op_type, inputs, f"{stem}_active", domain=block.activation.domain)
    return graph.add("MatMul", [active, part(block.second.input[1], 0)], f"{stem}_outer")


def _mask_row_tensors(graph: Graph) -> set[str]:
    """Tensors with one row a sentence: all that depends on the mask position."""
    rows = {"mask_position"}
    for node in graph.nodes:
        if not rows.isdisjoint(node.input):
            rows.update(node.output)
    return rows


def _is_worth_it(graph: Graph, node: NodeProto, rows: set[str]) -> bool:
    if node.input[1] not in graph.constants or node.output[0] in rows:
        return False
    return min(int(size) for size in graph.constants[node.input[1]].dims) > _OUTLIERS
