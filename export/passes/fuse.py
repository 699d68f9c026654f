"""Fuse LayerNormalization and GELU into single operators, by ONNX Runtime's optimizer for transformers.

Demands that attention is fused already (`attend` says why that is done by a pass of its own), and checks that it was:
one fused attention a layer, where the family has the standard form.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_by_fusion

from ...engine.errors import InputError
from ..graph import Graph
from ..observe import told_in_one_line
from .context import Context


def fuse_operators(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module.

    Raises:
        InputError: a family with standard attention has a layer whose attention was not fused.
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
    weights = {value.name: value.const_value for value in graph.initializers}
    with told_in_one_line(graph.name, "fusing its operators"):
        fused = optimize_by_fusion(graph.proto(vectors_inside=True), "bert", optimization_options=options)
    graph.take(ir.from_proto(fused.model))
    for value in graph.initializers:  # back to where they are on disk
        value.const_value = weights.get(value.name, value.const_value)
    graph.model.graph.opset_imports["com.microsoft"] = 1
    graph.prune()
    found = count_fused(graph)
    if context.standard_attention and found["attention"] != context.layers:
        raise InputError(
            f"{graph.name}: only {found['attention']} of {context.layers} attention layers could be fused, because "
            f"this {context.family} model has an unusual form; its export would be exact, but slow"
        )
    return {"fused": found}


def count_fused(graph: Graph) -> dict[str, int]:
    """How many fused operators of each kind a graph holds."""
    kinds = [node.op_type for node in graph.nodes]
    return {
        "attention": kinds.count("MultiHeadAttention"),
        "layer_norm": sum(kind in {"LayerNormalization", "SkipLayerNormalization"} for kind in kinds),
        "gelu": sum(kind in {"Gelu", "BiasGelu", "FastGelu"} for kind in kinds),
    }
