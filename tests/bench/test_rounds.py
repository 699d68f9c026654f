"""Systems are timed in alternation, each in a process of its own; what cannot run is a line."""

import os

import pytest
from measured_systems import Adding, Making, here
from negengine.bench.rounds import Effort, compare, in_a_process
from negengine.bench.system import Items, Place
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.versions import requirement
from negengine.engine.inference.devices.cpu import CPU


@pytest.fixture
def place(tmp_path):
    (tmp_path / "exported").mkdir()
    return Place("checkpoint", tmp_path / "exported", CPU, 1, tmp_path)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def compared(systems, place, said=None, start=in_a_process, **effort):
    """What is found with four items to try, and eight in one round."""
    given = Effort(**{"rounds": 1, "tried": 4, "fewest": 8, "most": 8, **effort})
    say, make = (said if said is not None else []).append, lambda n: Items(tuple(range(n)))
    return compare(systems, place, make, given, say, start)


class Interrupted(Adding):
    """Is interrupted in the first round, after it was tried."""

    def run(self, work, choice):
        if len(work) > 4:
            raise KeyboardInterrupt
        return super().run(work, choice)


def test_what_was_measured_is_left_after_an_interrupt(place, log):
    systems = [Adding("one", 1, str(log), reference=True), Interrupted("two", 2, str(log))]
    found = compared(systems, place, start=here, rounds=3)
    assert (found.interrupted, [*found.by_name], found.by_name["one"].items) == (True, ["one"], 8)
    assert [*found.missing] == ["two"]


def test_rounds_alternate_and_every_system_has_a_process_of_its_own(place, log):
    systems = [Making("one", 1, str(log), ours=True), Adding("two", 2, str(log)), Adding("half", 0, str(log), fewer=2)]
    found = compared(systems, place, rounds=3)
    whole = log.read_text().split()[-9:]
    assert whole == ["one", "two", "half", "half", "two", "one", "one", "two", "half"]
    assert [outcome.system.name for outcome in found.outcomes] == ["one", "two", "half"]
    one, two, half = found.outcomes
    assert two.answers.tolist() == [value + 2 for value in range(8)]
    assert (one.items, half.items, len(half.answers)) == (8, 4, 4)
    # what is made once is made in a process that has ended
    assert len({os.getpid(), one.found["maker"], *(outcome.found["process"] for outcome in found.outcomes)}) == 5
    assert (len(one.row()["seconds"]), one.row()["threads it was given"]) == (3, "1")


def test_baselines_that_fail_or_do_not_fit_into_memory_are_lines_and_the_others_go_on(place, log, monkeypatch):
    whys = {
        "opening": "the processor is too old",
        "running": "ValueError: no memory",
        "dying": "its process ended with status 3: a last word",
        "missing": f"no_such_module.inside is not installed: pip install {requirement('bench')}",
        "large": "0.1 GB of memory are free, about 1.0 GB are needed",
    }
    bad, said = [Adding(fails, 1, str(log), fails=fails) for fails in whys], []
    bad[-2].needs = ("no_such_module.inside",)
    free = iter([10**10] * 4 + [10**8, 10**10])
    with monkeypatch.context() as patched:
        patched.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": next(free)}))
        found = compared([*bad, Adding("one", 1, str(log))], place, said)
    assert found.missing == whys
    assert {f"{fails}: not measured: {why}" for fails, why in whys.items()} <= set(said)
    assert found.by_name["one"].answers.tolist() == list(range(1, 9))
    for kind in ("ours", "reference"):
        with pytest.raises(InputError, match="one cannot be measured: the processor is too old"):
            compared([Adding("one", 1, str(log), fails="opening", **{kind: True})], place)
