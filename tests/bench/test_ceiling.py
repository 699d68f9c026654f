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


def test_the_least_work_is_that_of_a_calculation_by_hand_and_of_the_exported_graph(mini):
    """One layer is the last one: L = 3, H = 2, I = 5, V = 7.

    K and V 2·3·4 = 24, query and output 2·4 = 8, feed-forward 2·2·5 = 20, attention of one row 2·3·2 = 12; head 4 + 14.
    With E = 1: widening 3·1·2 products, head 2·1 and 1·7.
    """
    one = least_flops(3, 1, 2, 5, 7)
    assert one == least_flops(3, 1, 2, 5, 7, embedding=2) == 2 * (24 + 8 + 20 + 12) + 2 * (4 + 14)
    assert least_flops(3, 2, 2, 5, 7) == one + 2 * (4 * 3 * 4 + 2 * 3 * 2 * 5 + 2 * 9 * 2)
    assert least_flops(3, 1, 2, 5, 7, embedding=1) == one + 2 * (6 + 2 + 7 - 4 - 14)
    flops = mini.info["flops"]
    assert flops["hoisted"] == pytest.approx(run.least(mini, flops["length"]), rel=1e-3)


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


@pytest.mark.parametrize("kinds", [("fp32", "int8"), ("fp32", "int8", "bf16")])
def test_every_kernel_at_hand_is_timed_but_not_what_the_processor_lacks(kinds, mini, monkeypatch):
    has_bf16 = "bf16" in kinds
    monkeypatch.setattr(machine, "instruction_sets", lambda: {"avx512_bf16"} if has_bf16 else {"avx2"})
    monkeypatch.setattr(run, "product_rates", lambda *of, **given: product_rates(CPU, 8, 16, 64, of[4], **given))
    found = {
        kind: {name for name, rate in own.items() if rate > 0} for kind, own in run._products(mini, CPU, 1).items()
    }
    kernels = {"fp32": {"MatMul", "Conv", "PyTorch"}, "int8": {"MatMul"}, "bf16": {"PyTorch"}}
    assert found == {kind: kernels[kind] for kind in kinds}
    missing = AtMask("bf16").missing(Place("", mini.folder, CPU, 1, mini.folder))
    assert missing == (None if has_bf16 else "this processor has no products in bf16")
