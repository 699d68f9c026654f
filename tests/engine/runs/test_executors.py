"""Executors give parts to models; this file has what they share and the one of this process."""

import pytest
from negengine.engine.errors import InputError
from negengine.engine.inference.device import CPU
from negengine.engine.runs.executors import ThisProcess, opened
from negengine.engine.runs.stage import Choices, ModelOptions
from small_stages import Squares


def decide(stage, numbers, say=lambda _: None):
    finished, told = {}, []
    with ThisProcess(CPU).start(stage, ModelOptions(threads=3), say) as workers:
        workers.run(numbers, Choices(), finished.__setitem__, lambda *done: told.append(done))
        return workers, finished, told


def test_this_process_decides_the_parts_that_it_is_given():
    workers, finished, told = decide(Squares(), [3, 1])
    assert sorted(finished) == [1, 3]
    assert told == [(4, 4), (2, 2)]
    assert [own | {"hardware": ""} for own in workers.descriptions] == [{"device": "cpu", "threads": 3, "hardware": ""}]


def test_the_opened_model_is_told():
    said = []
    decide(Squares(), [], said.append)
    assert said == ["device cpu, threads 3"]
    assert opened({}) == ""


def test_a_model_that_does_not_open_is_told():
    with pytest.raises(InputError, match="cpu has no memory"):
        decide(Squares(fault="open"), [0])


def test_this_process_chooses():
    said = []
    with ThisProcess(CPU).start(Squares(), ModelOptions(), lambda _: None) as workers:
        assert workers.choose(said.append).calibration["Cn"]["bound"] == 0.5
    assert said == ["calibrated"]
