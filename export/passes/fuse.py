"""Fuse attention, LayerNormalization and GELU into single operators.

The attention by our own pass (`attend` says why), the rest by ONNX Runtime's optimizer for transformers.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model

from ..graph import Graph, save
from .attend import fuse_attention


@dataclass(frozen=True)
class Fused:
    """How many fused operators of each kind a graph holds."""

    attention: int
    layer_norm: int
    gelu: int


# Families whose attention has the standard form: one fused attention for every layer, or something is wrong. The others
# have no fused operator that computes theirs (rotary or disentangled positions) and keep the plain operators.
STANDARD_ATTENTION = frozenset(
    {"albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta"}
)


def fuse(graph: Graph) -> Fused:
    """Fuse what can be fused, in place."""
    fuse_attention(graph)
    options = FusionOptions("bert")
    options.enable_attention = False
    # Residual sums and biases stay operators of their own: on CUDA the session fuses them anew (SkipLayerNormalization,
    # BiasGelu), and on the CPU those fused kernels are slower than the pieces (`negengine.engine.inference.device`).
    options.enable_skip_layer_norm = False
    options.enable_bias_skip_layer_norm = False
    options.enable_bias_gelu = False
    options.enable_embed_layer_norm = False  # its operator wants position and segment machinery that is gone by now
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        save(graph.model, path)
        # opt_level 0: nothing is folded for this machine's processor; the session does that anew on each machine.
        fused = optimize_model(str(path), model_type="bert", opt_level=0, optimization_options=options)
        graph.model.CopyFrom(fused.model)
    _name_domains(graph.model)
    graph.index()
    graph.prune()
    return count_fused(graph)


def count_fused(graph: Graph) -> Fused:
    """Count the fused operators."""
    kinds = [node.op_type for node in graph.nodes]
    return Fused(
        attention=kinds.count("MultiHeadAttention"),
        layer_norm=sum(kind in {"LayerNormalization", "SkipLayerNormalization"} for kind in kinds),
        gelu=sum(kind in {"Gelu", "BiasGelu", "FastGelu"} for kind in kinds),
    )


def _name_domains(model: onnx.ModelProto) -> None:
    """Both operator sets in use are declared, once each."""
    if not any(entry.domain == "com.microsoft" for entry in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
