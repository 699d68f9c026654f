"""A number is measured once for a kind of processor, and is the same for all processes from then on."""

import json
import os
import threading

import pytest
from negengine.engine.inference.measured import Measured

HERE = {"processor": "one", "threads": 2}


def never():
    raise AssertionError("measured again")


@pytest.fixture
def kept(tmp_path):
    return Measured(HERE, (tmp_path / "model" / ".measured.json", tmp_path / "cache" / ".measured.json"))


def test_it_is_measured_once(kept):
    assert kept.number("speed", lambda: 2.5) == 2.5
    assert kept.number("speed", never) == 2.5
    assert Measured(dict(HERE), kept.places).number("speed", never) == 2.5


def test_the_measuring_process_takes_the_number_as_it_is_kept(kept):
    assert kept.number("speed", lambda: 2.123456789) == kept.number("speed", never) == 2.123


def test_other_conditions_and_other_names_have_numbers_of_their_own(kept):
    kept.number("speed", lambda: 2.5)
    assert kept.number("another", lambda: 7) == 7
    elsewhere = Measured({**HERE, "processor": "another"}, kept.places)
    assert elsewhere.number("speed", lambda: 1.1) == 1.1
    assert kept.number("speed", never) == 2.5
    assert kept.number("another", never) == 7


def test_beside_a_model_it_lies_in_its_folder(tmp_path):
    Measured.beside(tmp_path, HERE).number("speed", lambda: 2.5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".measured.json", ".measured.lock"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"no JSON",
        lambda content: b"[" * 100_000,
        lambda content: b"[1, 2]",
        lambda content: b"\xff" + content,
        lambda content: content.replace(b"2.5", b"3.5"),
        lambda content: content.replace(b'"format": 1', b'"format": 2'),
        lambda content: json.dumps({**json.loads(content), "kept": None}).encode(),
        lambda content: content + b" ",
    ],
)
def test_a_damaged_file_is_measured_again_with_one_line(kept, damage):
    kept.number("speed", lambda: 2.5)
    kept.places[0].write_bytes(damage(kept.places[0].read_bytes()))
    said = []
    assert kept.number("speed", lambda: 2.25, said.append) == 2.25
    assert said == [f"{kept.places[0]}: damaged; what it held is measured again"]
    assert kept.number("speed", never, said.append) == 2.25
    assert len(said) == 1


@pytest.mark.parametrize("number", [0.0, float("inf"), float("nan")])
def test_what_is_not_a_number_above_zero_is_measured_again(kept, number):
    kept.number("speed", lambda: number)
    assert kept.number("speed", lambda: 2.5) == 2.5


def test_where_the_models_folder_cannot_be_written_the_cache_has_it(kept, tmp_path):
    (tmp_path / "model").write_bytes(b"a file in place of the folder")
    said = []
    assert kept.number("speed", lambda: 2.5, said.append) == 2.5
    assert kept.number("speed", never, said.append) == 2.5
    assert kept.places[1].is_file()
    assert said == []


def test_where_nothing_can_be_written_each_process_measures_and_says_so(kept, tmp_path):
    for name in ("model", "cache"):
        (tmp_path / name).write_bytes(b"a file in place of the folder")
    said = []
    assert kept.number("speed", lambda: 2.5, said.append) == 2.5
    assert said[0].startswith("the measured speed is not kept, and another process measures it again: ")
    assert kept.number("speed", lambda: 2.6) == 2.6


def test_the_kinds_of_processors_are_bounded(kept):
    for number in range(70):
        Measured({"processor": number}, kept.places).number("speed", lambda own=number: own + 1.0)
    assert len(json.loads(kept.places[0].read_bytes())["kept"]) == 64
    assert Measured({"processor": 69}, kept.places).number("speed", never) == 70


def test_of_two_that_start_together_the_second_takes_the_first_ones_number(kept):
    measuring, go_on = threading.Event(), threading.Event()
    found = []

    def first():
        measuring.set()
        go_on.wait(timeout=60)
        return 2.5

    def second():
        go_on.set()  # reached only if both measured: then the first one's number is lost
        return 9.0

    threads = [threading.Thread(target=lambda: found.append(kept.number("speed", first)))]
    threads[0].start()
    measuring.wait(timeout=60)
    other = Measured(dict(HERE), kept.places)
    threads.append(threading.Thread(target=lambda: found.append(other.number("speed", second))))
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert found == [2.5, 2.5]


