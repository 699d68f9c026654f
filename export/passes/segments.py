"""Segments, which tell a first text from a second one, while the other passes run and after them.

The passes know token ids as the only input, and must see both segments. So for a while the segments follow from the
ids (id modulo 2), and in the end they become an input again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph
from .context import Context

_SEGMENTS = "token_type_ids"
_DERIVED = "segments_from_ids"


def derive_segments(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Replace the input `token_type_ids`, where there is one, by a function of `input_ids`."""
    if _SEGMENTS in graph.inputs:
        segments = graph.inputs[_SEGMENTS]
        two = graph.constant(np.array(2, np.int64), "two")
        derived = graph.add("Mod", [graph.inputs["input_ids"], two], _DERIVED)
        derived.name = _DERIVED
        graph.replace(segments, derived)
        graph.model.graph.inputs.remove(segments)
    graph.prune()
    return {}


def restore_segments(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Make the derived segments an input again, int32 like the token ids."""
    derived = next((value for node in graph.nodes for value in node.outputs if value.name == _DERIVED), None)
    if derived is not None:
        segments = graph.add_input(_SEGMENTS, ir.DataType.INT32, ["batch", "length"])
        if any(node.op_type != "Gather" or index != 1 for node, index in derived.uses()):
            segments = graph.add("Cast", [segments], "wide_segments", to=int(ir.DataType.INT64))
        graph.replace(derived, segments)
    graph.prune()
    return {"segments": derived is not None}
