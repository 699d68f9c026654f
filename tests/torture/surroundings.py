"""What surrounds a run: disks, other processes, several devices, the clock, limits."""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from .faults import CHANGING, Fault, Mode
from .table import Row
from .trial import Kind, Trial, in_fork
from .world import copy_tree

_NEW_MOUNTS, _READ_ONLY, _REMOUNT, _PRIVATE = 0x00020000, 1, 32, 1 << 18 | 1 << 14
_MARK = "NEGENGINE_TORTURE_PARENT"
_SECONDS_TO_GO = 15.0


Mount = Callable[..., None]
"""Mounts a file system in memory on the work folder; or mounts it again, with other options."""


def _on_disks(one: Callable[[Trial, Mount], None]) -> Kind:
    """Mount a file system in memory on the work folder, in a name space of a fork alone, fault after fault."""

    def kind(trial: Trial) -> Iterator[None]:
        for _ in range(2 if trial.place.short else 100):
            trial.calls()
            copy_tree(None, trial.work)
            seed = trial.random.randrange(1 << 30)

            def in_new_mounts(seed: int = seed) -> Row | str:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.unshare(_NEW_MOUNTS) or libc.mount(None, b"/", None, _PRIVATE, None):
                    return f"skipped: no mounts here ({os.strerror(ctypes.get_errno())})"

                def mount(flags: int = 0, **limits: int) -> None:
                    options = ",".join(f"{name}={limit}" for name, limit in limits.items())
                    if libc.mount(b"tmpfs", os.fsencode(trial.work), b"tmpfs", flags, options.encode()):
                        raise OSError(ctypes.get_errno(), "mount")

                trial.random.seed(seed)
                own = Row(trial.row.kind, trial.row.case)
                # in a folder of the mounted file system, as its root cannot be removed
                one(Trial(replace(trial.place, work=trial.work / "disk"), trial.prepared, own), mount)
                return own

            found = in_fork(in_new_mounts)
            if isinstance(found, str):
                trial.row.note = found
                return
            trial.row.add(found)
            yield

    return kind


