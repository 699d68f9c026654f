"""What is clocked is what happened: parts, their bytes, the seconds of their decisions."""

import time
from dataclasses import replace

from negengine.bench.ray_speed import BUSY, run_clocked
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs.executors import ThisProcess
from small_stages import Squares


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
