"""The int8 graph: what it quantizes and keeps, its interface; of the vocabulary, what decides is fp32."""

import numpy as np
import onnx_ir as ir
import pytest
import torch
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, dims, is_constant
from negengine.export.observe import channel_peaks, layouts
from negengine.export.passes.context import run_passes
from negengine.export.passes.half import HEADROOM, LARGEST, halve
from negengine.export.passes.int8 import mask_row_values, quantize_vocabulary, quantized
from negengine.export.passes.outputs import add_decision_head, hoist_mask_row

from ..conftest import context, operators, traced, values_of


def test_products_over_all_positions_are_int8_or_convolutions_and_of_the_masks_row_that_with_the_vocabulary(exported):
    found = load_exported(exported("bert"))
    assert operators(Graph.open(found.folder / "model.cpu.onnx"))["Conv"] == 2 * 6 + 2
    int8 = Graph.open(found.folder / "model.int8.onnx")
    rows = mask_row_values(int8)
    products = [node for node in int8.nodes if node.op_type == "MatMulInteger"]
    of_rows = [node for node in products if node.outputs[0] in rows]
    assert len(products) - len(of_rows) == 2 * 6 + 2
    assert [dims(node.inputs[1])[1] for node in of_rows] == [found.vocab_size]


def test_a_matrix_is_quantized_in_seven_bits_so_that_no_processor_saturates():
    random = np.random.default_rng(0)
    for scale in (1e-3, 1, 1e3):
        weights = (random.normal(size=(48, 7)) * scale * 10.0 ** random.integers(-2, 3, 7)).astype(np.float32)
        weights[:, 3] = 0
        numbers, scales = quantized(weights)
        assert np.abs(numbers.astype(int)).max() == 64
        assert (np.abs(numbers * scales - weights) <= 0.501 * scales).all()


ROWS, WIDTH, TOKENS = 6, 32, 400
TABLE = torch.from_numpy(np.random.default_rng(0).normal(size=(TOKENS, WIDTH)).astype(np.float32))
BIAS = torch.linspace(-1, 1, TOKENS)


def decided(tied=True, bias=True, tokens=TOKENS, after=lambda logits: logits):
    """The finished graph of a model that looks words up and projects them to the vocabulary."""
    table = TABLE[:tokens]
    matrix = table.T.contiguous()

    def compute(ids):
        logits = TABLE[ids] @ (table.T if tied else matrix)
        return after(logits + BIAS[:tokens] if bias else logits)

    graph = traced(compute)
    run_passes((hoist_mask_row, add_decision_head), graph, context())
    return graph


def logits_of(graph, expected=None):
    ids, position = np.arange(ROWS, dtype=np.int32)[:, None], np.zeros(ROWS, np.int32)
    feeds = {"input_ids": ids, "mask_position": position, "expected_id": position if expected is None else expected}
    return values_of(graph, feeds)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_the_highest_logits_and_the_expected_tokens_are_fp32_and_all_others_near(bias, tied):
    graph = decided(tied, bias)
    wanted = logits_of(graph)
    expected = wanted.argsort(axis=1)[:, TOKENS // 2].astype(np.int32)  # in the middle, not among the leaders
    run_passes((quantize_vocabulary,), graph, context())
    found = logits_of(graph, expected)
    leaders = np.c_[wanted.argsort(axis=1)[:, -8:], expected]  # half of those computed, as int8 may order them anew
    off = np.abs(found - wanted)
    np.testing.assert_allclose(np.take_along_axis(off, leaders, 1), 0, atol=1e-5)
    assert 0 < np.median(off) < 0.05 * wanted.std()
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()


def test_a_small_vocabulary_and_logits_that_are_changed_after_the_product_stay_fp32():
    for form in ({"tokens": 9}, {"after": torch.tanh}):  # nine tokens are fewer than the leaders
        graph = decided(**form)
        wanted, before = logits_of(graph), operators(graph)
        run_passes((quantize_vocabulary,), graph, context())
        np.testing.assert_allclose(logits_of(graph), wanted, atol=1e-5)
        assert (operators(graph) == before) == ("after" in form)


def test_all_products_of_the_bundled_model_are_fp16_and_its_decision_is_fp32(mini):
    fp16 = Graph.open(mini.folder / "model.fp16.onnx")
    products = [node for node in fp16.nodes if node.op_type in {"MatMul", "MultiHeadAttention"}]
    assert mini.info["fp16"] == {"products": len(products), "kept in fp32": []}
    assert {value.dtype for node in products for value in node.inputs if is_constant(value)} == {ir.DataType.FLOAT16}
    known, logits = layouts(fp16), fp16.outputs["logits"]
    behind = [node.outputs[0] for node in fp16.nodes if node.op_type in {"Exp", "Log", "TopK", "Sub"}]
    assert all(known[value].is_float32 for value in (*behind, logits))


FEEDS = {"input_ids": np.arange(6, dtype=np.int32).reshape(2, 3), "mask_position": np.array([0, 2], np.int32)}


def two_products(scale=1.0, shrink=None, *, measured=True):
    """The mask's row of two products, whose inner values are as large as `scale` says: before, after, what is told."""
    torch.manual_seed(0)
    words, second, bias = (0.5 + torch.rand(shape) / 2 for shape in ((9, 4), (4, 4), 4))
    factor = torch.tensor(1 / scale if shrink is None else shrink)
    graph = traced(lambda ids: (words[ids] @ (torch.eye(4) * scale)) * factor @ second + bias)
    run_passes((hoist_mask_row,), graph, context())
    before = values_of(graph, FEEDS)
    told = run_passes((halve,), graph, context(peaks=channel_peaks(graph, [FEEDS]) if measured else {}))
    return before, values_of(graph, FEEDS), told["fp16"]


def test_values_within_the_range_are_fp16_and_those_beyond_it_and_small_scalars_stay_fp32():
    for scale, products, kept in ((1.0, 2, []), (2 * LARGEST / HEADROOM, 1, ["MatMul", "Mul"])):
        before, after, told = two_products(scale)
        np.testing.assert_allclose(after, before, rtol=5e-3, atol=5e-3)
        assert (told["products"], [why.split()[0] for why in told["kept in fp32"]]) == (products, kept)
    (why,) = two_products(shrink=1e-12)[2]["kept in fp32"]
    assert (why[:4], why[-9:]) == ("Mul ", " is 1e-12")
    assert two_products(measured=False)[2]["products"] == 0
