"""Executors give parts to models; this file has what they share and the one of this process.

Composing, deciding and writing overlap, in order, and an error in any of them ends all.
"""

import threading

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs.executors import ThisProcess, opened, overlap
from negengine.engine.runs.stage import Choices
from small_stages import Squares


def decide(stage, numbers, say=lambda _: None):
    finished, told = {}, []
    with ThisProcess(CPU).start(stage, Opening(threads=3), say) as workers:
        workers.run(numbers, Choices(), finished.__setitem__, lambda *done: told.append(done))
        return workers, finished, told


def test_this_process_opens_chooses_and_decides_the_parts_that_it_is_given():
    said = []
    workers, finished, told = decide(Squares(), [3, 1], said.append)
    assert sorted(finished) == [1, 3]
    assert told == [(4, 4), (2, 2)]
    assert [own | {"hardware": ""} for own in workers.descriptions] == [{"device": "cpu", "threads": 3, "hardware": ""}]
    assert workers.choose(said.append).calibration["Cn"]["bound"] == 0.5
    assert said == ["device cpu, threads 3", "calibrated"]
    assert opened({}) == ""
    with pytest.raises(InputError, match="cpu has no memory"):
        decide(Squares(fault="open"), [0])


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_every_key_goes_through_all_three_in_order(n):
    finished = []
    overlap(range(n), lambda key: key * 10, lambda key, x: (key, x + 1), lambda key, y: finished.append((key, y)))
    assert finished == [(key, (key, key * 10 + 1)) for key in range(n)]


def test_the_next_is_prepared_and_the_last_finished_while_one_is_computed():
    """Each computation waits for both neighbours: without overlap this would never end."""
    prepared, finished = ([threading.Event() for _ in range(4)] for _ in range(2))

    def compute(key, _):
        if key + 1 < 4:
            assert prepared[key + 1].wait(30)
        if key > 0:
            assert finished[key - 1].wait(30)

    overlap(range(4), lambda key: prepared[key].set(), compute, lambda key, _: finished[key].set())


@pytest.mark.parametrize("stage", ["prepare", "compute", "finish"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_ends_the_run_in_the_calling_thread_and_what_was_finished_before_stays(stage, error):
    finished = []

    def fails(name, key):
        assert name != "compute" or threading.current_thread() is threading.main_thread()
        if (name, key) == (stage, 3):
            raise error(stage)

    with pytest.raises(error, match=stage):
        overlap(
            range(100),
            lambda key: fails("prepare", key),
            lambda key, _: fails("compute", key),
            lambda key, _: (fails("finish", key), finished.append(key)),
        )
    assert finished[:2] == [0, 1]
    assert 3 not in finished
    assert len(finished) < 6
