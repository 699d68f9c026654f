"""Composing, deciding and writing overlap, in order, and an error in any of them ends all."""

import threading

import pytest
from negengine.engine.runs.executors import overlap


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
