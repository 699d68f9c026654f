import contextlib
import errno
import hashlib
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
from negengine.engine.errors import InputError
from negengine.engine.runs.atomic import parquet_bytes, write_atomically, write_bytes
from negengine.engine.runs.folder import RunFolder, Shard, finished_stage, read_run

IDENTITY = {"model sha256": "ab" * 32, "seed": 0, "pairs": None}
PARTS = 3


def rows(number: int) -> pl.DataFrame:
    return pl.DataFrame({"part": [number] * (number + 2), "verb": [f"verb {i}" for i in range(number + 2)]})


def hold(folder, stage="select", *, identity=None, parts=PARTS, **options):
    return RunFolder.create_or_resume(folder, stage, identity or IDENTITY, parts=parts, **options)


def work(folder: Path, **options) -> None:
    """What a run does: the missing parts, then the final files."""
    with hold(folder, **options) as run:
        for number in run.missing_parts:
            run.write_part(number, rows(number), {"tested": 10 + number})
        if run.shard.count == 1 and not run.is_finished:
            run.finish_stage({"triplets.parquet": run.read_parts(), "selection.json": run.counts()})


def results(folder: Path) -> dict[str, bytes]:
    """All files but run.json, which tells times, and the lock."""
    files = {path for path in folder.rglob("*") if path.is_file()} - {folder / "run.json", folder / ".lock"}
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def whole(tmp_path) -> dict[str, bytes]:
    """The results of a run that nothing disturbed."""
    work(tmp_path / "undisturbed")
    return results(tmp_path / "undisturbed")


# ---------------------------------------------------------------- a run


def test_layout(tmp_path):
    work(tmp_path / "run")
    parts = [f"parts/select/part-0000{n}.{kind}" for n in range(PARTS) for kind in ("json", "parquet")]
    assert sorted(results(tmp_path / "run")) == [*parts, "selection.json", "triplets.parquet"]


def test_final_rows_come_in_the_order_of_the_parts(tmp_path):
    with hold(tmp_path / "run") as run:
        for number in (2, 0, 1):
            run.write_part(number, rows(number), {})
        run.finish_stage({"triplets.parquet": run.read_parts()})
    assert pl.read_parquet(tmp_path / "run" / "triplets.parquet").equals(pl.concat(map(rows, range(PARTS))))


def test_counts_are_summed_over_the_parts(tmp_path):
    work(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "selection.json").read_text()) == {"tested": 10 + 11 + 12, "rows": 2 + 3 + 4}


def test_counts_of_one_part_survive_the_process(tmp_path):
    work(tmp_path / "run")
    with hold(tmp_path / "run") as run:
        assert run.part_counts(1) == {"tested": 11, "rows": 3}


def test_a_part_done_otherwise_makes_the_stage_unfinished(tmp_path):
    work(tmp_path / "run")
    with hold(tmp_path / "run") as run:
        run.write_part(1, rows(2), {"tested": 0})
        assert run.counts() == {"tested": 10 + 0 + 12, "rows": 2 + 4 + 4}
    with pytest.raises(InputError, match="select is not finished"):
        finished_stage(tmp_path / "run", "select")
    work(tmp_path / "run")
    assert pl.read_parquet(tmp_path / "run" / "triplets.parquet").equals(pl.concat([rows(0), rows(2), rows(2)]))


def test_a_marker_tells_the_digest_of_its_rows(tmp_path):
    work(tmp_path / "run")
    folder = tmp_path / "run" / "parts" / "select"
    marker = json.loads((folder / "part-00001.json").read_text())
    assert marker["sha256"] == hashlib.sha256((folder / "part-00001.parquet").read_bytes()).hexdigest()


def test_run_json_tells_what_made_it(tmp_path):
    work(tmp_path / "run", about={"model folder": "models/mini"}, session={"device": "CPU"})
    record = read_run(tmp_path / "run")["stages"]["select"]
    assert record["identity"] == IDENTITY
    assert record["about"] == {"model folder": "models/mini"}
    assert record["finished"] is True
    assert [session["device"] for session in record["sessions"]] == ["CPU"]
    assert {"started", "seconds", "negengine"} <= set(record["sessions"][0])


def test_running_a_finished_run_again_changes_nothing(tmp_path):
    work(tmp_path / "run")
    before = everything(tmp_path / "run")
    work(tmp_path / "run")
    assert everything(tmp_path / "run") == before


