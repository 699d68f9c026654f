"""Several processes decide as one does, composing and writing run beside it; whoever ends, nothing hangs or is lost."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.select import Selection
from negengine.engine.inference import tally
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.devices.cuda import Cuda
from negengine.engine.requests.stage import RequestStage
from negengine.engine.runs.executors import PartWorker, lanes
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.record import read_run
from negengine.engine.runs.stage import Choices
from small_stages import Squares, Unreadable, results, run

STAGES = str(Path(sys.modules["small_stages"].__file__).parent)
TWO = Processes((CPU, CPU))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return results(run(Squares(), tmp_path_factory.mktemp("whole") / "run"))


@pytest.fixture(scope="module", params=[1, 3])
def pool(request):
    with Processes((CPU,) * request.param).start(Squares(parts=100), Opening(), lambda _: None) as workers:
        yield workers


@settings(max_examples=40)
@given(numbers=st.lists(st.integers(0, 99), unique=True, max_size=15))
def test_any_number_of_parts_is_decided_once_each(pool, numbers):
    """Without a deadlock: a process looks one part ahead, and must learn at once that there is none."""
    finished, told = [], []
    pool.run(numbers, Choices(), lambda *part: finished.append(part[0]), lambda *done: told.append(done[0]))
    assert sorted(finished) == sorted(numbers)
    assert sorted(told) == sorted(number + 1 for number in numbers)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("kill", InputError, r"^--device cpu \(\d of 2\): its process was killed by SIGKILL \(is the memory full\?\)"),
        ("exit", InputError, r"its process ended with status 3; finished parts are kept, run the same command again"),
        ("refuse", InputError, r"^--batch-tokens 16: too few$"),
        ("fail", RuntimeError, r"(?s)--device cpu \(\d of 2\): Traceback.*ZeroDivisionError: nobody expected this"),
    ],
)
def test_a_process_that_ends_is_told_and_the_run_is_resumed(tmp_path, whole, fault, error, message):
    with pytest.raises(error, match=message):
        run(Squares(fault=fault), tmp_path, TWO)
    assert results(run(Squares(), tmp_path)) == whole


def test_what_a_process_cannot_open_or_read_is_told(tmp_path):
    with pytest.raises(InputError, match=r"^cpu has no memory$"):
        run(Squares(fault="open"), tmp_path, TWO)
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*this stage cannot be unpickled"):
        run(Unreadable(), tmp_path, TWO)  # such as one of a script, which the processes do not run
    assert read_run(tmp_path).stages == {}


RUN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run where it is ignored, as under nohup
sys.path[:0] = sys.argv[1:2]
from small_stages import CPU, Path, Reporter, Squares, run
from negengine.engine.runs.processes import Processes
stage = Squares(fault="hang" if sys.argv[3] else "", at=0, fifo=sys.argv[3])
run(stage, Path(sys.argv[2]), Processes((CPU, CPU)), reporter=Reporter())
"""


def command(*words):
    return [sys.executable, "-c", RUN, STAGES, *map(str, words)]


@pytest.mark.parametrize("end", ["SIGKILL", "SIGINT"])
def test_no_process_outlives_the_one_that_started_it(tmp_path, end):
    """The pipe is held by the process that decides: it ends for its reader when that process does."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    running = subprocess.Popen(command(tmp_path / "run", fifo), stderr=subprocess.DEVNULL)
    with running as first, fifo.open("rb", buffering=0) as pipe:
        assert int(pipe.read(100)) != first.pid
        first.send_signal(signal.Signals[end])
        assert pipe.read() == b""
        assert first.wait() == -signal.Signals[end]


@dataclass(frozen=True)
class Meeting(Squares):
    """Parts that wait for what happens to others meanwhile, and that an error can end in any step."""

    fails: tuple[str, int] = ("", 0)  # a step and a part
    error: Any = None
    meets: Any = None  # is called with each step and part

    def _met(self, step, number):
        if (step, number) == self.fails:
            raise self.error(step)
        if self.meets is not None:
            self.meets(step, number)

    def prepare(self, number):
        self._met("prepare", number)
        return super().prepare(number)

    def decide(self, model, number, prepared, advance):
        tally.count(number)
        self._met("decide", number)
        return super().decide(model, number, prepared, advance)


def decided(stage, numbers, lanes=1):
    """The parts that a worker in this process has finished."""
    finished = {}

    def finish(number, part):
        stage._met("finish", number)
        finished[number] = part

    before = {*threading.enumerate()}
    with closing(PartWorker(stage, Opening(device="cpu"), lanes)) as worker:
        try:
            worker.run(numbers, Choices(), finish, lambda *_: None)
        except (OSError, KeyboardInterrupt) as error:
            assert stage.fails[0] == str(error)  # noqa: PT017
    assert {*threading.enumerate()} <= before
    return finished


def test_the_next_is_prepared_and_the_last_finished_while_one_is_decided():
    counts, changed = Counter(), threading.Condition()

    def meets(step, _):  # without overlap this would never end
        with changed:
            counts[step] += 1
            changed.notify_all()
            begun = counts["decide"]
            if step == "decide":
                assert changed.wait_for(lambda: counts["prepare"] > min(begun, 3) and counts["finish"] >= begun - 2, 30)

    assert len(decided(Meeting(meets=meets), range(4))) == 4


def test_in_two_lanes_a_part_begins_before_another_ends_and_each_counts_its_own():
    both = threading.Barrier(2, timeout=30)  # in one lane this would never end
    found = decided(Meeting(parts=6, meets=lambda step, _: step == "decide" and both.wait()), range(6), lanes=2)
    assert {number: part.tally.sentences for number, part in found.items()} == {number: number for number in range(6)}


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("step", ["prepare", "decide", "finish"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_ends_the_run_and_what_was_decided_before_stays(step, error, lanes):
    found = decided(Meeting(parts=10**6, fails=(step, 9), error=error), range(10**6), lanes)
    assert ({*range(3)} <= found.keys(), 9 in found, len(found) < 30) == (True, False, True)


def test_an_interrupt_ends_a_part_with_its_next_batch_and_what_is_decided_already_is_kept():
    begun, kept = threading.Event(), []

    class Endless(Squares):
        def decide(self, model, number, prepared, advance):
            while number == 2:
                begun.set()
                advance(0, 0)
            return super().decide(model, number, prepared, advance)

    def finish(number, _):
        if number == 0:
            assert begun.wait(30)
            raise KeyboardInterrupt
        kept.append(number)

    with pytest.raises(KeyboardInterrupt):
        PartWorker(Endless(), Opening(device="cpu")).run(range(4), Choices(), finish, lambda *_: None)
    assert kept == [1]


def test_a_gpu_decides_two_parts_at_a_time_and_cores_one():
    assert [lanes(Selection, device) for device in (CPU, Cuda())] == [1, 2]
    assert lanes(RequestStage, Cuda()) == 1
