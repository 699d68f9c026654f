"""What is clocked is what happened: parts, their bytes, the seconds of their decisions."""

from negengine.bench.clocked import Clocked
from negengine.bench.clocked_stages import Waiting
from negengine.bench.ray_speed import summary
from negengine.engine.inference.device import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter


def test_an_executor_is_clocked(tmp_path):
    stage = Waiting(seconds=0.0, spread=0.1, size=4_000, parts=5, sentences=3)
    clocked = Clocked(ThisProcess(CPU))
    run_stage(stage, tmp_path, Execution(clocked, reporter=Reporter(silent=True)))
    assert clocked.parts == 5
    stored = [path.stat().st_size for path in (tmp_path / "parts" / "waiting").glob("*.parquet")]
    assert clocked.moved == sum(stored)
    assert min(stored) > 4_000  # random bytes do not get smaller
    found = summary(clocked, "one", 1, 15)
    assert (found.parts, found.sentences, found.moved) == (5, 15, sum(stored) / 5)
    assert 0 <= found.waiting <= 1
    assert found.rate == 15 / clocked.deciding
    assert 0 < clocked.busy < clocked.deciding