def test_a_stage_with_missing_parts_cannot_be_finished(tmp_path):
    with hold(tmp_path / "run") as run, pytest.raises(ValueError, match=r"\[0, 1, 2\]"):
        run.finish_stage({})


def test_a_second_stage_keeps_the_first(tmp_path):
    work(tmp_path / "run")
    first = read_run(tmp_path / "run")["stages"]["select"]
    with hold(tmp_path / "run", "score") as run:
        run.write_part(0, rows(0), {})
    assert list(read_run(tmp_path / "run")["stages"]) == ["select", "score"]
    assert read_run(tmp_path / "run")["stages"]["select"] == first


def interrupt_after_part_1(folder):
    with hold(folder) as run:
        run.write_part(1, rows(1), {"tested": 11})
        raise KeyboardInterrupt


def test_an_error_in_the_middle_leaves_a_run_that_resumes(tmp_path, whole):
    with pytest.raises(KeyboardInterrupt):
        interrupt_after_part_1(tmp_path / "run")
    assert "seconds" in read_run(tmp_path / "run")["stages"]["select"]["sessions"][0]
    with hold(tmp_path / "run") as run:
        assert run.finished_parts() == {1}
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


# ---------------------------------------------------------------- the same bytes


@given(st.lists(st.integers(0, 30), max_size=4), st.integers(1, 40))
def test_the_same_rows_give_the_same_bytes(cuts, n):
    frame = pl.DataFrame({"verb": [f"verb {i % 7}" for i in range(n)], "x": [i / 3 for i in range(n)]})
    bounds = [0, *sorted(min(cut, n) for cut in cuts), n]
    pieces = [frame[start:stop] for start, stop in itertools.pairwise(bounds)]
    assert parquet_bytes(pl.concat(pieces, rechunk=False)) == parquet_bytes(frame)


def test_many_rows_give_the_same_bytes():
    n = 300_000
    frame = pl.DataFrame({"verb": [f"verb {i % 997}" for i in range(n)], "repeated": [i % 3 == 0 for i in range(n)]})
    assert parquet_bytes(frame) == parquet_bytes(pl.concat([frame[:100_001], frame[100_001:]], rechunk=False))


# ---------------------------------------------------------------- killed


class Killed(BaseException):
    """Ends the process at this very instruction: nothing that would clean up afterwards takes effect."""


def die_at(monkeypatch, step: int) -> list[str]:
    """Let call number step // 2 that changes the disk be the last one; die before its effect, on odd steps after it."""
    seen: list[str] = []

    def deadly(module, name):
        real = getattr(module, name)

        def call(*arguments, **options):
            if len(seen) > step // 2:
                raise Killed
            seen.append(name)
            last = len(seen) > step // 2
            if last and step % 2 == 0:
                raise Killed
            result = real(*arguments, **options)
            if last:
                raise Killed
            return result

        monkeypatch.setattr(module, name, call)

    for module, name in [(os, "fsync"), (os, "replace"), (os, "mkdir"), (os, "pwrite"), (os, "ftruncate")]:
        deadly(module, name)
    for name in ("write_bytes", "unlink"):
        deadly(Path, name)
    return seen


def work_and_die(folder, monkeypatch, step: int) -> None:
    with monkeypatch.context() as patch:
        die_at(patch, step)
        work(folder)


def count_steps(tmp_path, monkeypatch) -> int:
    with monkeypatch.context() as patch:
        seen = die_at(patch, 10**9)
        work(tmp_path / "counted")
    return 2 * len(seen)


def test_killed_at_any_step_a_run_resumes_to_the_same_bytes(tmp_path, monkeypatch, whole):
    steps = count_steps(tmp_path, monkeypatch)
    assert steps > 100
    for step in range(steps):
        folder = tmp_path / f"killed {step}"
        with pytest.raises(Killed):
            work_and_die(folder, monkeypatch, step)
        if (folder / "run.json").exists():
            read_run(folder)  # never half of it
        work(folder)
        assert results(folder) == whole, f"step {step}"


def test_killed_twice_a_run_resumes_to_the_same_bytes(tmp_path, monkeypatch, whole):
    for step in range(0, count_steps(tmp_path, monkeypatch), 7):
        folder = tmp_path / f"killed {step}"
        for _ in range(2):
            with contextlib.suppress(Killed):  # the second try may get to the end: the first has done some of it
                work_and_die(folder, monkeypatch, step)
        work(folder)
        assert results(folder) == whole, f"step {step}"


