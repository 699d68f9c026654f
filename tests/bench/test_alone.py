"""What is measured without other programs: exports, workers of Ray, busy cores, intervals, the machine's ceiling."""

import time
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from negengine.bench import cores, export, machine, run
from negengine.bench.baselines import AtMask
from negengine.bench.ceiling import _chain, least_flops, product_rates
from negengine.bench.cores import busy
from negengine.bench.coverage import coverage, markdown, mean_interval, rate_interval, relative_interval
from negengine.bench.ray_speed import BUSY, run_clocked
from negengine.bench.system import Place
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs.executors import ThisProcess
from onnx import numpy_helper
from small_stages import Squares


def test_two_cores_take_batches_from_the_queue_when_they_are_free():
    """On two cores: two batches until 2, a third until 3; the program waits for all and takes 1; then one until 8."""
    noted = [("program", 0.0), ("batch", 2.0), ("batch", 2.0), ("batch", 1.0)]
    noted += [*(("wait", number) for number in range(3)), ("program", 1.0), ("batch", 4.0)]
    assert [busy(noted, cores) for cores in (1, 2, 9)] == pytest.approx([9 / 10, 9 / (2 * 8), 9 / (9 * 7)])


@pytest.mark.everything
def test_parts_of_selections_and_likelihoods_are_played(cache):
    found = cores.measure(["bert-base-shape", "gpt2-shape"], cache=cache, say=[].append)
    assert [own["part"] for own in found["parts"]] == ["select, fp32", "likelihood"]
    for own in found["parts"]:
        shares = list(own["busy"].values())
        assert shares == sorted(shares, reverse=True)
        assert own["batches"] > 50
    assert len(cores.table(found).frame) == 2


@pytest.mark.everything
def test_the_costs_of_an_export_are_measured_beside_plain_optimum(tmp_path):
    found = export.measure(["bert-base-shape"], folder=tmp_path)
    assert [cost["system"] for cost in found["export"]] == list(export.SYSTEMS) == ["negengine", "Optimum"]
    for cost in found["export"]:
        assert min(cost["seconds"], cost["cpu_seconds"]) > 0
        assert 1e8 < cost["peak_bytes"] < 1e11  # bytes, on every system
        assert cost["disk_bytes"] > 13_000 * 32 * 4  # the word embeddings at least
    assert export.table(found).frame.height == 2


class Busy(Squares):
    name = "busy"

    def decide(self, *arguments):
        began = time.perf_counter()
        result = super().decide(*arguments)
        return replace(result, counts={BUSY: time.perf_counter() - began})


def test_an_executor_is_clocked(tmp_path):
    found = run_clocked(Busy(parts=5), tmp_path, "one", 1, ThisProcess(CPU))
    stored = [path.stat().st_size for path in (tmp_path / "parts" / "busy").glob("*.parquet")]
    assert (found["parts"], found["sentences"], found["moved"]) == (5, 15, sum(stored) / 5)
    assert found["rate"] == 15 / found["deciding"]
    assert 0 <= found["waiting"] < 1
    assert min(found["opening"], found["own"], found["writing"]) > 0


def test_coverage_counts_the_intervals_that_hold_the_truth():
    ends = iter([(0.0, 1.0), (0.2, 0.4), (0.5, 0.5), (0.6, 0.9)])
    assert coverage(4, lambda _: (0.5, [next(ends), (0, 1)]), seed=0) == [50, 100]


def test_intervals_hold_the_truth():
    """0.92 is three standard errors of 500 samples below 95 %; of few pairs at an extreme rate it was 0.90 before."""
    for truth, interval in (
        (0.02, lambda random: rate_interval(random, 60, 0.02, 0.3)),
        (0.98, lambda random: rate_interval(random, 60, 0.98, 0.3)),
        (0.0, lambda random: mean_interval(random, 30, 0.0)),
        (1 - 0.6 / 0.9, lambda random: relative_interval(random, 60, 0.9, 0.6)),
    ):
        [held] = coverage(500, lambda random, own=(truth, interval): (own[0], [own[1](random)]), seed=3)
        assert held >= 92, truth


def test_the_tables_are_the_same_for_the_same_seed():
    text = markdown(2, seed=1, pairs=(6,))
    assert text == markdown(2, seed=1, pairs=(6,))
    assert sum(line.startswith("**") for line in text.splitlines()) == 11
    cells = [float(cell) for line in text.splitlines() if line.startswith("| 6 ") for cell in line.split("|")[2:-1]]
    assert set(cells) <= {0.0, 50.0, 100.0}
    assert np.mean(cells) > 50


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
