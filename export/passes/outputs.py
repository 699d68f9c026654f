"""What a finished graph gives: the row that is asked for, the decision, labels, and the rows before the vocabulary.

Log-probabilities of all tokens of a text need the logits of all of its rows: 200 MB for 1,000 tokens and a vocabulary
of 50,000. So a causal graph also gives the rows before the projection, and another graph projects some at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ...engine.basics.errors import InputError
from ...engine.inference.exported import HIDDEN
from ..graph import AXES_ARE_INPUTS, Graph, attribute, given, is_constant, numbers_in
from ..observe import PROBE, layouts
from .context import Context
from .hoist import hoist

_FLOAT, _INT32, _INT64 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64
_PRODUCTS = frozenset({"MatMul", "Gemm"})
_WIDTH = "width"
ADDED_AT_ONCE = 256  # about the square root of a vocabulary: both sums are as short as they can be


def hoist_mask_row(graph: Graph, _: Context) -> None:
    """Compute the logits of the mask's row alone, [B, V]: add the input `mask_position`, int32 [B], hoist its gather.

    Demands a graph whose only input is `input_ids`, int32, and whose output `logits` is [B, L, V].
    """
    position = graph.add_input("mask_position", ir.DataType.INT32, ["batch"])
    wide = graph.add("Cast", [position], "mask_position_wide", to=int(ir.DataType.INT64))
    index = graph.add("Unsqueeze", [wide, graph.numbers(1, stem="axis")], "mask_index")
    logits = hoist(graph, graph.outputs["logits"], index)
    graph.set_outputs({"logits": (logits, _FLOAT, ["batch", "vocabulary"]), **_further_outputs(graph)})


def hoist_first_token(graph: Graph, context: Context) -> Mapping[str, Any]:
    """Where a classifier's head reads the first token's row alone, compute the last layer for that row alone.

    Demands a graph whose only input is `input_ids`, int32. Names the output's axes.
    """
    known = layouts(graph)
    gathers = [node for node in graph.nodes if node.op_type == "Gather" and attribute(node, "axis", 0) == 1]
    gathers = [node for node in gathers if not is_constant(node.inputs[0]) and numbers_in(node.inputs[1]) == 0]
    found = next((node for node in gathers if known[given(node.inputs[0])].shape[:2] == PROBE), None)
    if found is not None:
        zero, one = graph.numbers(0), graph.numbers(1)  # the first token's position in each text pair, int64 [B, 1]
        first = graph.add("Slice", [graph.inputs["input_ids"], zero, one, one], "first_ids")
        wide = graph.add("Cast", [first], "first_ids_wide", to=int(ir.DataType.INT64))
        # For OpenVINO, which does not know that such a slice has one column.
        column = graph.add("Reshape", [wide, graph.numbers(-1, 1)], "first_ids_wide")
        positions = graph.add("Mul", [column, zero], "first_positions")
        graph.replace(found.outputs[0], hoist(graph, given(found.inputs[0]), positions))
    logits = graph.outputs["logits"]
    graph.set_outputs({"logits": (logits, ir.DataType.FLOAT, ["batch", context.labels])})
    return {"hoisted": found is not None}


def add_token_labels(graph: Graph, context: Context) -> None:
    """The label of each token, decided inside the graph and on the device. Demands an output `logits` [B, L, K].

    labels   int32   [B, L]      position of the highest logit of each token; the smaller one where two are equal
    logits   float32 [B, L, K]   costs a copy only where it is asked for
    """
    logits = graph.outputs["logits"]
    one, last = graph.numbers(1), graph.numbers(-1)
    # Not ArgMax, which would need cuDNN on CUDA.
    _, best = graph.add_node("TopK", [logits, one], ["best_logit", "best_label"], axis=-1, largest=1, sorted=1)
    labels = graph.add("Cast", [graph.add("Squeeze", [best, last], "best_label")], "labels", to=int(ir.DataType.INT32))
    graph.set_outputs(
        {
            "labels": (labels, ir.DataType.INT32, ["batch", "length"]),
            "logits": (logits, ir.DataType.FLOAT, ["batch", "length", context.labels]),
        }
    )


def add_decision_head(graph: Graph, context: Context) -> None:
    """The decision head: from the logits at the mask, [B, V], to a few numbers a sentence, in the graph, on the device.

        decision_ids     int32   [B, 2]   top-1 token (the smaller id of two equal logits), rank of the expected token
                                          (1 + number of larger logits)
        decision_logits  float32 [B, 4]   logit of the top-1, the runner-up, the expected token; log-sum-exp over V
        logits           float32 [B, V]   all logits at the mask; costs a copy only where it is asked for

    It adds the input `expected_id`, int32 [B].
    """
    logits = graph.outputs["logits"]
    expected_id = graph.add_input("expected_id", _INT32, ["batch"])
    last, start, one, two = graph.numbers(-1), graph.numbers(0), graph.numbers(1), graph.numbers(2)
    # On an H200 bert-base's shape runs 110,000 sentences a second with it; with steps of 256 logits, 102,000.
    values, indices = graph.add_node("TopK", [logits, two], ["top_logits", "top_ids"], axis=-1, largest=1, sorted=1)
    best, second = (graph.add("Slice", [values, begin, end, one], "best") for begin, end in ((start, one), (one, two)))
    narrow = graph.add("Cast", [indices], "top_ids", to=int(_INT32))
    best_id, other = (graph.add("Slice", [narrow, begin, end, one], "id") for begin, end in ((start, one), (one, two)))
    # Of two equal logits CUDA's TopK may give the larger id first: it orders them by the id modulo 256.
    smaller = graph.add("Where", [graph.add("Greater", [best_id, other], "is_larger"), other, best_id], "smaller_id")
    best_id = graph.add("Where", [graph.add("Equal", [best, second], "is_tie"), smaller, best_id], "best_id")
    expected = _own(graph, logits, graph.add("Cast", [expected_id], "expected_wide", to=int(_INT64)), last, "expected")
    # Counted in float32, exact to 16 million tokens and faster on the CPU than in integers.
    above = graph.add("Cast", [graph.add("Greater", [logits, expected], "above")], "above", to=int(_FLOAT))
    above = graph.add("ReduceSum", [above, last], "above", keepdims=1)
    above = graph.add("Cast", [above], "above", to=int(_INT32))
    rank = graph.add("Add", [above, graph.constant(np.array([1], np.int32), "number")], "rank")
    log_sum_exp = graph.add("Add", [_log_total(graph, logits, best, last, context.vocabulary), best], "log_sum_exp")
    ids = graph.add("Concat", [best_id, rank], "ids", axis=-1)
    numbers = graph.add("Concat", [values, expected, log_sum_exp], "values", axis=-1)
    graph.set_outputs(
        {
            "decision_ids": (ids, _INT32, ["batch", 2]),
            "decision_logits": (numbers, _FLOAT, ["batch", 4]),
            "logits": (logits, _FLOAT, ["batch", "vocabulary"]),
            **_further_outputs(graph),
        }
    )


def _own(graph: Graph, logits: ir.Value, ids: ir.Value, last: ir.Value, stem: str) -> ir.Value:
    """The logit of one token in each row, [rows, 1], by its id, int64 [rows]."""
    return graph.add("GatherElements", [logits, graph.add("Unsqueeze", [ids, last], stem)], "own", axis=-1)


def _log_total(graph: Graph, logits: ir.Value, best: ir.Value, last: ir.Value, tokens: int) -> ir.Value:
    """Log Σ exp(x − max) over so many tokens, [rows, 1]; the maximum added, it is log-sum-exp.

    In one sum over a vocabulary, the many small chances are lost beside the few large ones: 2e-5 of 49,152 tokens of a
    published model, on every text. So rows of `ADDED_AT_ONCE` are summed first. ReduceLogSumExp, which loses ten times
    as much on the CPU, would need cuDNN on CUDA.
    """
    chances = graph.add("Exp", [graph.add("Sub", [logits, best], "shifted")], "exponentials")
    if tokens > ADDED_AT_ONCE:
        if lacking := -tokens % ADDED_AT_ONCE:
            chances = graph.add("Pad", [chances, graph.numbers(0, 0, 0, lacking, stem="pads")], "whole_rows")
        parts = graph.add("Reshape", [chances, graph.numbers(0, -1, ADDED_AT_ONCE, stem="target")], "parts")
        chances = graph.add("ReduceSum", [parts, last], "parts", keepdims=0)
    return graph.add("Log", [graph.add("ReduceSum", [chances, last], "total", keepdims=1)], "log_total")


def keep_hidden(graph: Graph, _: Context) -> None:
    """Make the rows before the vocabulary projection an output. Demands an output `logits` [B, L, V]."""
    logits = graph.outputs["logits"]
    hidden = _before_projection(graph)
    graph.set_outputs(
        {
            "logits": (logits, _FLOAT, ["batch", "length", "vocabulary"]),
            HIDDEN: (hidden, _FLOAT, ["batch", "length", _WIDTH]),
        }
    )


def drop_hidden(graph: Graph, _: Context) -> None:
    """Remove the output again, and what computes it alone: a low-precision graph decides, and nothing else."""
    graph.model.graph.outputs.remove(graph.outputs[HIDDEN])
    graph.prune()


def _further_outputs(graph: Graph) -> dict[str, tuple[ir.Value, ir.DataType, Sequence[int | str]]]:
    """The output `hidden`, if the graph has it."""
    hidden = graph.outputs.get(HIDDEN)
    return {} if hidden is None else {HIDDEN: (hidden, _FLOAT, ["batch", "length", _WIDTH])}


def cut_vocabulary(graph: Graph, context: Context) -> None:
    """Keep the vocabulary projection and what follows it, of the rows that are given. Demands a finished graph.

    hidden           float32 [rows, H]   with the input following_id, int32 [rows]: the tokens asked for
    token_logprobs   float32 [rows]      natural logarithms of their probabilities; a decision and all logits, too
    """
    row = _before_projection(graph)
    width = layouts(graph)[row].shape[-1]
    decided = {name: graph.outputs[name] for name in ("decision_ids", "decision_logits")}
    logits, old = graph.outputs["logits"], graph.outputs[HIDDEN]
    graph.model.graph.outputs.clear()
    old.name = graph.fresh(HIDDEN)
    hidden = graph.add_input(HIDDEN, _FLOAT, ["rows", width])
    following = graph.add_input("following_id", _INT32, ["rows"])
    graph.replace(row, hidden)
    graph.replace(graph.inputs["expected_id"], following)
    last = graph.numbers(-1)
    wide = graph.add("Cast", [following], "following", to=int(_INT64))
    own = _own(graph, logits, wide, last, "following")
    axes: dict[str, Any] = {"axes": [-1]} if graph.opset < AXES_ARE_INPUTS else {}
    best = graph.add("ReduceMax", [logits, *([] if axes else [last])], "best", keepdims=1, **axes)
    total = _log_total(graph, logits, best, last, context.vocabulary)
    logprobs = graph.add("Sub", [graph.add("Sub", [own, best], "own_shifted"), total], "logprobs")
    logprobs = graph.add("Squeeze", [logprobs, last], "logprobs")
    graph.set_outputs(
        {
            "token_logprobs": (logprobs, _FLOAT, ["rows"]),
            "decision_ids": (decided["decision_ids"], _INT32, ["rows", 2]),
            "decision_logits": (decided["decision_logits"], _FLOAT, ["rows", 4]),
            "logits": (logits, _FLOAT, ["rows", "vocabulary"]),
        }
    )
    graph.prune()
    for name in ("input_ids", "mask_position", "expected_id"):
        graph.model.graph.inputs.remove(graph.inputs[name])


def vocabulary_product(graph: Graph) -> ir.Node | None:
    """The product that the logits come from, over biases and scales; None if they come from something else."""
    constant, value = graph.from_constants(), graph.outputs["logits"]
    while (node := value.producer()) is not None:
        computed = [one for one in node.inputs if one is not None and one not in constant]
        if len(computed) != 1 or node.op_type in _PRODUCTS:
            return node if len(computed) == 1 else None
        value = computed[0]
    return None


def _before_projection(graph: Graph) -> ir.Value:
    """What enters the product with the vocabulary."""
    product = vocabulary_product(graph)
    if product is None:
        raise InputError(
            f"{graph.name} cannot be exported: its logits do not come from one product with the vocabulary"
        )
    return given(product.inputs[0])
