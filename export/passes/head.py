"""The decision head: from the logits at the mask to a few numbers a sentence, inside the graph and on the device.

Outputs of the finished graph, for a batch of B sentences of L tokens over a vocabulary of V:

    decision_ids     int32   [B, 2]   top-1 token, rank of the expected token (1 = highest; 1 + number of larger logits)
    decision_logits  float32 [B, 4]   logit of the top-1, of the runner-up, of the expected token; log-sum-exp over V
    logits           float32 [B, V]   all logits at the mask; costs a copy only where it is asked for

Inputs: input_ids int32 [B, L], mask_position int32 [B], expected_id int32 [B].

Demands a graph whose output `logits` is [B, V].
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph import Graph
from .context import Context
from .hidden import further_outputs

_FLOAT, _INT32, _INT64 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64


def add_decision_head(graph: Graph, _: Context) -> Mapping[str, Any]:
    """See the module."""
    logits = graph.outputs["logits"]
    expected_id = graph.add_input("expected_id", _INT32, ["batch"])

    def number(value: int, kind: Any = np.int64) -> ir.Value:
        return graph.constant(np.array([value], kind), "number")

    last, start, one = number(-1), number(0), number(1)
    values, indices = graph.add_node(
        "TopK", [logits, number(2)], ["top_logits", "top_ids"], axis=-1, largest=1, sorted=1
    )
    best = graph.add("Slice", [values, start, one, one], "best")
    best_id = graph.add("Slice", [indices, start, one, one], "best_id")
    best_id = graph.add("Cast", [best_id], "best_id", to=int(_INT32))

    wide = graph.add("Cast", [expected_id], "expected_wide", to=int(_INT64))
    expected = graph.add("GatherElements", [logits, graph.add("Unsqueeze", [wide, last], "expected")], "own", axis=-1)

    # Counted in float32, exact to 16 million tokens and faster on the CPU than in integers.
    above = graph.add("Cast", [graph.add("Greater", [logits, expected], "above")], "above", to=int(_FLOAT))
    above = graph.add("ReduceSum", [above, last], "above", keepdims=1)
    above = graph.add("Cast", [above], "above", to=int(_INT32))
    rank = graph.add("Add", [above, number(1, np.int32)], "rank")

    # max + log Σ exp(x − max): ReduceLogSumExp would need cuDNN on CUDA.
    shifted = graph.add("Exp", [graph.add("Sub", [logits, best], "shifted")], "exponentials")
    total = graph.add("ReduceSum", [shifted, last], "total", keepdims=1)
    log_sum_exp = graph.add("Add", [graph.add("Log", [total], "log_total"), best], "log_sum_exp")

    ids = graph.add("Concat", [best_id, rank], "ids", axis=-1)
    numbers = graph.add("Concat", [values, expected, log_sum_exp], "values", axis=-1)
    graph.set_outputs(
        {
            "decision_ids": (ids, _INT32, ["batch", 2]),
            "decision_logits": (numbers, _FLOAT, ["batch", 4]),
            "logits": (logits, _FLOAT, ["batch", "vocabulary"]),
            **further_outputs(graph),
        }
    )
    graph.prune()
    return {}
