"""Fuse biases and residual sums into the operator behind them, for CUDA.

A GPU spends a third of a layer on operators that compute next to nothing and read and write whole activations. Two
fused kernels save most of that traffic:

    LayerNormalization((x + bias) + skip)  ->  SkipLayerNormalization(x, skip, ·, ·, bias)
    Gelu(x + bias)                         ->  BiasGelu(x, bias)

On the CPU both are slower than their pieces, so the graph that is exported keeps these (`fuse`). A session would fuse
anew what it can, but finds no residual sums: it does not know the shapes behind a fused attention. Here shapes are
known from a run.
"""

from onnx import NodeProto, helper

from ..graph import Graph, attribute, shapes

_CONTRIB = "com.microsoft"


def fuse_residuals(graph: Graph) -> None:
    """Fuse in place, in a finished graph of any number of rows a sentence."""
    known = shapes(graph)
    for node in [*graph.nodes]:
        add = _alone(graph, node.input[0]) if node.op_type in {"Gelu", "LayerNormalization"} else None
        if add is None:
            continue
        last = {-1, len(known[add.output[0]]) - 1}
        if node.op_type == "Gelu" and node.domain == _CONTRIB:
            _fuse_gelu(graph, node, add)
        elif node.op_type == "LayerNormalization" and attribute(node, "axis", -1) in last:
            _fuse_normalisation(graph, node, add, known)
    graph.prune()


def _alone(graph: Graph, tensor: str) -> NodeProto | None:
    """The Add that writes a tensor."""
    node = graph.producer.get(tensor)
    return node if node is not None and node.op_type == "Add" else None


def _bias(graph: Graph, add: NodeProto) -> tuple[str, str] | None:
    """Of an Add, the tensor and the constant vector that is added to it."""
    vectors = [name for name in add.input if name in graph.constants and len(graph.constants[name].dims) == 1]
    if len(vectors) != 1:
        return None
    return next(name for name in add.input if name != vectors[0]), vectors[0]


def _fuse_gelu(graph: Graph, node: NodeProto, add: NodeProto) -> None:
    if (biased := _bias(graph, add)) is not None:
        graph.replace_uses(node.output[0], graph.add("BiasGelu", biased, "bias_gelu", domain=_CONTRIB))


def _fuse_normalisation(graph: Graph, node: NodeProto, add: NodeProto, known: dict[str, tuple[int, ...]]) -> None:
    first, second = add.input
    constant = first in graph.constants or second in graph.constants
    if constant or known[first] != known[second] or len(known[first]) not in {2, 3}:
        return
    inputs = [first, second, *node.input[1:], *([""] if len(node.input) == 2 else [])]
    for one, other in ((first, second), (second, first)):
        inner = _alone(graph, one)
        biased = _bias(graph, inner) if inner is not None and len(graph.consumers(one)) == 1 else None
        if biased is not None:
            inputs[:2], bias = [biased[0], other], biased[1]
            inputs.append(bias)
            break
    output, total = graph.name("normalised"), graph.name("residual_sum")
    fused = helper.make_node(
        "SkipLayerNormalization",
        inputs,
        [output, "", "", total],
        name=f"node_{output}",
        domain=_CONTRIB,
        epsilon=float(attribute(node, "epsilon", 1e-5)),  # type: ignore[arg-type]
    )
    used_elsewhere = len(graph.consumers(add.output[0])) > 1  # a model that normalises before its blocks
    if not used_elsewhere:
        del fused.output[1:]
    graph.model.graph.node.append(fused)
    graph.index()
    graph.replace_uses(node.output[0], output)
    if used_elsewhere:
        graph.replace_uses(add.output[0], total)
    known[output] = known[total] = known[add.output[0]]
