"""What is measured without other programs: exports, workers of Ray, how busy many cores would be."""

import time
from dataclasses import replace

import pytest
from negengine.bench import cores, export
from negengine.bench.cores import Notes, busy
from negengine.bench.ray_speed import BUSY, run_clocked
from negengine.engine.inference.batches import finished, gathered
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs.executors import ThisProcess
from small_stages import Squares


def test_two_cores_take_batches_from_the_queue_when_they_are_free():
    """On two cores: two batches until 2, a third until 3; the program waits for all and takes 1; then one until 8."""
    noted = [("program", 0.0), ("batch", 2.0), ("batch", 2.0), ("batch", 1.0)]
    noted += [*(("wait", number) for number in range(3)), ("program", 1.0), ("batch", 4.0)]
    assert [busy(noted, cores) for cores in (1, 2, 9)] == pytest.approx([9 / 10, 9 / (2 * 8), 9 / (9 * 7)])


def test_what_is_noted_is_the_order_of_the_tasks_of_the_engines_own_scheduler():
    notes, ran = Notes(), []

    def task(number):
        for step in range(2):
            yield [notes.submit(ran.append, (number, step))]

    finished(gathered(task(number) for number in range(3)))
    assert ran == [(number, step) for step in range(2) for number in range(3)]
    order = [(what, value if what == "wait" else None) for what, value in notes.ended() if what != "program"]
    turns = [own for number in range(3) for own in (("wait", number), ("batch", None))]
    assert order == [("batch", None)] * 3 + turns + [("wait", n) for n in (3, 4, 5)]
    assert 0 < busy(notes.ended(), 2) <= 1


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
