"""Compute the logits of the mask's row alone: add the input `mask_position`, int32 [B], and hoist its gather.

Demands a graph whose only input is `input_ids`, int32, and whose output `logits` is [B, L, V]. It is [B, V] afterwards.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph
from .context import Context
from .hidden import further_outputs
from .hoist import hoist


def hoist_mask_row(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    position = graph.add_input("mask_position", ir.DataType.INT32, ["batch"])
    wide = graph.add("Cast", [position], "mask_position_wide", to=int(ir.DataType.INT64))
    axis = graph.constant(np.array([1], np.int64), "axis")
    index = graph.add("Unsqueeze", [wide, axis], "mask_index")
    logits = hoist(graph, graph.outputs["logits"], index)
    graph.set_outputs({"logits": (logits, ir.DataType.FLOAT, ["batch", "vocabulary"]), **further_outputs(graph)})
    graph.prune()
    return {}
