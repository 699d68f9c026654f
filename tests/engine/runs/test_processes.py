"""Several processes decide as one does, composing and writing run beside it; whoever ends, nothing hangs or is lost."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

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
from negengine.engine.runs.executors import lanes, overlap, side_by_side
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


def test_the_next_is_prepared_and_the_last_finished_while_one_is_computed():
    prepared, finished = ([threading.Event() for _ in range(4)] for _ in range(2))

    def compute(key, _):  # without overlap this would never end
        if key + 1 < 4:
            assert prepared[key + 1].wait(30)
        if key > 0:
            assert finished[key - 1].wait(30)

    overlap(range(4), lambda key: prepared[key].set(), compute, lambda key, _: finished[key].set())


def test_in_two_lanes_a_part_begins_before_another_ends_and_each_counts_its_own():
    both, counted = threading.Barrier(2, timeout=30), {}

    def compute(key, _):
        tally.count(key)
        both.wait()  # in one lane this would never end
        return tally.take().sentences

    side_by_side(range(6), lambda _: None, [compute, compute], counted.__setitem__)
    assert counted == {key: key for key in range(6)}  # and nothing of the other lane


@pytest.mark.parametrize("fails", [1, 4])
def test_an_error_in_one_lane_ends_the_other_and_what_was_finished_stays(fails):
    finished = []

    def compute(key, _):
        if key == fails:
            raise OSError(str(key))

    with pytest.raises(OSError, match=str(fails)):
        side_by_side(range(10**6), lambda _: None, [compute, compute], lambda key, _: finished.append(key))
    assert fails not in finished
    assert len(finished) < 10**5
    assert threading.active_count() < 20


def test_a_gpu_decides_two_parts_at_a_time_and_cores_one():
    assert [lanes(Selection, device) for device in (CPU, Cuda())] == [1, 2]
    assert lanes(RequestStage, Cuda()) == 1


@pytest.mark.parametrize("stage", ["prepare", "compute", "finish"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_ends_the_run_in_the_calling_thread_and_what_was_finished_before_stays(stage, error):
    finished = []

    def fails(name, key):
        assert name != "compute" or threading.current_thread() is threading.main_thread()
        if (name, key) == (stage, 3):
            raise error(stage)

    def finish(key, _):
        fails("finish", key)
        finished.append(key)

    with pytest.raises(error, match=stage):
        overlap(range(100), lambda key: fails("prepare", key), lambda key, _: fails("compute", key), finish)
    assert (finished[:2], 3 in finished, len(finished) < 6) == ([0, 1], False, True)
