"""Every state of a shard is told, with the command that runs it; looking changes nothing."""

import os
import socket

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs import divided
from negengine.engine.runs.divided import State, divided_run, find_shards, refuse_other_division
from negengine.engine.runs.record import Session
from negengine.engine.runs.shard import Shard
from small_stages import Squares, everything, hold, part, run, work

STAGES = {"select"}
AGAIN = "negengine select mini --pairs 9"


def shard(folder, index, count=3, **options):
    path, session = folder / f"mini-{index}-of-{count}", Session(again=AGAIN)
    return work(path, parts=9, shard=Shard(index, count), session=session, publish=lambda _: {}, **options)


def found(*folders):
    return divided_run(list(folders), STAGES)


def test_every_shard_is_told_with_its_state_and_the_command_that_runs_it(tmp_path):
    for index in (1, 4, 6):
        shard(tmp_path, index, 6)
    for marker in tmp_path.glob("mini-4-of-6/parts/select/*.json"):
        marker.unlink()
    (tmp_path / "mini-6-of-6/run.json").write_text("{}")
    shard(tmp_path, 3, 6, upto=4)
    shard(tmp_path, 5, 6, identity={"seed": 5})
    run = found(*tmp_path.iterdir())
    assert (run.is_finished, run.stage, run.count) == (False, "select", 6)
    again = {n: f"{AGAIN} --shard {n}/6 --output {tmp_path}/mini-{n}-of-6" for n in range(7)} | {None: ""}
    for one, (state, done, parts, command, reason) in zip(
        run.shards,
        [
            ("finished", 2, 2, None, ""),
            ("missing", 0, None, 2, ""),
            ("stopped", 1, 2, 3, ""),
            ("stopped", 0, 1, 4, "1 of its finished parts have been removed"),
            ("another run", 0, None, None, "other model (sha256 abababababab"),
            ("missing", 0, None, 5, ""),
            ("damaged", 0, None, None, f"{tmp_path}/mini-6-of-6/run.json: not as negengine writes it"),
        ],
        strict=True,
    ):
        assert (str(one.state), one.done, one.parts, one.command) == (state, done, parts, again[command])
        assert one.reason.startswith(reason)
        assert bool(one.reason) == bool(reason)


def test_a_running_shard_with_its_process_and_a_stopped_one(tmp_path):
    first, folder = shard(tmp_path, 1), tmp_path / "mini-2-of-3"
    with hold(folder, parts=9, shard=Shard(2, 3)):
        begun = found(first, folder).shards[1]
        assert (begun.state, begun.holder is None, begun.command) == (State.RUNNING, False, "")
    stopped = found(first, folder).shards[1]
    command = f"{AGAIN} --shard 2/3 --output {folder}"
    assert (stopped.state, stopped.command, stopped.last is None) == (State.STOPPED, command, False)
    with hold(folder, parts=9, shard=Shard(2, 3)) as held:
        held.write_part(1, part(1))
        before = everything(tmp_path)
        running = found(first, folder).shards[1]
        assert everything(tmp_path) == before
    assert (running.state, running.holder) == (State.RUNNING, f"process {os.getpid()} on {socket.gethostname()}")
    assert (running.done, running.parts, running.command, running.seconds_left is None) == (1, 3, "", False)


def test_a_failed_shard_says_why_an_interrupted_one_has_not_failed_and_one_that_begins_has_its_name(tmp_path):
    for fault, state, reason in (("refuse", "failed", "--batch-tokens 16: too few"), ("interrupt", "stopped", "")):
        folder = tmp_path / fault / "mini-2-of-2"
        with pytest.raises((InputError, KeyboardInterrupt)):
            run(Squares(fault=fault, at=3), folder, shard=Shard(2, 2))
        one = divided_run([folder], {"squares"}).shards[1]
        assert (str(one.state), one.reason, one.done, one.parts) == (state, reason, 1, 2)
    (tmp_path / "mini-1-of-2").mkdir()
    begins = found(tmp_path / "mini-1-of-2")
    assert (begins.stage, [one.state for one in begins.shards]) == (None, [State.MISSING] * 2)
    with pytest.raises(InputError, match="is not a shard: give folders that were made with --shard I/N"):
        found(work(tmp_path / "whole"))


def test_a_folder_is_named_as_the_shard_says_and_the_name_of_the_whole_run_follows(tmp_path):
    assert divided.named_shard(tmp_path / f"a-b{Shard(2, 3).suffix}") == (tmp_path / "a-b", Shard(2, 3))
    for name in ("mini", "mini-of-3", "mini-0-of-3", "mini-4-of-3", "-1-of-2", "mini-1-of-1", "m-x-of-2"):
        assert divided.named_shard(tmp_path / name) is None
    assert divided.default_output([tmp_path / "a-1-of-2", tmp_path / "a-2-of-2"]) == tmp_path / "a"
    for folders in (["a-1-of-2", "b-2-of-2"], ["a-1-of-2", "own"], []):
        with pytest.raises(InputError, match="give --output RUN"):
            divided.default_output([tmp_path / name for name in folders])


TEN, HALVES = [f"mini-{n}-of-10" for n in range(1, 11)], ["mini-1-of-2", "mini-2-of-2"]


def made(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)


def test_shards_are_found_by_the_name_of_the_run_a_pattern_or_their_folder_and_others_are_refused(tmp_path):
    made(tmp_path / "ten", *reversed(TEN), "mini-x", "mini-lama-1-of-2", "other-1-of-2", "mini")
    made(tmp_path / "halves", *HALVES, "own")
    for given, meant in (
        (["ten/mini"], TEN),  # in the order of their numbers
        (["halves/mini-*-of-2"], HALVES),
        (["halves"], HALVES),
        (["halves/mini-2-of-2", "halves/own"], ["mini-2-of-2", "own"]),
    ):
        assert [path.name for path in find_shards([tmp_path / name for name in given])] == meant
    made(tmp_path, "runs/a-1-of-2", "runs/b-1-of-2", "runs/b-1-of-3")
    for name, told in (
        ("runs", r"shards of several runs: give one of .*a-\*-of-2, .*b-\*-of-2, .*b-\*-of-3"),
        ("runs/b", r"give one of .*b-\*-of-2, .*b-\*-of-3$"),
        ("mini-*", r"mini-\*: no folder matches this pattern"),
    ):
        with pytest.raises(InputError, match=told):
            find_shards([tmp_path / name])


def test_some_tasks_of_an_array_that_are_submitted_again_are_not_a_smaller_array(tmp_path):
    for index in (1, 2):
        work(tmp_path / f"mini-{index}-of-16", shard=Shard(index, 16))
    with pytest.raises(InputError, match=r"shards of mini in 16, not all finished, and this array has 5 tasks.*0-15"):
        refuse_other_division(tmp_path / "mini", Shard(1, 5))
    refuse_other_division(tmp_path / "mini", Shard(3, 16))
    refuse_other_division(tmp_path / "other", Shard(1, 5))
    halves = [work(tmp_path / f"whole-{index}-of-2", shard=Shard(index, 2)) for index in (1, 2)]
    refuse_other_division(tmp_path / "whole", Shard(1, 5))  # a finished division is no obstacle
    assert found(*halves).is_finished
    assert not found(*halves, work(tmp_path / "again-1-of-2", shard=Shard(1, 2))).is_finished
