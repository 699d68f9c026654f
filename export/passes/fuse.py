"""Fuse LayerNormalization, GELU and residual sums into single operators."""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_by_fusion

from ...engine.basics.errors import InputError
from ..graph import Graph, attribute, bias_of, is_constant, written_by
from ..observe import Layout, layouts, told_in_one_line
from .context import Context

_CONTRIB = "com.microsoft"


def fuse_operators(graph: Graph, context: Context) -> Mapping[str, Any]:
    """Fuse LayerNormalization and GELU into single operators, by ONNX Runtime's optimizer for transformers.

    Demands that attention is fused already (`fuse_attention` says why that is done by a pass of its own). Where the
    family has the standard form, a layer without a fused attention is an InputError.
    """
    options = FusionOptions("bert")
    options.enable_attention = False
    # Residual sums and biases stay operators of their own: on CUDA the session fuses them anew (SkipLayerNormalization,
    # BiasGelu), and on the CPU those fused kernels are slower than the pieces.
    options.enable_skip_layer_norm = False
    options.enable_bias_skip_layer_norm = False
    options.enable_bias_gelu = False
    options.enable_rotary_embeddings = False  # `rotate` has done that, where the form is known
    options.enable_embed_layer_norm = False  # its operator wants position and segment machinery that is gone by now
    with told_in_one_line(graph.name, "fusing its operators"):
        fused = optimize_by_fusion(graph.proto(vectors_inside=True), "bert", optimization_options=options)
    graph.become(fused.model)
    graph.model.graph.opset_imports[_CONTRIB] = 1
    graph.prune()
    kinds = [node.op_type for node in graph.nodes]
    found = {
        "attention": kinds.count("MultiHeadAttention"),
        "layer_norm": sum(kind in {"LayerNormalization", "SkipLayerNormalization"} for kind in kinds),
        "gelu": sum(kind in {"Gelu", "BiasGelu", "FastGelu"} for kind in kinds),
    }
    if context.standard_attention and found["attention"] != context.layers:
        raise InputError(
            f"{graph.name}: only {found['attention']} of {context.layers} attention layers could be fused, because "
            f"this {context.family} model has an unusual form; its export would be exact, but slow"
        )
    return {"fused": found}


def fuse_residuals(graph: Graph, _: Context) -> None:
    """Fuse biases and residual sums into the operator behind them, for CUDA: whole activations are read once less.

        LayerNormalization((x + bias) + skip)  ->  SkipLayerNormalization(x, skip, ·, ·, bias)
        Gelu(x + bias)                         ->  BiasGelu(x, bias)

    On the CPU both are slower than their pieces. A session finds no residual sums by itself: it does not know the
    shapes behind a fused attention. Demands a finished graph of any number of rows a sentence.
    """
    known = layouts(graph)
    for node in graph.nodes:
        fusible = node.op_type == "LayerNormalization" or (node.op_type == "Gelu" and node.domain == _CONTRIB)
        add = written_by(node.inputs[0], "Add") if fusible else None
        if add is None:
            continue
        if node.op_type == "Gelu":
            if (biased := bias_of(add)) is not None:
                graph.replace(node.outputs[0], graph.add("BiasGelu", biased, "bias_gelu", domain=_CONTRIB))
        elif attribute(node, "axis", -1) in {-1, len(known[add.outputs[0]].shape) - 1}:
            _fuse_normalisation(graph, node, add, known)
    graph.model.graph.opset_imports[_CONTRIB] = 1


def _fuse_normalisation(graph: Graph, node: ir.Node, add: ir.Node, known: dict[ir.Value, Layout]) -> None:
    first, second = add.inputs
    if first is None or second is None or is_constant(first) or is_constant(second):
        return
    if known[first].shape != known[second].shape or len(known[first].shape) not in {2, 3}:
        return
    inputs = [first, second, *node.inputs[1:], *([None] if len(node.inputs) == 2 else [])]
    for one, other in ((first, second), (second, first)):
        biased = bias_of(written_by(one, "Add")) if len(one.consumers()) == 1 else None
        if biased is not None:
            inputs = [biased[0], other, *inputs[2:], biased[1]]
            break
    used_elsewhere = len(add.outputs[0].consumers()) > 1  # a model that normalises before its blocks
    outputs = graph.add_node(
        "SkipLayerNormalization",
        inputs,
        ["normalised", "", "", "residual_sum"] if used_elsewhere else ["normalised"],
        domain=_CONTRIB,
        epsilon=float(attribute(node, "epsilon", 1e-5)),
    )
    known[outputs[0]] = known[add.outputs[0]]
    graph.replace(node.outputs[0], outputs[0])
    if used_elsewhere:
        known[outputs[3]] = known[add.outputs[0]]
        graph.replace(add.outputs[0], outputs[3])
