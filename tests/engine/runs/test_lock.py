"""One process at a time in a folder, told with its name; the lock does not outlive its process."""

import errno
import os
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs import lock
from negengine.engine.runs.lock import LOCK_FILE, locked, refuse_held

fcntl = pytest.importorskip("fcntl", reason="locks of another kind on this system")

HOLDER = """import pathlib, sys
from negengine.engine.runs.lock import locked
with locked(pathlib.Path(sys.argv[1])): print("held", flush=True); sys.stdin.read()"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder until its stdin is closed."""
    command, pipe = [sys.executable, "-c", HOLDER, tmp_path], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_new_holder_overwrites_a_longer_name_and_leaves_the_lock_to_other_users_of_a_shared_folder(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / LOCK_FILE).write_text("x" * 100)
    before = os.umask(0o002)
    try:
        for folder in (tmp_path, tmp_path / "old"):
            with locked(folder):
                told, token = (folder / LOCK_FILE).read_text().split("\n")
                assert (told, len(token)) == (f" process {os.getpid()} on {socket.gethostname()}", 16)
    finally:
        os.umask(before)
    assert (tmp_path / LOCK_FILE).stat().st_mode & 0o777 == 0o664


@pytest.mark.parametrize(
    "make", [Path.symlink_to, Path.hardlink_to, lambda path, _: path.symlink_to("new"), lambda path, _: os.mkfifo(path)]
)
def test_what_is_no_lock_file_of_ours_is_refused_at_once_and_nothing_behind_it_changes(tmp_path, make):
    run, thesis = tmp_path / "run", tmp_path / "thesis"
    run.mkdir()
    thesis.write_text("my only copy")
    make(run / LOCK_FILE, thesis)
    refuse_held(run)
    with pytest.raises(InputError, match=r"\.lock: not a lock file of negengine"), locked(run):
        pass
    assert thesis.read_text() == "my only copy"
    assert [path.name for path in run.iterdir()] == [LOCK_FILE]
    (run / LOCK_FILE).unlink()
    (run / LOCK_FILE).mkdir()
    with pytest.raises(InputError, match=r"\.lock: cannot be written \(Is a directory\)"), locked(run):
        pass


def test_a_reader_is_told_who_holds_a_folder_and_changes_nothing_until_the_holder_is_killed(
    holder, open_files, tmp_path
):
    before, opened = (tmp_path / LOCK_FILE).read_bytes(), open_files()
    told = rf"in use by process {holder.pid} on {socket.gethostname()}; wait until it ends"
    with pytest.raises(InputError, match=f"{told}$"):
        refuse_held(tmp_path)
    with pytest.raises(InputError, match=told), locked(tmp_path):
        pass
    assert (tmp_path / LOCK_FILE).read_bytes() == before
    assert open_files() == opened
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    for _ in range(2):  # the reader gives its own lock back, and so does an error
        with pytest.raises(KeyError), locked(tmp_path):
            raise KeyError
        refuse_held(tmp_path)
        assert (tmp_path / LOCK_FILE).is_file()
    (tmp_path / LOCK_FILE).unlink()
    refuse_held(tmp_path)
    assert not (tmp_path / LOCK_FILE).exists()


def test_a_holder_is_found_where_only_a_writer_may_lock_and_not_where_nobody_can(holder, tmp_path, monkeypatch):
    real = lock.lock_descriptor

    def as_on_nfs(descriptor, blocking):
        if no_locks or fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDWR:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        return real(descriptor, blocking=blocking)

    monkeypatch.setattr(lock, "lock_descriptor", as_on_nfs)
    no_locks = False
    assert lock.holder(tmp_path) == f"process {holder.pid} on {socket.gethostname()}"
    no_locks = True
    with pytest.raises(InputError, match=r"\.lock: cannot be written \(No locks available\)"), locked(tmp_path):
        pass
    refuse_held(tmp_path)  # it only reads: it does not fail where it cannot know


@pytest.mark.parametrize("refusals", [1, 3, 4])
def test_a_folder_in_use_is_asked_for_four_times_within_a_moment(tmp_path, monkeypatch, refusals):
    """Who asks who holds a folder has its lock for an instant; more than a moment nobody should wait."""
    answers, waited = [True] * 4 + [False] * refusals, []
    monkeypatch.setattr(lock, "lock_descriptor", lambda descriptor, blocking: not blocking and answers.pop())
    monkeypatch.setattr(lock.time, "sleep", waited.append)
    refused = pytest.raises(InputError, match="in use by another process") if refusals == 4 else nullcontext()
    with refused, locked(tmp_path):
        pass
    assert (waited, len(answers)) == ([0.02] * min(refusals, 3), 3 + refusals - len(waited))


def test_where_locks_do_not_reach_the_other_machine_the_process_that_began_first_is_told(tmp_path):
    told = r"process 7 on node2 has begun to work here.*parts are kept"
    with pytest.raises(InputError, match=told), locked(tmp_path):  # noqa: PT012
        (tmp_path / LOCK_FILE).write_text(" process 7 on node2\n0123456789abcdef")
        raise InputError("part-00001.json: cannot be written (No such file or directory)")  # the other has removed it
    with locked(tmp_path) as held:
        held.refuse_taken()
        (tmp_path / LOCK_FILE).write_bytes(b"")  # as between the lock and its text
        with pytest.raises(InputError, match="in use by another process;"):
            refuse_held(tmp_path)
        (tmp_path / LOCK_FILE).write_text(" " + "x" * 1_000)
        assert lock.holder(tmp_path) == "x" * 200
        (tmp_path / LOCK_FILE).unlink()
        with pytest.raises(InputError, match=r"\.lock: cannot be read \(No such file or directory\)"):
            held.refuse_taken()
        (tmp_path / LOCK_FILE).write_text(f" {held.text}")
