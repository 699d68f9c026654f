"""The least work is that of the exported graph, and the products that are timed are the right ones."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from negengine.bench.ceiling import _chain, least_flops, product_rate
from negengine.engine.device import CPU


def test_least_flops_by_hand():
    """One layer is the last one: L = 3, H = 2, I = 5, V = 7.

    K and V 2·3·4 = 24, query and output 2·4 = 8, feed-forward 2·2·5 = 20, attention of one row 2·3·2 = 12; head 4 + 14.
    """
    assert least_flops(3, 1, 2, 5, 7) == 2 * (24 + 8 + 20 + 12) + 2 * (4 + 14)
    whole = 2 * (4 * 3 * 4 + 2 * 3 * 2 * 5 + 2 * 9 * 2)
    assert least_flops(3, 2, 2, 5, 7) == least_flops(3, 1, 2, 5, 7) + whole


def test_narrow_embeddings_by_hand():
    """E = 1: widening 3·1·2 products, head 2·1 and 1·7 instead of 4 and 14."""
    assert least_flops(3, 1, 2, 5, 7, embedding=1) == least_flops(3, 1, 2, 5, 7) + 2 * (6 + 2 + 7 - 4 - 14)
    assert least_flops(3, 1, 2, 5, 7, embedding=2) == least_flops(3, 1, 2, 5, 7)


def test_the_exported_graph_does_the_least_work_and_no_more(mini):
    info = mini.info
    sizes = info["layers"], info["hidden_size"], info["intermediate_size"], info["vocab_size"]
    assert info["flops"]["hoisted"] == pytest.approx(least_flops(info["flops"]["length"], *sizes), rel=1e-3)


@pytest.mark.parametrize("kind", ["fp32", "int8"])
def test_the_chain_multiplies_twice(kind, tmp_path):
    path = _chain(tmp_path, 16, 64, kind)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert sum("MatMul" in name for name in kinds) == 2
    assert any("Integer" in name for name in kinds) == (kind == "int8")
    (y,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": np.ones((3, 16), np.float32)})
    assert y.shape == (3, 16)
    assert product_rate(CPU, 8, 16, 64, kind) > 0
