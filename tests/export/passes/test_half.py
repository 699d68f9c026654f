"""The fp16 graph decides as the fp32 graph does, and keeps in fp32 what fp16 cannot hold."""

import numpy as np
import onnx_ir as ir
import pytest
import torch
from negengine.export.graph import Graph, is_constant
from negengine.export.observe import channel_peaks, layouts
from negengine.export.passes.context import run_passes
from negengine.export.passes.half import HEADROOM, LARGEST, halve
from negengine.export.passes.outputs import hoist_mask_row

from ..conftest import context, operators, traced, values_of


def test_all_products_of_the_bundled_model_are_fp16_and_its_decision_is_fp32(mini):
    """From the bias of the vocabulary on."""
    fp16 = Graph.open(mini.folder / "model.fp16.onnx")
    products = [node for node in fp16.nodes if node.op_type in {"MatMul", "MultiHeadAttention"}]
    assert mini.info["fp16"] == {"products": len(products), "kept in fp32": []}
    assert len(products) == 44
    assert {value.dtype for node in products for value in node.inputs if is_constant(value)} == {ir.DataType.FLOAT16}
    kinds = operators(fp16)  # residual sums and biases are fused
    assert (kinds["SkipLayerNormalization"], kinds["BiasGelu"], kinds["Gelu"]) == (12, 7, 0)
    known, logits = layouts(fp16), fp16.outputs["logits"]
    behind = [node.outputs[0] for node in fp16.nodes if node.op_type in {"Exp", "Log", "TopK", "Sub"}]
    assert all(known[value].is_float32 for value in (*behind, logits))
    (product,) = [value for value in logits.producer().inputs if not is_constant(value)]
    assert product.producer().inputs[0].producer().op_type == "MatMul"


FEEDS = {"input_ids": np.arange(6, dtype=np.int32).reshape(2, 3), "mask_position": np.array([0, 2], np.int32)}


def two_products(scale=1.0, shrink=None, *, measured=True):
    """The mask's row of two products, whose inner values are as large as `scale` says: before, after, what is told."""
    random = np.random.default_rng(0)
    words, second, bias = (
        torch.from_numpy(random.uniform(0.5, 1, shape).astype(np.float32)) for shape in ((9, 4), (4, 4), 4)
    )
    factor = torch.tensor(1 / scale if shrink is None else shrink)
    graph = traced(lambda ids: (words[ids] @ (torch.eye(4) * scale)) * factor @ second + bias)
    run_passes((hoist_mask_row,), graph, context())
    before = values_of(graph, FEEDS)
    told = run_passes((halve,), graph, context(peaks=channel_peaks(graph, [FEEDS]) if measured else {}))
    return before, values_of(graph, FEEDS), told["fp16"]


@pytest.mark.parametrize("scale", [1.0, 2 * LARGEST / HEADROOM, 1e30])
def test_values_within_the_range_are_fp16_and_those_beyond_it_stay_fp32_and_exact_in_size(scale):
    before, after, told = two_products(scale)
    np.testing.assert_allclose(after, before, rtol=5e-3, atol=5e-3)
    assert told["products"] == (2 if scale == 1 else 1)
    assert [why.split()[0] for why in told["kept in fp32"]] == ([] if scale == 1 else ["MatMul", "Mul"])


def test_a_scalar_that_fp16_would_lose_keeps_its_operator_in_fp32_and_all_stays_if_nothing_was_measured():
    _, _, told = two_products(shrink=1e-12)
    (why,) = told["kept in fp32"]
    assert why.startswith("Mul ")
    assert why.endswith(" is 1e-12")
    assert two_products(measured=False)[2]["products"] == 0
