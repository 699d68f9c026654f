"""The decision head: from the logits at the mask to a few numbers a sentence, inside the graph and on the device.

Outputs of the finished graph, for a batch of B sentences of L tokens over a vocabulary of V:

    decision_ids     int32   [B, 2]   top-1 token, rank of the expected token (1 = highest; 1 + number of larger logits)
    decision_logits  float32 [B, 4]   logit of the top-1, of the runner-up, of the expected token; log-sum-exp over V
    logits           float32 [B, V]   all logits at the mask; costs a copy only where it is asked for

Inputs: input_ids int32 [B, L], mask_position int32 [B], expected_id int32 [B].
"""

import numpy as np
from onnx import TensorProto, helper

from ..graph import Graph


def mask_rows(graph: Graph, tensor: str, index: str) -> str:
    """Take the row at the mask position: [B, L, H] -> [B, H]. `index` is int64 [B, 1]."""
    return graph.add("GatherND", [tensor, index], "mask_row", batch_dims=1)


def add_mask_position(graph: Graph) -> str:
    """Add the input `mask_position`; returns its int64 [B, 1] form, as GatherND wants it."""
    _add_input(graph, "mask_position")
    wide = graph.add("Cast", ["mask_position"], "mask_position_wide", to=TensorProto.INT64)
    return graph.add("Unsqueeze", [wide, _axis(graph, 1)], "mask_index")


def add_decision_head(graph: Graph, logits: str) -> None:
    """Replace the graph's outputs by the decision and the logits at the mask.

    Args:
        graph: changed in place.
        logits: name of the float32 [B, V] logits at the mask.
    """
    _add_input(graph, "expected_id")
    last = _axis(graph, -1)
    two = graph.constant(np.array([2], np.int64), "two")
    values, indices = graph.name("top_logits"), graph.name("top_ids")
    graph.model.graph.node.append(
        helper.make_node("TopK", [logits, two], [values, indices], name="node_top", axis=-1, largest=1, sorted=1)
    )
    graph.index()
    start, one = (graph.constant(np.array([n], np.int64), "number") for n in (0, 1))
    best = graph.add("Slice", [values, start, one, one], "best")
    best_id = graph.add("Slice", [indices, start, one, one], "best_id")
    best_id = graph.add("Cast", [best_id], "best_id", to=TensorProto.INT32)

    wide = graph.add("Cast", ["expected_id"], "expected_wide", to=TensorProto.INT64)
    expected = graph.add("GatherElements", [logits, graph.add("Unsqueeze", [wide, last], "expected")], "own", axis=-1)

    # Counted in float32, exact to 16 million tokens and faster on the CPU than in integers.
    above = graph.add("Cast", [graph.add("Greater", [logits, expected], "above")], "above", to=TensorProto.FLOAT)
    above = graph.add("ReduceSum", [above, last], "above", keepdims=1)
    above = graph.add("Cast", [above], "above", to=TensorProto.INT32)
    rank = graph.add("Add", [above, graph.constant(np.array([1], np.int32), "one")], "rank")

    # max + log Σ exp(x − max): ReduceLogSumExp would need cuDNN on CUDA.
    shifted = graph.add("Exp", [graph.add("Sub", [logits, best], "shifted")], "exponentials")
    total = graph.add("ReduceSum", [shifted, last], "total", keepdims=1)
    log_sum_exp = graph.add("Add", [graph.add("Log", [total], "log_total"), best], "log_sum_exp")

    results = {
        "decision_ids": (graph.add("Concat", [best_id, rank], "ids", axis=-1), TensorProto.INT32, 2),
        "decision_logits": (
            graph.add("Concat", [values, expected, log_sum_exp], "values", axis=-1),
            TensorProto.FLOAT,
            4,
        ),
        "logits": (logits, TensorProto.FLOAT, "vocabulary"),
    }
    del graph.model.graph.output[:]
    for name, (tensor, kind, width) in results.items():
        graph.rename(tensor, name)
        graph.model.graph.output.append(helper.make_tensor_value_info(name, kind, ["batch", width]))
    graph.prune()


def _add_input(graph: Graph, name: str) -> None:
    graph.model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT32, ["batch"]))


def _axis(graph: Graph, axis: int) -> str:
    return graph.constant(np.array([axis], np.int64), "axis")