def test_a_process_that_measures_for_ever_is_not_waited_for(kept):
    from filelock import FileLock

    kept.places[0].parent.mkdir()
    impatient = Measured(HERE, kept.places[:1], wait=0.0)
    with FileLock(kept.places[0].with_suffix(".lock")):
        said = []
        assert impatient.number("speed", lambda: 2.5, said.append) == 2.5
        assert "is not kept" in said[0]
    assert not kept.places[0].exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_without_the_right_to_write(kept):
    kept.places[0].parent.mkdir()
    kept.places[0].parent.chmod(0o500)
    assert kept.number("speed", lambda: 2.5) == 2.5
    assert kept.places[1].is_file()


def test_a_number_that_cannot_be_written_is_used_and_the_user_is_told(kept):
    kept.places[0].mkdir(parents=True)  # a folder in place of the file
    said = []
    assert kept.number("speed", lambda: 2.5, said.append) == 2.5
    assert said[-1].startswith("the measured speed is not kept, and another process measures it again: ")
    assert str(kept.places[0]) in said[-1]


def test_temporary_files_of_killed_processes_are_removed_and_no_others(kept):
    folder = kept.places[0].parent
    folder.mkdir()
    for name in ("..measured.json.1f.negengine-tmp", "..measured.json.mine", ".another.1f.negengine-tmp"):
        (folder / name).touch()
    kept.number("speed", lambda: 2.5)
    left = {"..measured.json.mine", ".another.1f.negengine-tmp", ".measured.json", ".measured.lock"}
    assert {path.name for path in folder.iterdir()} == left


def test_a_number_below_one_is_kept(kept):
    assert kept.number("speed", lambda: 0.5) == 0.5
    assert kept.number("speed", never) == 0.5


def test_several_numbers_are_measured_together_and_kept_together(kept):
    found = {"one": 1.5, "two": 2.5, "three": 0.123456}
    rounded = {**found, "three": 0.1235}
    assert kept.kept(list(found)) is None
    assert kept.numbers(list(found), lambda: found) == rounded
    assert kept.numbers(list(found), never) == rounded
    assert kept.kept(["two", "one"]) == {"two": 2.5, "one": 1.5}
    assert kept.kept(["two", "four"]) is None
    assert Measured({**HERE, "threads": 4}, kept.places).kept(["two"]) is None


@pytest.mark.parametrize(("names", "told"), [(["one"], "one"), (["one", "two", "three"], "one and 2 more")])
def test_numbers_that_cannot_be_kept_are_told_by_their_names(kept, tmp_path, names, told):
    for name in ("model", "cache"):
        (tmp_path / name).write_bytes(b"a file in place of the folder")
    said = []
    assert kept.numbers(names, lambda: dict.fromkeys(names, 2.0), said.append) == dict.fromkeys(names, 2.0)
    text = f"the measured {told} is not kept, and another process measures it again: {kept.places[0]} is not writable"
    assert said == [text]


def test_one_number_that_is_none_keeps_the_others_from_being_kept(kept):
    kept.numbers(["one", "two"], lambda: {"one": 1.0, "two": 0.0})
    assert kept.kept(["one"]) is None
    assert kept.numbers(["one"], lambda: {"one": 3.0}) == {"one": 3.0}


def test_a_number_that_another_process_has_kept_meanwhile_is_taken(kept, monkeypatch):
    """Between the first look and the lock."""
    other = Measured(dict(HERE), kept.places)
    whole, looked = Measured.kept, []

    def first_looks_too_early(self, names, say=lambda _: None):
        looked.append(names)
        return None if len(looked) == 1 else whole(self, names, say)

    other.number("speed", lambda: 2.5)
    monkeypatch.setattr(Measured, "kept", first_looks_too_early)
    assert kept.number("speed", never) == 2.5
