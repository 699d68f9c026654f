"""The rows that enter the vocabulary projection of a causal model, and the projection as a graph of its own.

Log-probabilities of all tokens of a text need the logits of all of its rows: 200 MB for 1,000 tokens and a vocabulary
of 50,000. So the graph has one more output, the rows before the projection, and another graph projects some of them at
a time. A session computes the output only if it is asked for.

    hidden           float32 [B, L, H]   of the fp32 graphs
    hidden           float32 [rows, H]   of the vocabulary graph, with following_id int32 [rows]: the tokens asked for
    token_logprobs   float32 [rows]      natural logarithms of their probabilities
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ...engine.errors import InputError
from ...engine.inference.exported import HIDDEN
from ..graph import Graph
from ..observe import layouts
from .context import Context

Outputs = Mapping[str, tuple[ir.Value, ir.DataType, Sequence[int | str]]]
_PRODUCTS = frozenset({"MatMul", "Gemm"})
_WIDTH = "width"


def keep_hidden(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Make the rows before the vocabulary projection an output. Demands an output `logits` [B, L, V]."""
    logits = graph.outputs["logits"]
    hidden = _before_projection(graph)
    graph.set_outputs(
        {
            "logits": (logits, ir.DataType.FLOAT, ["batch", "length", "vocabulary"]),
            HIDDEN: (hidden, ir.DataType.FLOAT, ["batch", "length", _WIDTH]),
        }
    )
    graph.prune()
    return {}


def drop_hidden(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Remove the output again, and what computes it alone: a low-precision graph decides, and nothing else."""
    graph.model.graph.outputs.remove(graph.outputs[HIDDEN])
    graph.prune()
    return {}


def further_outputs(graph: Graph) -> Outputs:
    """The output `hidden`, if the graph has it, for `Graph.set_outputs`."""
    hidden = graph.outputs.get(HIDDEN)
    return {} if hidden is None else {HIDDEN: (hidden, ir.DataType.FLOAT, ["batch", "length", _WIDTH])}


def cut_vocabulary(graph: Graph, _: Context) -> Mapping[str, Any]:
    """Keep the vocabulary projection alone. Demands a finished graph."""
    row = _before_projection(graph)
    width = layouts(graph)[row].shape[-1]
    logits, old = graph.outputs["logits"], graph.outputs[HIDDEN]
    graph.model.graph.outputs.clear()
    old.name = graph.fresh(HIDDEN)
    hidden = graph.add_input(HIDDEN, ir.DataType.FLOAT, ["rows", width])
    following = graph.add_input("following_id", ir.DataType.INT32, ["rows"])
    graph.replace(row, hidden)

    last = graph.constant(np.array([-1], np.int64), "number")
    wide = graph.add("Cast", [following], "following", to=int(ir.DataType.INT64))
    own = graph.add("GatherElements", [logits, graph.add("Unsqueeze", [wide, last], "following")], "own", axis=-1)
    best = graph.add("ReduceMax", [logits], "best", axes=[-1], keepdims=1)
    # max + log sum exp(x - max), as in `head`
    shifted = graph.add("Exp", [graph.add("Sub", [logits, best], "shifted")], "exponentials")
    total = graph.add("Log", [graph.add("ReduceSum", [shifted, last], "total", keepdims=1)], "log_total")
    logprobs = graph.add("Sub", [graph.add("Sub", [own, best], "own_shifted"), total], "logprobs")
    logprobs = graph.add("Squeeze", [logprobs, last], "logprobs")
    graph.set_outputs({"token_logprobs": (logprobs, ir.DataType.FLOAT, ["rows"])})
    graph.prune()
    for name in ("input_ids", "mask_position", "expected_id"):
        graph.model.graph.inputs.remove(graph.inputs[name])
    return {}


def _before_projection(graph: Graph) -> ir.Value:
    """What enters the product with the vocabulary, from the logits back over biases and scales."""
    constant = graph.from_constants()
    value = graph.outputs["logits"]
    while (node := value.producer()) is not None:
        computed = [one for one in node.inputs if one is not None and one not in constant]
        if len(computed) != 1:
            break
        value = computed[0]
        if node.op_type in _PRODUCTS:
            return value
    raise InputError(f"{graph.name} cannot be exported: its logits do not come from one product with the vocabulary")
