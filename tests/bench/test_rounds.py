"""Systems are timed in alternation, each in a process of its own; what cannot run is a line."""

import os

import pytest
from counting_systems import Adding, Making, Numbers
from negengine.bench.rounds import compare
from negengine.bench.systems.system import Place
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.device import CPU

FEW, WORK = Numbers((1, 2, 3, 4)), Numbers(tuple(range(8)))


@pytest.fixture
def place(tmp_path):
    (tmp_path / "exported").mkdir()
    return Place("checkpoint", tmp_path / "exported", CPU, 1, tmp_path)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def compared(systems, place, rounds=1, said=None):
    return compare(systems, place, FEW, lambda _: WORK, rounds, (said if said is not None else []).append, warm_up=2)


def test_rounds_alternate_and_every_system_has_a_process_of_its_own(place, log):
    systems = [Adding("one", 1, str(log)), Adding("two", 2, str(log)), Adding("half", 0, str(log), fewer=2)]
    found = compared(systems, place, rounds=3)
    whole = [line.split()[0] for line in log.read_text().splitlines()[-9:]]
    assert whole == ["one", "two", "half", "half", "two", "one", "one", "two", "half"]
    assert [outcome.system.name for outcome in found.outcomes] == ["one", "two", "half"]
    one, two, half = found.outcomes
    assert two.answers.tolist() == [value + 2 for value in range(8)]
    assert (one.items, half.items, len(half.answers)) == (8, 4, 4)
    assert len(one.seconds) == 3
    processes = {outcome.found["process"] for outcome in found.outcomes}
    assert len(processes) == 3
    assert os.getpid() not in processes
    assert one.found["threads it was given"] == "1"


def test_the_fastest_settings_are_found_before_the_rounds(place, log):
    found = compared([Adding("one", 1, str(log), sizes=(40, 1, 20))], place)
    assert found.outcomes[0].choice == {"batch": 1}
    assert found.outcomes[0].row()["about"] == "batches of 1"
    tried = [line.split()[1:] for line in log.read_text().splitlines()]
    assert tried == [
        *(pair for size in ("40", "1", "20") for pair in (["2", size], ["4", size])),
        ["4", "1"],
        ["8", "1"],
    ]


def test_the_work_may_depend_on_how_fast_the_systems_are(place, log):
    rates = {}

    def work(found):
        rates.update(found)
        return WORK

    compare([Adding("one", 1, str(log))], place, FEW, work, 1, [].append)
    assert rates["one"] > 0


def test_a_row_says_what_the_process_used(place, log):
    row = compared([Adding("one", 1, str(log), ours=True)], place).outcomes[0].row()
    assert (row["system"], row["ours"], row["arithmetic"]) == ("one", True, "fp32")
    assert row["sentences/s"] > 0
    assert row["cores used"] >= 0
    assert row["MB"] is None or 5 < row["MB"] < 5_000  # of this process alone, not of the tests


def test_what_is_not_installed_is_a_line(place, log):
    said = []
    systems = [Adding("one", 1, str(log)), Adding("two", 2, str(log), needs=("no_such_module.inside",))]
    found = compared(systems, place, said=said)
    assert found.missing == {"two": "no_such_module.inside is not installed: pip install 'negengine[bench]'"}
    assert [outcome.system.name for outcome in found.outcomes] == ["one"]
    assert f"two: not measured: {found.missing['two']}" in said


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        ("opening", "the processor is too old"),
        ("running", "ValueError: no memory"),
        ("dying", "its process ended with status 3: a last word"),
    ],
)
def test_a_baseline_that_fails_is_a_line_and_the_others_go_on(place, log, fails, why):
    found = compared([Adding("bad", 1, str(log), fails=fails), Adding("one", 1, str(log))], place)
    assert found.missing == {"bad": why}
    assert found.by_name["one"].answers.tolist() == list(range(1, 9))


@pytest.mark.parametrize("kind", ["ours", "reference"])
def test_neither_our_own_system_nor_a_reference_may_be_missing(place, log, kind):
    system = Adding("one", 1, str(log), fails="opening")
    setattr(system, kind, True)
    with pytest.raises(InputError, match="one cannot be measured: the processor is too old"):
        compared([system], place)


def test_what_is_made_once_is_made_in_a_process_that_has_ended(place, log):
    found = compared([Making("one", 1, str(log))], place).outcomes[0].found
    assert found["maker"] not in {found["process"], os.getpid()}


def test_a_model_that_does_not_fit_into_memory_is_a_line(place, log, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 10**8}))
    found = compared([Adding("one", 1, str(log))], place)
    assert found.missing == {"one": "0.1 GB of memory are free, about 1.0 GB are needed"}
