"""A run folder keeps what is finished, whatever kills the process, fails on the disk or damages a file."""

import contextlib
import errno
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.atomic import write_atomically, write_bytes
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.frames import parquet_bytes
from negengine.engine.runs import folder
from negengine.engine.runs.folder import RunFolder
from negengine.engine.runs.part import EncodedPart, PartFiles
from negengine.engine.runs.record import RunRecord, read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.runs.session import Session
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import Choices, PartResult
from sealed_documents import reseal
from small_stages import IDENTITY, PARTS, everything, hold, part, publish, results, rows, work


@pytest.fixture
def whole(tmp_path) -> dict[str, bytes]:
    """The results of a run that nothing disturbed."""
    return results(work(tmp_path / "undisturbed"))


def stage_of(folder):
    return read_run(folder).stages["select"]


# ---------------------------------------------------------------- a run


def test_layout(tmp_path):
    work(tmp_path / "run")
    parts = [f"parts/select/part-0000{n}.{kind}" for n in range(PARTS) for kind in ("json", "parquet")]
    assert sorted(results(tmp_path / "run")) == [*parts, "select.done.json", "selection.json", "triplets.parquet"]


def test_rows_come_in_the_order_of_the_parts_and_counts_are_summed(tmp_path):
    with hold(tmp_path / "run") as run:
        for number in (2, 0, 1):
            run.write_part(number, part(number))
        run.finish(publish)
        assert finished_stage(tmp_path / "run", "select").finished  # on disk at once
    assert pl.read_parquet(tmp_path / "run" / "triplets.parquet").equals(pl.concat(map(rows, range(PARTS))))
    summed = {"tested": 10 + 11 + 12, "rows": 2 + 3 + 4}
    assert json.loads((tmp_path / "run" / "selection.json").read_text()) == summed
    assert finished_stage(tmp_path / "run", "select").counts == summed


def test_a_part_done_otherwise_makes_the_stage_unfinished(tmp_path):
    work(tmp_path / "run")
    with hold(tmp_path / "run") as run:
        run.write_part(1, EncodedPart.of(PartResult(rows(2), {"tested": 0})))
    with pytest.raises(InputError, match="select is not finished"):
        finished_stage(tmp_path / "run", "select")
    work(tmp_path / "run")
    assert pl.read_parquet(tmp_path / "run" / "triplets.parquet").equals(pl.concat([rows(0), rows(2), rows(2)]))


def test_run_json_tells_what_made_it_and_the_newest_metadata_are_kept(tmp_path):
    for place, told in (("there", "there"), ("here", "here"), (None, "here")):
        work(tmp_path / "run", metadata={"model folder": place} if place else None, session=Session(shard="1/1"))
        record = stage_of(tmp_path / "run")
        assert (record.identity, record.metadata, record.finished) == (IDENTITY, {"model folder": told}, True)
    (session,) = record.sessions
    assert (session.shard, session.parts) == ("1/1", 3)
    assert None not in {session.started, session.seconds, session.negengine}


def test_nothing_is_flushed_that_a_part_does_not_need(tmp_path, monkeypatch):
    """Its rows, its marker, and the folder after each; run.json is written with the folder and with the choices."""
    written, flushed, write, real = [], [], RunRecord.write, os.fsync
    monkeypatch.setattr(RunRecord, "write", lambda self, folder: (written.append(folder), write(self, folder)))
    monkeypatch.setattr(os, "fsync", lambda descriptor: (flushed.append(descriptor), real(descriptor)))
    with hold(tmp_path / "run") as run:
        run.set_choices(Choices({}))
        for number in range(PARTS):
            flushed.clear()
            run.write_part(number, part(number))
            assert len(flushed) == 4
        run.finish(publish)
    assert len(written) == 2


def test_a_process_writes_its_own_session_alone(tmp_path):
    with hold(tmp_path / "run") as run:
        run.write_part(0, part(0))
    (first,) = (tmp_path / "run" / "sessions" / "select").iterdir()
    before = (first.read_bytes(), (tmp_path / "run" / "run.json").read_bytes())
    work(tmp_path / "run")
    assert (first.read_bytes(), (tmp_path / "run" / "run.json").read_bytes()) == before
    assert [own.parts for own in read_run(tmp_path / "run").stages["select"].sessions] == [1, 2]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100])
