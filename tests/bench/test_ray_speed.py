"""What is clocked is what happened: parts, their bytes, the seconds of their decisions."""

import time
from dataclasses import replace

from negengine.bench.ray_speed import BUSY, Clocked, summary
from negengine.engine.inference.device import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from small_stages import Squares


class Busy(Squares):
    name = "busy"

    def decide(self, *arguments):
        began = time.perf_counter()
        result = super().decide(*arguments)
        return replace(result, counts={BUSY: time.perf_counter() - began})


def test_an_executor_is_clocked(tmp_path):
    clocked = Clocked(ThisProcess(CPU))
    run_stage(Busy(parts=5), tmp_path, Execution(clocked, reporter=Reporter(silent=True)))
    assert clocked.parts == 5
    stored = [path.stat().st_size for path in (tmp_path / "parts" / "busy").glob("*.parquet")]
    assert clocked.moved == sum(stored)
    found = summary(clocked, "one", 1, 15)
    assert (found.parts, found.sentences, found.moved) == (5, 15, sum(stored) / 5)
    assert 0 <= found.waiting <= 1
    assert found.rate == 15 / clocked.deciding
    assert 0 < clocked.busy < clocked.deciding