def _filled(trial: Trial, mount: Mount, times: int) -> None:
    mount(size=64 << 20)
    trial.reset()
    needed = sum(path.stat().st_blocks * 512 for path in trial.prepared.whole.rglob("*"))
    ballast, said, complaints = trial.work / "ballast", [], []
    for _ in range(times):
        free = trial.random.randrange(0, needed + 8192, 4096)
        room = shutil.disk_usage(trial.work).free - free
        with ballast.open("wb") as stream:
            for _ in range(max(0, room) // 4096):
                stream.write(bytes(4096))
        complaints.append(trial.run().complaint)
        said.append(f"{free:,} bytes free")
        ballast.unlink()
    trial.aftermath(", then ".join(said), "; ".join(filter(None, complaints)))
    trial.row.note = "a file system in memory, with little room"


@_on_disks
def full_disk(trial: Trial, mount: Mount) -> None:
    """A real disk of memory that becomes full at any point of a run, then has room again."""
    _filled(trial, mount, times=1)


@_on_disks
def twice_full_disk(trial: Trial, mount: Mount) -> None:
    """The same, and the disk is full again, at another point, in the run that resumes."""
    _filled(trial, mount, times=2)


@_on_disks
def tiny_disk(trial: Trial, mount: Mount) -> None:
    """A disk of a few pages, or of a few files; then a larger one."""
    start = [*trial.prepared.start.rglob("*")]
    if trial.random.random() < 0.5:
        limit = {"nr_inodes": trial.random.randint(len(start) + 2, sum(1 for _ in trial.prepared.whole.rglob("*")) + 4)}
    else:
        needed = sum(path.stat().st_blocks * 512 for path in start)
        limit = {"size": needed + 4096 * trial.random.randint(1, 12)}
    mount(**limit)
    try:
        trial.reset()
    except OSError:  # not even the inputs have room
        return
    end = trial.run()
    mount(_REMOUNT, size=64 << 20, nr_inodes=100_000)
    trial.aftermath(f"a disk with {limit}", end.complaint)
    trial.row.note = "few pages, or few files"


@_on_disks
def read_only_disk(trial: Trial, mount: Mount) -> None:
    """A disk that is mounted read-only after a part of a run, then writable again."""
    at = trial.random.randint(1, trial.calls())
    mount(size=64 << 20)
    trial.kill_after(at)
    mount(_REMOUNT | _READ_ONLY, size=64 << 20)
    is_whole = not trial.prepared.expected.differences(trial.files())  # the kill came after the last result
    end = trial.run()
    mount(_REMOUNT, size=64 << 20)
    complaint = "" if end.status or is_whole else "status 0"
    trial.aftermath("a read-only disk", end.complaint or complaint)
    trial.row.note = "mounted again, read-only"


def slow_disk(trial: Trial) -> Iterator[None]:
    """Every call takes some milliseconds; half of the runs are killed on the way."""
    for _ in range(2 if trial.place.short else 20):
        trial.reset()
        slow = Fault(Mode.SLOW, 0, CHANGING, microseconds=trial.random.choice((200, 1_000, 4_000)))
        started = trial.start(fault=slow)
        kills = trial.random.random() < 0.5
        if kills:
            time.sleep(trial.random.random() * trial.prepared.seconds * 2)
            os.kill(started.pid, signal.SIGKILL)
        end = started.wait()
        trial.aftermath(f"{slow.microseconds} µs a call", "" if kills else end.complaint)
        yield
    trial.row.note = "0.2 to 4 ms a call"


def together(trial: Trial) -> Iterator[None]:
    """Two and eight processes start the same command at once: one works, the others are refused or find it finished."""
    for n in (2, 8) * (1 if trial.place.short else 20):
        trial.reset()
        started = [trial.start() for _ in range(n)]
        ends = [one.wait() for one in started]
        complaints = [end.complaint for end in ends if end.complaint]
        if not any(end.status == 0 for end in ends) and not trial.case.exports:
            complaints.append("nobody did the work")
        trial.aftermath(f"{n} processes at once", "; ".join(complaints[:1]))
        trial.row.note = "2 and 8 processes"
        yield


def parents(trial: Trial) -> Iterator[None]:
    """A run on two devices: its parent is killed or interrupted, or one of its two processes is killed.

    The processes must go away, and the run goes on where it was.
    """
    arguments = (*trial.case.arguments, "--device", "cpu,cpu")
    for _ in range(2 if trial.place.short else 40):
        trial.reset()
        mark = f"{os.getpid()}-{trial.random.randrange(1 << 40)}"
        how = trial.random.choice((signal.SIGKILL, signal.SIGTERM, "worker", "parent and worker", "worker and parent"))
        started = trial.start(arguments, before=lambda mark=mark: os.environ.update({_MARK: mark}))
        trial.wait_for_parts(started)
        time.sleep(trial.random.random() ** 2 * 0.2)
        workers = [pid for pid in _marked(mark) if pid != started.pid]
        if isinstance(how, str):
            victims = {"parent": [started.pid], "worker": workers[:1]}
            for pid in [pid for word in how.split(" and ") for pid in victims[word]]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            os.kill(started.pid, how)
        end = started.wait()
        complaint = end.complaint if how == "worker" else ""
        if how == signal.SIGTERM and end.status not in {0, 130}:
            complaint = f"status {end.status}"
        if left := _wait_until_gone(mark):
            complaint = f"{len(left)} processes of the run are still there after {_SECONDS_TO_GO:.0f} s"
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        name = how if isinstance(how, str) else f"parent: {how.name}"
        trial.aftermath(f"two devices, {name}", complaint)
        trial.row.note = "parent or worker, two devices"
        yield


def _marked(mark: str) -> list[int]:
    """Processes with a mark in their environment: the workers inherit it from the parent."""
    found = []
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def _wait_until_gone(mark: str) -> list[int]:
    """The marked processes that do not end in time; they are not this process's children, so it watches them."""
    latest = time.monotonic() + _SECONDS_TO_GO
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            select.select([descriptor], [], [], max(0.0, latest - time.monotonic()))
            os.close(descriptor)
    return _marked(mark)


def wrong_clock(trial: Trial) -> Iterator[None]:
    """The clock is set back or forward before a run, jumps at every look, or differs between two halves of a run."""
    year = 365 * 86_400
    clocks = [(-year, 0), (-60 * year, 0), (0, -3_600), (70 * year, 0), (0, 86_400), (-1, 0), (150 * year, -year // 12)]
    for clock in clocks if not trial.place.short else trial.random.sample(clocks, 2):
        at = trial.random.randint(1, trial.calls())
        trial.kill_after(at)
        end = trial.run(fault=Fault(clock=clock))
        trial.aftermath(f"clock {clock[0]:+,} s, {clock[1]:+,} s at each look", end.complaint)
        yield
    trial.row.note = "back, forward, jumping"


def few_open_files(trial: Trial) -> Iterator[None]:
    """Few files may be open: from none to enough."""
    yield from _limited(trial, resource.RLIMIT_NOFILE, list(range(3, 40)), "{} open files")


def limited_file_size(trial: Trial) -> Iterator[None]:
    """No file may become larger than a limit, as on some clusters."""
    sizes = [path.stat().st_size for path in trial.prepared.whole.rglob("*") if path.is_file()]
    limits = sorted({0, 1, *sizes, *(size - 1 for size in sizes if size)})
    yield from _limited(trial, resource.RLIMIT_FSIZE, limits, "no file above {:,} bytes")


def _limited(trial: Trial, what: int, limits: list[int], said: str) -> Iterator[None]:
    for limit in trial.random.sample(limits, len(limits)):
        trial.reset()
        end = trial.run(before=partial(resource.setrlimit, what, (limit, limit)))
        trial.aftermath(said.format(limit), end.complaint)
        yield
    trial.row.note = f"{len(limits)} limits, {limits[0]:,} to {limits[-1]:,}"