KILLED_WHILE_WRITING = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import test_folder

real, left = Path.write_bytes, int(sys.argv[3])

def write_bytes(path, content):
    global left
    left -= 1
    if left < 0:
        real(path, content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, content)

Path.write_bytes = write_bytes
test_folder.work(Path(sys.argv[2]))
"""


@pytest.mark.parametrize("files_written", [0, 1, 2, 4, 7])
def test_a_process_killed_while_writing_is_resumed_to_the_same_bytes(tmp_path, whole, files_written):
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, str(Path(__file__).parent), str(tmp_path / "run")]
    killed = subprocess.run([*command, str(files_written)], check=False)
    assert killed.returncode == -signal.SIGKILL
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
                run.write_part(0, rows(0), {})
        assert everything(tmp_path / "run") == before
        assert run.missing_parts == [0, 1, 2]


def test_a_full_disk_is_one_line_that_tells_the_folder_and_what_is_free(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(InputError, match=rf"{tmp_path}: no space left to write file \([\d,.]+ MB free\)") as caught:
        write_atomically(tmp_path / "file", lambda _: _write_on_full_disk())
    assert "\n" not in str(caught.value)
    assert everything(tmp_path) == {"file": b"old"}


def _write_on_full_disk():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    Path("/dev/full").write_bytes(b"x")


def test_a_disk_full_in_the_middle_of_a_file_leaves_no_temporary_file(tmp_path):
    def write(path):
        path.write_bytes(b"the first half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match="no space left"):
        write_atomically(tmp_path / "file", write)
    assert everything(tmp_path) == {}


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


def test_an_interrupt_in_the_middle_of_a_file_leaves_the_old_one_and_no_temporary_file(tmp_path):
    def write(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    write_bytes(tmp_path / "file", b"old")
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", write)
    assert everything(tmp_path) == {"file": b"old"}


# ---------------------------------------------------------------- damage


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, flip, empty, Path.unlink])
def test_damaged_rows_are_done_again_and_told(tmp_path, whole, damage):
    work(tmp_path / "run")
    damage(tmp_path / "run" / "parts" / "select" / "part-00001.parquet")
    with hold(tmp_path / "run") as run:
        assert run.damaged == (1,)
        assert run.missing_parts == [1]
        assert not run.is_finished
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"bytes": 3}', '{"bytes": 1, "sha256": 2, "counts": 3}'])
def test_a_damaged_marker_lets_the_part_be_done_again(tmp_path, whole, content):
    work(tmp_path / "run")
    (tmp_path / "run" / "parts" / "select" / "part-00000.json").write_text(content)
    with hold(tmp_path / "run") as run:
        assert run.missing_parts == [0]
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


@pytest.mark.parametrize("damage", [truncate, flip, empty, Path.unlink])
@pytest.mark.parametrize("name", ["triplets.parquet", "selection.json"])
def test_a_damaged_final_file_is_refused_and_made_again(tmp_path, whole, damage, name):
    work(tmp_path / "run")
    damage(tmp_path / "run" / name)
    with pytest.raises(InputError, match=f"{name}: missing, or not as select wrote it"):
        finished_stage(tmp_path / "run", "select")
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


def test_a_part_damaged_during_the_run_is_told(tmp_path):
    with hold(tmp_path / "run") as run:
        for number in run.missing_parts:
            run.write_part(number, rows(number), {})
        truncate(tmp_path / "run" / "parts" / "select" / "part-00002.parquet")
        with pytest.raises(InputError, match=r"part-00002\.parquet: missing or damaged"):
            run.read_parts()


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


def test_another_shard_is_refused(tmp_path):
    work(tmp_path / "run", shard=Shard(1, 2))
    with pytest.raises(InputError, match="shard 1/2, now none: choose"):
        work(tmp_path / "run")


def test_another_number_of_parts_is_refused(tmp_path):
    work(tmp_path / "run")
    with pytest.raises(InputError, match="parts 3, now 4: choose"):
        work(tmp_path / "run", parts=4)


def test_identity_survives_json(tmp_path):
    work(tmp_path / "run", identity={"layers": (1, 2)})
    work(tmp_path / "run", identity={"layers": (1, 2)})


@pytest.mark.parametrize("name", ["notes.txt", "parts/select/part-00000.parquet", ".hidden"])
def test_a_folder_that_is_no_run_is_refused_and_nothing_changes(tmp_path, name):
    file = tmp_path / "thesis" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(InputError, match=r"thesis: holds .* but no run\.json, so it is no run folder"):
        work(tmp_path / "thesis")
    assert everything(tmp_path / "thesis") == {name: b"mine"}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "1", "{}", '{"format": 1}', '{"format": 1, "stages": [1]}', '{"format": 1, "stages": {"a": 1}}'],
)
def test_a_run_json_of_something_else_is_refused_and_nothing_changes(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json: not as negengine writes it"):
        work(tmp_path)
    assert everything(tmp_path) == {"run.json": content.encode()}


def test_a_newer_format_is_refused(tmp_path):
    (tmp_path / "run.json").write_text('{"format": 2, "anything": []}')
    with pytest.raises(InputError, match="format 2, this version reads 1"):
        work(tmp_path)


def test_an_empty_folder_becomes_a_run(tmp_path, whole):
    (tmp_path / "run").mkdir()
    work(tmp_path / "run")
    assert results(tmp_path / "run") == whole


@pytest.mark.parametrize("place", ["file", "file/run", "nowhere"])
def test_what_is_no_folder_is_refused(tmp_path, place):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "target")
    with pytest.raises(InputError, match=r"not a folder|cannot be written"):
        work(tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_missing_run_is_told(tmp_path):
    with pytest.raises(InputError, match="run: no run folder"):
        read_run(tmp_path / "run")


# ---------------------------------------------------------------- one process at a time

HOLDER = """
import sys
from pathlib import Path
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


