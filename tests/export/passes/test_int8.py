"""The int8 graph: what it quantizes and keeps, its interface; of the vocabulary, what decides is fp32."""

import numpy as np
import pytest
import torch
from negengine.engine.inference.exported import load_exported
from negengine.export.graph import Graph, dims
from negengine.export.passes.context import run_passes
from negengine.export.passes.int8 import mask_row_values, quantize_vocabulary, quantized
from negengine.export.passes.outputs import add_decision_head, hoist_mask_row
from onnx import TensorProto
from onnxruntime.quantization.quant_utils import quantize_data

from ..conftest import context, operators, traced, values_of


def test_products_over_all_positions_are_int8_or_convolutions_and_of_the_masks_row_that_with_the_vocabulary(exported):
    """Three layers: Q, K, V, output and two of the feed-forward each; the last layer has K and V alone for all rows."""
    found = load_exported(exported("bert"))
    assert operators(Graph.open(found.convolved))["Conv"] == 2 * 6 + 2
    int8 = Graph.open(found.folder / "model.int8.onnx")
    rows = mask_row_values(int8)
    products = [node for node in int8.nodes if node.op_type == "MatMulInteger"]
    of_rows = [node for node in products if node.outputs[0] in rows]
    assert len(products) - len(of_rows) == 2 * 6 + 2
    assert [dims(node.inputs[1])[1] for node in of_rows] == [found.vocab_size]


def test_a_matrix_is_quantized_as_by_onnx_runtime_in_seven_bits_so_that_no_processor_saturates():
    random = np.random.default_rng(0)
    for scale in (1e-3, 1, 1e3):
        weights = (random.normal(size=(48, 7)) * scale * 10.0 ** random.integers(-2, 3, 7)).astype(np.float32)
        weights[:, 3] = 0
        numbers, scales = quantized(weights)
        assert np.abs(numbers.astype(int)).max() == 64
        for own, scale_of, column in zip(numbers.T, scales, weights.T, strict=True):
            _, wanted, data = quantize_data(column, TensorProto.INT8, symmetric=True, reduce_range=True)
            assert scale_of == wanted
            np.testing.assert_array_equal(own, data)


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


@pytest.mark.parametrize("form", [{"tokens": 9}, {"after": torch.tanh}])
def test_a_small_vocabulary_and_logits_that_are_changed_after_the_product_stay_fp32(form):
    """Nine tokens are fewer than the leaders."""
    graph = decided(**form)
    wanted, before = logits_of(graph), operators(graph)
    run_passes((quantize_vocabulary,), graph, context())
    np.testing.assert_allclose(logits_of(graph), wanted, atol=1e-5)
    assert (operators(graph) == before) == ("after" in form)
