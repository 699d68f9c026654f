"""Systems are timed in alternation, each in a process of its own; what cannot run is a line."""

import os

import pytest
from measured_systems import Adding, Making, here
from negengine.bench import rounds
from negengine.bench.rounds import Effort, compare, in_a_process
from negengine.bench.system import Items, Place
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.cpu import CPU


@pytest.fixture
def place(tmp_path):
    (tmp_path / "exported").mkdir()
    return Place("checkpoint", tmp_path / "exported", CPU, 1, tmp_path)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def compared(systems, place, said=None, start=in_a_process, **effort):
    """What is found with four items to try, and eight in one round; and which systems were known, again and again."""
    given, known = Effort(**{"rounds": 1, "tried": 4, "fewest": 8, "most": 8, **effort}), []
    say, make = (said if said is not None else []).append, lambda n: Items(tuple(range(n)))
    return compare(systems, place, make, given, say, start, lambda now: known.append([*now.by_name])), known


SECONDS = [0.0]  # what the clock of these tests shows: it goes on while `Slow` systems run


class Slow(Adding):
    """Takes as many seconds for a batch as the batch is large, and is interrupted when it has run so often."""

    last = 0

    def run(self, work, choice):
        SECONDS[0] += choice["batch"]
        self.runs = getattr(self, "runs", 0) + 1
        if self.runs == self.last:
            raise KeyboardInterrupt
        return super().run(work, choice)


def test_what_was_measured_is_known_at_once_and_is_left_after_an_interrupt(place, log):
    numbered = (("one", 1, {"reference": True}), ("two", 2, {}), ("three", 3, {"ours": True}))
    systems = [Slow(name, number, str(log), **given) for name, number, given in numbered]
    systems[1].last = 3  # after it was tried, in the first round
    said = []
    found, known = compared(systems, place, said, here, rounds=3)
    assert known == [["one"], ["one", "three"], ["one", "two", "three"], ["one"]]
    assert (found.interrupted, [*found.by_name], found.by_name["one"].items) == (True, ["one"], 8)
    assert [*found.missing] == ["two", "three"]
    assert [line.split(":")[0] for line in said if "a second, with 4 items" in line] == ["one", "three", "two"]
    systems[1].last = 2  # while it is opened: of the others, the few items count
    found, _ = compared(systems, place, said, here)
    assert [(name, one.items) for name, one in found.by_name.items()] == [("one", 4), ("three", 4)]
    assert found.by_name["three"].row()["sentences/s"] > 0
    systems[0].last = 1
    with pytest.raises(KeyboardInterrupt):
        compared(systems, place, said, here)


def test_with_a_limit_of_time_baselines_try_fewer_settings_and_the_last_are_left_out(place, log, monkeypatch):
    """60 s are for opening: 2 s each are needed for one and three; then each baseline has a share of what is left."""
    monkeypatch.setattr(rounds, "_now", lambda: SECONDS[0])
    SECONDS[0] = 0.0
    baselines = [Slow(name, 2, str(log), sizes=(20, 9, 8)) for name in ("two", "four", "five")]
    systems = [Slow("one", 1, str(log), reference=True), *baselines, Slow("three", 3, str(log), ours=True)]
    found, _ = compared(systems, place, [], here, rounds=3, limit=100.0)
    assert [*found.by_name] == ["one", "two", "four", "three"]
    assert found.missing == {"five": "no time is left for it with --quick"}
    assert [line.split()[2] for line in log.read_text().splitlines() if line.startswith("four 4")] == ["20"]
    assert {one.rounds for one in found.outcomes} == {1}
    SECONDS[0] = 0.0
    found, _ = compared(systems, place, [], here, rounds=3, limit=200.0)
    assert ([*found.missing], {one.rounds for one in found.outcomes}) == ([], {2})


def test_rounds_alternate_and_every_system_has_a_process_of_its_own(place, log):
    systems = [Making("one", 1, str(log), ours=True), Adding("two", 2, str(log)), Adding("half", 0, str(log), fewer=2)]
    found, _ = compared(systems, place, rounds=3)
    whole = [line.split()[0] for line in log.read_text().splitlines()[-9:]]
    assert whole == ["one", "two", "half", "half", "two", "one", "one", "two", "half"]
    assert [outcome.system.name for outcome in found.outcomes] == ["one", "two", "half"]
    one, two, half = found.outcomes
    assert two.answers.tolist() == [value + 2 for value in range(8)]
    assert (one.items, half.items, len(half.answers)) == (8, 4, 4)
    # what is made once is made in a process that has ended
    assert len({os.getpid(), one.found["maker"], *(outcome.found["process"] for outcome in found.outcomes)}) == 5
    row = one.row()
    assert (row["system"], row["ours"], row["arithmetic"], len(row["seconds"])) == ("one", True, "fp32", 3)
    assert row["threads it was given"] == "1"
    assert row["MB"] is None or 5 < row["MB"] < 5_000  # of this process alone, not of the tests


def test_baselines_that_fail_or_do_not_fit_into_memory_are_lines_and_the_others_go_on(place, log, monkeypatch):
    whys = {
        "opening": "the processor is too old",
        "running": "ValueError: no memory",
        "dying": "its process ended with status 3: a last word",
        "missing": "no_such_module.inside is not installed: pip install 'negengine[bench]'",
        "large": "0.1 GB of memory are free, about 1.0 GB are needed",
    }
    bad, said = [Adding(fails, 1, str(log), fails=fails) for fails in whys], []
    bad[-2].needs = ("no_such_module.inside",)
    free = iter([10**10] * 4 + [10**8, 10**10])
    with monkeypatch.context() as patched:
        patched.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": next(free)}))
        found, _ = compared([*bad, Adding("one", 1, str(log))], place, said)
    assert found.missing == whys
    assert {f"{fails}: not measured: {why}" for fails, why in whys.items()} <= set(said)
    assert found.by_name["one"].answers.tolist() == list(range(1, 9))
    for kind in ("ours", "reference"):
        with pytest.raises(InputError, match="one cannot be measured: the processor is too old"):
            compared([Adding("one", 1, str(log), fails="opening", **{kind: True})], place)
