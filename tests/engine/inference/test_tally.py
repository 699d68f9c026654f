"""Runs in several threads of a process each count for themselves, on the threads of one device, too."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from negengine.engine.inference import tally
from negengine.engine.inference.batches import Runner, finished
from negengine.engine.inference.tally import Tally


class Counting(Runner):
    """A device whose jobs count, and say, what they are given."""

    def __init__(self):
        self._queue = ThreadPoolExecutor(2)

    def _run(self, batch, advance):
        raise NotImplementedError


def test_each_run_has_its_own_counts_and_listener():
    runner, together = Counting(), Barrier(3, timeout=30)

    def run(sentences):
        told = []

        def job(_):
            tally.count(sentences, 7)
            tally.say(f"{sentences}")

        with tally.own(told.append):
            together.wait()
            for _ in range(20):
                finished(runner.working([job] * 3))
            return tally.take(), set(told), len(told)

    tally.take()
    with ThreadPoolExecutor(3) as threads:
        for sentences, found in zip((1, 10, 100), threads.map(run, (1, 10, 100)), strict=True):
            assert found == (Tally(60 * sentences, 420 * sentences), {f"{sentences}"}, 60)
    assert tally.take() == Tally()
