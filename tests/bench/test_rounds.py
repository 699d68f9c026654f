"""Systems are timed in alternation, each in a process of its own; what cannot run is a line."""

import os

import pytest
from measured_systems import Adding, Making
from negengine.bench.rounds import Effort, compare
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


def compared(systems, place, said=None, **effort):
    """What is found with four items to try, and eight in one round."""
    given = Effort(**{"rounds": 1, "tried": 4, "fewest": 8, "most": 8, **effort})
    say = (said if said is not None else []).append
    return compare(systems, place, lambda n: Items(tuple(range(n))), given, say)


def test_rounds_alternate_and_every_system_has_a_process_of_its_own(place, log):
    systems = [Making("one", 1, str(log), ours=True), Adding("two", 2, str(log)), Adding("half", 0, str(log), fewer=2)]
    found = compared(systems, place, rounds=3)
    whole = [line.split()[0] for line in log.read_text().splitlines()[-9:]]
    assert whole == ["one", "two", "half", "half", "two", "one", "one", "two", "half"]
    assert [outcome.system.name for outcome in found.outcomes] == ["one", "two", "half"]
    one, two, half = found.outcomes
    assert two.answers.tolist() == [value + 2 for value in range(8)]
    assert (one.items, half.items, len(half.answers)) == (8, 4, 4)
    processes = {one.found["maker"], *(outcome.found["process"] for outcome in found.outcomes)}
    assert len(processes) == 4  # what is made once is made in a process that has ended
    assert os.getpid() not in processes
    row = one.row()
    assert (row["system"], row["ours"], row["arithmetic"], len(row["seconds"])) == ("one", True, "fp32", 3)
    assert row["threads it was given"] == "1"
    assert row["MB"] is None or 5 < row["MB"] < 5_000  # of this process alone, not of the tests


def test_the_fastest_settings_are_found_before_the_rounds(place, log):
    found = compared([Adding("one", 1, str(log), sizes=(40, 1, 20))], place, tried=16)
    assert found.outcomes[0].row()["about"] == "batches of 1"
    tried = [line.split()[1:] for line in log.read_text().splitlines()]
    assert tried == [
        *(pair for size in ("40", "1", "20") for pair in (["2", size], ["16", size])),
        ["16", "1"],
        ["8", "1"],
    ]


def test_a_round_takes_the_slowest_baseline_about_as_long_as_wanted(place, log):
    systems = [Adding("ours", 1, str(log), ours=True), Adding("slow", 1, str(log), sizes=(20, 21), fewer=4)]
    ours, other = compared(systems, place, seconds=0.2, tried=32, most=10**6).outcomes
    assert 8 < ours.items == pytest.approx(0.2 * 4 * other.tried, abs=1)
    assert other.items == ours.items // 4


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        ("opening", "the processor is too old"),
        ("running", "ValueError: no memory"),
        ("dying", "its process ended with status 3: a last word"),
        ("", "no_such_module.inside is not installed: pip install 'negengine[bench]'"),
    ],
)
def test_a_baseline_that_fails_is_a_line_and_the_others_go_on(place, log, fails, why):
    said, needs = [], () if fails else ("no_such_module.inside",)
    found = compared([Adding("bad", 1, str(log), fails=fails, needs=needs), Adding("one", 1, str(log))], place, said)
    assert found.missing == {"bad": why}
    assert f"bad: not measured: {why}" in said
    assert found.by_name["one"].answers.tolist() == list(range(1, 9))


@pytest.mark.parametrize("kind", ["ours", "reference"])
def test_neither_our_own_system_nor_a_reference_may_be_missing(place, log, kind):
    with pytest.raises(InputError, match="one cannot be measured: the processor is too old"):
        compared([Adding("one", 1, str(log), fails="opening", **{kind: True})], place)


def test_a_model_that_does_not_fit_into_memory_is_a_line(place, log, monkeypatch):
    free = iter([10**8, 10**10])
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": next(free)}))
    found = compared([Adding("one", 1, str(log)), Adding("two", 2, str(log))], place)
    assert found.missing == {"one": "0.1 GB of memory are free, about 1.0 GB are needed"}