def test_a_session_that_a_power_cut_has_damaged_is_left_out(tmp_path, content):
    folder_of_run = unfinished(tmp_path / "run")
    (session,) = (folder_of_run / "sessions" / "select").iterdir()
    session.write_bytes(content)
    work(folder_of_run)
    assert [own.parts for own in read_run(folder_of_run).stages["select"].sessions] == [1]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"{")])
def test_a_stage_whose_marker_is_damaged_is_finished_again(tmp_path, whole, damage):
    work(tmp_path / "run")
    damage(tmp_path / "run" / "select.done.json")
    with pytest.raises(InputError, match=r"select is not finished|run the command of select again"):
        finished_stage(tmp_path / "run", "select")
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


def test_a_finished_run_is_not_changed_and_stays_finished_without_its_parts(tmp_path):
    work(tmp_path / "run")
    before = everything(tmp_path / "run")
    work(tmp_path / "run")
    assert everything(tmp_path / "run") == before
    for path in (tmp_path / "run" / "parts" / "select").iterdir():
        path.unlink()
    with hold(tmp_path / "run") as run:
        assert (run.is_finished, run.missing_parts) == (True, [])
    finished_stage(tmp_path / "run", "select")


def test_a_stage_with_missing_parts_cannot_be_finished(tmp_path):
    with hold(tmp_path / "run") as run, pytest.raises(ValueError, match=r"\[0, 1, 2\]"):
        run.finish(publish)


def test_a_second_stage_keeps_the_first(tmp_path):
    work(tmp_path / "run")
    first = read_run(tmp_path / "run").stages["select"]
    with hold(tmp_path / "run", "score") as run:
        run.write_part(0, part(0))
    assert list(read_run(tmp_path / "run").stages) == ["select", "score"]
    assert read_run(tmp_path / "run").stages["select"] == first


def test_a_stage_that_did_nothing_claims_nothing(tmp_path):
    with hold(tmp_path / "run"):
        pass
    assert read_run(tmp_path / "run").stages == {}
    work(tmp_path / "run", identity={"seed": 1})


def test_choices_are_on_disk_at_once_and_survive_the_process_bit_by_bit(tmp_path):
    calibration = {"CpTp": {"precision": "mixed", "bound": 0.1 + 0.2, "never": (3, 5)}}
    read = {"CpTp": {"precision": "mixed", "bound": 0.1 + 0.2, "never": [3, 5]}}
    with hold(tmp_path / "run") as run:
        assert run.choices is None
        run.set_choices(Choices(calibration, 128))
        found = stage_of(tmp_path / "run")
        assert (found.calibration, found.batch_tokens, len(found.sessions)) == (read, 128, 1)
    with hold(tmp_path / "run") as run:
        assert run.choices == Choices(read, 128)