def test_the_lock_is_given_back_after_an_error(tmp_path):
    with pytest.raises(KeyboardInterrupt), hold(tmp_path / "run"):
        raise KeyboardInterrupt
    with hold(tmp_path / "run") as run:
        assert run.missing_parts == [0, 1, 2]


# ---------------------------------------------------------------- shards


@given(st.integers(0, 40), st.integers(1, 12))
def test_shards_are_disjoint_and_complete(n, count):
    owned = [number for index in range(1, count + 1) for number in Shard(index, count).parts(n)]
    assert sorted(owned) == list(range(n))


@given(st.integers(1, 999), st.integers(0, 999))
def test_a_shard_is_read_as_it_is_written(index, more):
    shard = Shard(index, index + more)
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "a/b", "1/2/3", "-1/2", " 1/2", "1/2\n", "١/٢"])
def test_a_wrong_shard_is_told(text):
    with pytest.raises(InputError, match="must be I/N"):
        Shard.parse(text)


def test_a_shard_does_its_own_parts_alone(tmp_path):
    with hold(tmp_path / "run", shard=Shard(1, 2)) as run:
        assert run.missing_parts == [0, 2]


def test_a_shard_of_a_finished_stage_is_no_finished_stage(tmp_path):
    work(tmp_path / "run", shard=Shard(1, 2))
    with hold(tmp_path / "run", shard=Shard(1, 2)) as run:
        run.finish_stage({})
    with pytest.raises(InputError, match="only shard 1/2 of select"):
        finished_stage(tmp_path / "run", "select")


# ---------------------------------------------------------------- a stage carried to another folder


def test_a_carried_stage_is_finished_there_and_stands_first(tmp_path):
    work(tmp_path / "run")
    with hold(tmp_path / "shard", "score") as run:
        run.carry_stage(tmp_path / "run", "select")
    assert finished_stage(tmp_path / "shard", "select") == finished_stage(tmp_path / "run", "select")
    assert list(read_run(tmp_path / "shard")["stages"]) == ["select", "score"]


def test_an_unfinished_stage_is_not_carried(tmp_path):
    with hold(tmp_path / "run") as run:
        run.write_part(0, rows(0), {})
    with hold(tmp_path / "shard", "score") as run, pytest.raises(InputError, match="select is not finished"):
        run.carry_stage(tmp_path / "run", "select")


def test_a_stage_is_not_carried_over_another_and_the_refused_stage_claims_nothing(tmp_path):
    work(tmp_path / "run")
    work(tmp_path / "other", identity={"seed": 1})
    before = (tmp_path / "other" / "run.json").read_bytes()
    with hold(tmp_path / "other", "score") as run, pytest.raises(InputError, match="seed 1, now 0"):
        run.carry_stage(tmp_path / "run", "select")
    assert (tmp_path / "other" / "run.json").read_bytes() == before
