"""The label of each token, decided inside the graph and on the device.

Outputs of the finished graph, for a batch of B sentences of L tokens and K labels:

    labels   int32   [B, L]      position of the highest logit of each token; the smaller one where two are equal
    logits   float32 [B, L, K]   costs a copy only where it is asked for

Input: input_ids int32 [B, L]. Demands a graph whose output `logits` is [B, L, K].
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph
from .context import Context


def add_token_labels(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    logits = graph.outputs["logits"]
    one, last = (graph.constant(np.array([number], np.int64), "number") for number in (1, -1))
    # Not ArgMax, which would need cuDNN on CUDA.
    _, best = graph.add_node("TopK", [logits, one], ["best_logit", "best_label"], axis=-1, largest=1, sorted=1)
    labels = graph.add("Cast", [graph.add("Squeeze", [best, last], "best_label")], "labels", to=int(ir.DataType.INT32))
    graph.set_outputs(
        {
            "labels": (labels, ir.DataType.INT32, ["batch", "length"]),
            "logits": (logits, ir.DataType.FLOAT, ["batch", "length", context.outputs]),
        }
    )
    graph.prune()
    return {}
