"""The least work is that of the exported graph, and the products that are timed are the right ones."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from negengine.bench import machine, run
from negengine.bench.baselines import AtMask
from negengine.bench.ceiling import _chain, least_flops, product_rates
from negengine.bench.system import Place
from negengine.engine.inference.cpu import CPU
from onnx import numpy_helper


def test_least_flops_by_hand():
    """One layer is the last one: L = 3, H = 2, I = 5, V = 7.

    K and V 2·3·4 = 24, query and output 2·4 = 8, feed-forward 2·2·5 = 20, attention of one row 2·3·2 = 12; head 4 + 14.
    With E = 1: widening 3·1·2 products, head 2·1 and 1·7.
    """
    one = least_flops(3, 1, 2, 5, 7)
    assert one == least_flops(3, 1, 2, 5, 7, embedding=2) == 2 * (24 + 8 + 20 + 12) + 2 * (4 + 14)
    assert least_flops(3, 2, 2, 5, 7) == one + 2 * (4 * 3 * 4 + 2 * 3 * 2 * 5 + 2 * 9 * 2)
    assert least_flops(3, 1, 2, 5, 7, embedding=1) == one + 2 * (6 + 2 + 7 - 4 - 14)


def test_the_exported_graph_does_the_least_work_and_no_more(mini):
    info = mini.info
    sizes = info["layers"], info["hidden_size"], info["intermediate_size"], info["vocab_size"]
    assert info["flops"]["hoisted"] == pytest.approx(least_flops(info["flops"]["length"], *sizes), rel=1e-3)


@pytest.mark.parametrize(("kind", "operator"), [("fp32", "MatMul"), ("fp32", "Conv"), ("int8", "MatMul")])
def test_the_chain_multiplies_twice(kind, operator, tmp_path):
    path = _chain(tmp_path, 16, 64, kind, operator)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert sum(operator in name for name in kinds) == 2
    assert any("Integer" in name for name in kinds) == (kind == "int8")
    x = np.random.default_rng(0).normal(size=(1, 1, 3, 16)).astype(np.float32)
    (y,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    up, down = map(numpy_helper.to_array, onnx.load(_chain(tmp_path, 16, 64, "fp32")).graph.initializer[:2])
    np.testing.assert_allclose(y, (x @ up @ down)[:, :, :1], atol=0.2 if kind == "int8" else 1e-5)


def test_every_kernel_at_hand_is_timed():
    kernels = {"fp32": {"MatMul", "Conv", "PyTorch"}, "int8": {"MatMul"}, "bf16": {"PyTorch"}}
    rates = {kind: product_rates(CPU, 8, 16, 64, kind) for kind in kernels}
    assert {kind: set(own) for kind, own in rates.items()} == kernels
    assert min(product_rates(CPU, 8, 16, 64, "fp32", threads=1).values()) > 0


@pytest.mark.parametrize(
    ("flags", "kinds"), [({"avx2"}, {"fp32", "int8"}), ({"avx512_bf16"}, {"fp32", "int8", "bf16"})]
)
def test_what_the_processor_lacks_is_not_measured(flags, kinds, mini, monkeypatch):
    monkeypatch.setattr(machine, "instruction_sets", lambda: frozenset(flags))
    monkeypatch.setattr(run, "product_rates", lambda *_, **__: {})
    assert set(run._products(mini, CPU, 1)) == kinds
    missing = AtMask("bf16").missing(Place("", mini.folder, CPU, 1, mini.folder))
    assert missing == (None if "bf16" in kinds else "this processor has no products in bf16")