def test_an_error_in_the_middle_leaves_a_run_that_resumes(tmp_path, whole):
    def interrupt():
        with hold(tmp_path / "run") as run:
            run.write_part(1, part(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert stage_of(tmp_path / "run").sessions[0].seconds is not None
    with hold(tmp_path / "run") as run:  # the lock is given back, too
        assert run.missing_parts == [0, 2]
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


def test_a_stage_is_unfinished_on_disk_before_a_part_of_it_is_replaced(tmp_path, monkeypatch):
    """A process that is killed between the two leaves final files that do not match the parts."""
    work(tmp_path / "run")

    def killed(files, part):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PartFiles, "write", killed)
        patch.setattr(RunFolder, "_save_session", lambda run: None)
        with pytest.raises(Killed), hold(tmp_path / "run") as run:
            run.write_part(1, part(2))
    assert not stage_of(tmp_path / "run").finished


def test_a_process_that_only_finishes_has_a_session(tmp_path):
    folder = unfinished(tmp_path / "run")
    with hold(folder) as run:
        run.write_part(2, part(2))
    with hold(folder) as run:
        run.finish(publish)
    assert [session.parts for session in stage_of(folder).sessions] == [2, 1, 0]


def test_what_is_left_of_an_unfinished_part_is_removed_when_the_folder_is_held(tmp_path):
    folder = unfinished(tmp_path / "run")
    files = PartFiles.of(folder, "select", 1)
    truncate(files.marker)
    with hold(folder):
        assert not files.marker.exists()
        assert not files.rows.exists()
        assert PartFiles.of(folder, "select", 0).read() is not None


def test_where_too_few_files_may_be_open_nothing_is_begun(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (20, 20))
    with pytest.raises(InputError, match="this process may have 20 files open"), hold(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- margins


def audited(number, bound, needed):
    return part(number, bounds={"Cp": bound}, needed={"Cp": needed})


def test_parts_that_a_narrower_margin_decided_are_told(tmp_path):
    with hold(tmp_path / "run") as run:
        run.write_part(0, audited(0, 0.5, 0.0))
        run.write_part(1, audited(1, 0.5, 0.9))
        run.write_part(2, part(2))  # the reference model alone
        assert run.needed_bounds() == {"Cp": 0.9}
        assert run.narrower_parts(run.needed_bounds()) == [0, 1]


def test_a_part_decided_again_keeps_what_its_first_audit_asked_for(tmp_path):
    """A process that is killed before the other parts are decided again must not forget that they have to be."""
    with hold(tmp_path / "run") as run:
        run.write_part(0, audited(0, 0.5, 0.9))
        run.write_part(1, audited(1, 0.5, 0.0))
        run.write_part(0, audited(0, 0.9, 0.0))
    with hold(tmp_path / "run") as run:
        assert run.needed_bounds() == {"Cp": 0.9}
        assert run.narrower_parts(run.needed_bounds()) == [1]


# ---------------------------------------------------------------- the same bytes


@given(st.lists(st.integers(0, 30), max_size=4), st.integers(1, 40))
def test_the_same_rows_give_the_same_bytes(cuts, n):
    frame = pl.DataFrame({"verb": [f"verb {i % 7}" for i in range(n)], "x": [i / 3 for i in range(n)]})
    bounds = [0, *sorted(min(cut, n) for cut in cuts), n]
    pieces = [frame[start:stop] for start, stop in itertools.pairwise(bounds)]
    assert parquet_bytes(pl.concat(pieces, rechunk=False)) == parquet_bytes(frame)


# ---------------------------------------------------------------- killed


class Killed(BaseException):
    """Ends the process at this very instruction: nothing that would clean up afterwards takes effect."""


def die_at(monkeypatch, step: int) -> list[str]:
    """Die before call number `step` that changes the disk; what was done before it stays."""
    seen: list[str] = []

    def deadly(module, name):
        real = getattr(module, name)

        def call(*arguments, **options):
            if len(seen) >= step:
                raise Killed
            seen.append(name)
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    for name in ("fsync", "replace", "mkdir"):
        deadly(os, name)
    for name in ("write_bytes", "unlink"):
        deadly(Path, name)
    return seen


def work_and_die(folder, monkeypatch, step: int) -> None:
    with monkeypatch.context() as patch:
        die_at(patch, step)
        work(folder, parts=2)


@pytest.fixture
def steps(tmp_path, monkeypatch) -> int:
    """How many calls change the disk in a run of two parts."""
    with monkeypatch.context() as patch:
        seen = die_at(patch, 10**9)
        work(tmp_path / "counted", parts=2)
    return len(seen)


def test_killed_at_any_step_a_run_resumes_to_the_same_bytes(tmp_path, monkeypatch, steps):
    assert steps > 50
    for step in range(steps):
        folder = tmp_path / f"killed {step}"
        with pytest.raises(Killed):
            work_and_die(folder, monkeypatch, step)
        if (folder / "run.json").exists():
            read_run(folder)  # never half of it
        work(folder, parts=2)
        assert results(folder) == results(tmp_path / "counted"), f"step {step}"


def test_killed_twice_a_run_resumes_to_the_same_bytes(tmp_path, monkeypatch, steps):
    for step in range(0, steps, 7):
        folder = tmp_path / f"killed {step}"
        for _ in range(2):
            with contextlib.suppress(Killed):  # the second try may get to the end: the first has done some of it
                work_and_die(folder, monkeypatch, step)
        work(folder, parts=2)
        assert results(folder) == results(tmp_path / "counted"), f"step {step}"


KILLED_WHILE_WRITING = """
import os, signal, sys
sys.path[:0] = sys.argv[1:2]
from pathlib import Path
import small_stages

real, left = Path.write_bytes, int(sys.argv[3])

def write_bytes(path, content):
    global left
    left -= 1
    if left < 0:
        real(path, content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, content)

Path.write_bytes = write_bytes
small_stages.work(Path(sys.argv[2]))
"""
STAGES = str(Path(sys.modules["small_stages"].__file__).parent)


@pytest.mark.parametrize("files_written", [0, 7])
def test_a_process_killed_while_writing_is_resumed_to_the_same_bytes(tmp_path, whole, files_written):
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, STAGES, str(tmp_path / "run"), str(files_written)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert any(path.name.endswith("-tmp") for path in (tmp_path / "run").rglob("*"))
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


# ---------------------------------------------------------------- disks that fail


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_of_the_disk_is_told_and_leaves_no_temporary_file(tmp_path, monkeypatch, call):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with hold(tmp_path / "run") as run:
        before = everything(tmp_path / "run")
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(InputError, match=r"cannot be written.*Input/output error"):
                run.write_part(0, part(0))
        assert everything(tmp_path / "run") == before
        assert run.missing_parts == [0, 1, 2]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_stops_in_the_middle_of_a_file_leaves_the_old_one_and_no_temporary_file(tmp_path, error):
    def write(path):
        path.write_bytes(b"the first half")
        raise error

    write_bytes(tmp_path / "file", b"old")
    with pytest.raises((InputError, KeyboardInterrupt)):
        write_atomically(tmp_path / "file", write)
    assert everything(tmp_path) == {"file": b"old"}


def test_a_run_goes_on_once_there_is_room_again(tmp_path, monkeypatch, whole):
    real = Path.write_bytes
    room = 6

    def write(path, content):
        nonlocal room
        room -= 1
        if room < 0:
            real(path, content[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        with pytest.raises(InputError, match="no space left"):
            work(tmp_path / "run")
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


# ---------------------------------------------------------------- damage


def truncate(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def empty(path):
    path.write_bytes(b"")


def unfinished(folder: Path) -> Path:
    """A run that stopped before its last part."""
    with hold(folder) as run:
        for number in (0, 1):
            run.write_part(number, part(number))
    return folder


@pytest.mark.parametrize("damage", [truncate, flip, empty, Path.unlink])
@pytest.mark.parametrize("kind", ["rows", "marker"])
def test_a_damaged_part_is_done_again(tmp_path, whole, damage, kind):
    folder = unfinished(tmp_path / "run")
    damage(getattr(PartFiles.of(folder, "select", 1), kind))
    with hold(folder) as run:
        assert run.missing_parts == [1, 2]
    work(folder)
    assert results(folder) == whole


def test_a_damaged_part_of_a_finished_shard_is_done_again(tmp_path):
    """A shard has no final files: without its parts it is not finished, whatever run.json says."""
    shard = work(tmp_path / "run", shard=Shard(1, 2))
    before = results(shard)
    flip(PartFiles.of(shard, "select", 2).rows)
    with hold(shard, shard=Shard(1, 2)) as run:
        assert not run.is_finished
        assert run.missing_parts == [2]
    work(shard, shard=Shard(1, 2))
    assert results(shard) == before


@pytest.mark.parametrize("damage", [truncate, flip, empty, Path.unlink])
@pytest.mark.parametrize("name", ["triplets.parquet", "selection.json"])
def test_a_damaged_final_file_is_refused_and_made_again(tmp_path, whole, damage, name):
    work(tmp_path / "run")
    damage(tmp_path / "run" / name)
    with pytest.raises(InputError, match=f"{name}: missing, or changed since the run wrote it"):
        finished_stage(tmp_path / "run", "select")
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


@pytest.mark.parametrize("name", ["triplets.parquet", "selection.json"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_repair_that_is_interrupted_is_done_by_the_next_run(tmp_path, whole, monkeypatch, name, error, failing):
    work(tmp_path / "run")
    empty(tmp_path / "run" / name)
    left, real = [failing], folder.write_result

    def write(path, content):
        left[0] -= 1
        if not left[0]:
            raise InputError(str(error)) if isinstance(error, OSError) else error
        return real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_result", write)
        with pytest.raises((KeyboardInterrupt, InputError)):
            work(tmp_path / "run")
    with pytest.raises(InputError, match="select is not finished"):
        finished_stage(tmp_path / "run", "select")
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole
    finished_stage(tmp_path / "run", "select")


def test_a_final_file_is_made_again_where_parts_are_gone_too(tmp_path, whole):
    work(tmp_path / "run")
    (tmp_path / "run" / "triplets.parquet").unlink()
    PartFiles.of(tmp_path / "run", "select", 0).remove()
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


def test_a_part_damaged_during_the_run_is_told(tmp_path):
    with hold(tmp_path / "run") as run:
        for number in run.missing_parts:
            run.write_part(number, part(number))
        truncate(PartFiles.of(tmp_path / "run", "select", 2).rows)
        with pytest.raises(InputError, match=r"part-00002\.parquet: missing or damaged"):
            run.finish(publish)


# ---------------------------------------------------------------- another run, or none


def test_another_identity_is_refused_key_by_key_and_nothing_changes(tmp_path):
    work(tmp_path / "run")
    before = results(tmp_path / "run")
    other = {"model sha256": "cd" * 32, "seed": 0, "pairs": 60, "new": "x"}
    with pytest.raises(InputError) as caught, hold(tmp_path / "run", identity=other):
        pass
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: select was made with model sha256 abababababab…, now cdcdcdcdcdcd…; "
        "pairs none, now 60; new none, now x: choose another --output"
    )
    assert results(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ({}, {"identity": {**IDENTITY, "seed": 1}}, "seed 0, now 1: choose"),
        ({"shard": Shard(1, 2)}, {}, "shard 1/2, now none: choose"),
        ({}, {"parts": 4}, "parts 3, now 4: choose"),
    ],
)
def test_a_run_of_something_else_is_refused_and_does_not_even_get_a_lock_file(tmp_path, first, then, message):
    work(tmp_path / "run", **first)
    (tmp_path / "run" / ".lock").unlink()
    before = everything(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        work(tmp_path / "run", **then)
    assert everything(tmp_path / "run") == before


def test_identity_survives_json(tmp_path):
    work(tmp_path / "run", identity={"layers": (1, 2)})
    work(tmp_path / "run", identity={"layers": (1, 2)})


@pytest.mark.parametrize("name", ["notes.txt", "parts/select/part-00000.parquet", ".hidden"])
def test_a_folder_that_is_not_a_run_is_refused_and_nothing_changes(tmp_path, name):
    file = tmp_path / "thesis" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(InputError, match=r"thesis: holds .* but no run\.json, so it is not a run folder"):
        work(tmp_path / "thesis")
    assert everything(tmp_path / "thesis") == {name: b"mine"}


@pytest.mark.parametrize("place", ["file", "file/run", "nowhere"])
def test_what_is_not_a_folder_is_refused_and_an_empty_one_becomes_a_run(tmp_path, place):
    (tmp_path / "empty").mkdir()
    work(tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "target")
    with pytest.raises(InputError, match=r"not a folder|cannot be written"):
        work(tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"


# ---------------------------------------------------------------- one process at a time

HOLDER = """
import sys
from pathlib import Path
from negengine.engine.runs import folder
from negengine.engine.runs.folder import RunFolder
with RunFolder.create_or_resume(Path(sys.argv[1]), "select", {"seed": 0}, parts=1):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_by_pid_until_the_first_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"in use by process {holder.pid} on "), hold(tmp_path / "run"):
            pass
        holder.kill()
    work(tmp_path / "run", identity={"seed": 0}, parts=1)


# ---------------------------------------------------------------- shards


def test_a_shard_does_its_own_parts_alone_and_is_not_a_finished_stage(tmp_path):
    with hold(tmp_path / "run", shard=Shard(1, 2)) as run:
        assert run.missing_parts == [0, 2]
    work(tmp_path / "run", shard=Shard(1, 2))
    with pytest.raises(InputError, match="only shard 1/2 of select"):
        finished_stage(tmp_path / "run", "select")
    work(tmp_path / "empty", shard=Shard(5, 5))
    with hold(tmp_path / "empty", shard=Shard(5, 5)) as run:
        assert run.is_finished


# ---------------------------------------------------------------- a stage carried to another folder


def carry(tmp_path, target="other"):
    with hold(tmp_path / target, "score", parts=1) as run:
        run.carry_stage(tmp_path / "run", "select")
        before = (tmp_path / target / "run.json").stat().st_mtime_ns
        run.carry_stage(tmp_path / "run", "select")  # once is enough
        assert (tmp_path / target / "run.json").stat().st_mtime_ns == before
        run.write_part(0, part(0))
    assert finished_stage(tmp_path / target, "select") == finished_stage(tmp_path / "run", "select")
    return list(read_run(tmp_path / target).stages)


def test_a_carried_stage_is_finished_there_and_stands_before_all_others(tmp_path):
    work(tmp_path / "run")
    assert carry(tmp_path, "empty") == ["select", "score"]
    for stage in ("agreement", "verify"):
        with hold(tmp_path / "other", stage, parts=1) as run:
            run.write_part(0, part(0))
    assert carry(tmp_path) == ["select", "agreement", "verify", "score"]
    unfinished(tmp_path / "begun")  # the same stage was only begun there
    assert carry(tmp_path, "begun") == ["select", "score"]


def test_a_file_that_is_there_already_is_not_written_again(tmp_path):
    work(tmp_path / "run")
    work(tmp_path / "other")
    files = [tmp_path / "other" / name for name in ("triplets.parquet", "selection.json")]
    times = [file.stat().st_mtime_ns for file in files]
    files[1].unlink()
    with hold(tmp_path / "other", "score", parts=1) as run:
        run.carry_stage(tmp_path / "run", "select")
    assert files[0].stat().st_mtime_ns == times[0]
    assert files[1].stat().st_mtime_ns != times[1]


def test_a_folder_has_its_own_stages_already(tmp_path):
    work(tmp_path / "run")
    before = everything(tmp_path / "run")
    with hold(tmp_path / "run", "score") as run:
        run.carry_stage(tmp_path / "run" / ".." / "run", "select")
    assert everything(tmp_path / "run") == before


def test_an_unfinished_stage_or_another_one_is_not_carried_and_the_refused_stage_claims_nothing(tmp_path):
    unfinished(tmp_path / "run")
    with hold(tmp_path / "shard", "score") as run, pytest.raises(InputError, match="select is not finished"):
        run.carry_stage(tmp_path / "run", "select")
    work(tmp_path / "run")
    work(tmp_path / "other", identity={"seed": 1})
    before = (tmp_path / "other" / "run.json").read_bytes()
    with hold(tmp_path / "other", "score") as run, pytest.raises(InputError, match="seed 1, now 0"):
        run.carry_stage(tmp_path / "run", "select")
    assert (tmp_path / "other" / "run.json").read_bytes() == before


def test_a_folder_from_elsewhere_cannot_write_outside_of_another(tmp_path):
    """Its run.json names a file that lies above the folder; to take it over would overwrite a file there."""
    work(tmp_path / "run")
    (tmp_path / "payload").write_text("evil")
    files = {"../payload": "0" * 64}
    reseal(tmp_path / "run" / "select.done.json", lambda document: document.update(files=files))
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    with (
        hold(tmp_path / "deep" / "deeper" / "shard", "score") as run,
        pytest.raises(InputError, match=r"'\.\./payload'"),
    ):
        run.carry_stage(tmp_path / "run", "select")
    assert not (tmp_path / "deep" / "deeper" / "payload").exists()
