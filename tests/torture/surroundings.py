"""What surrounds a run: disks, other processes, several devices, the clock, limits."""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from .bench import Bench, Kind, clean, in_fork
from .cases import Prepared
from .faults import CHANGING, Fault, Mode
from .table import Row

_NEW_MOUNTS, _READ_ONLY, _REMOUNT, _PRIVATE = 0x00020000, 1, 32, 1 << 18 | 1 << 14
_MARK = "NEGENGINE_TORTURE_PARENT"
_SECONDS_TO_GO = 15.0


# ---------------------------------------------------------------- disks

Mount = Callable[..., None]
"""Mounts a file system in memory on the work folder; or mounts it again, with other options."""


def _on_disks(one: Callable[[Bench, Prepared, Row, Mount], None]) -> Kind:
    """Mount a file system in memory on the work folder, in a name space of a fork alone, fault after fault."""

    def kind(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
        if not sys.platform.startswith("linux"):
            row.note = "skipped: needs Linux"
            return
        for _ in range(2 if bench.short else 100):
            clean(bench.work)
            bench.calls(prepared)
            clean(bench.work)
            seed = bench.random.randrange(1 << 30)

            def in_new_mounts(seed: int = seed) -> Row | str:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.unshare(_NEW_MOUNTS) or libc.mount(None, b"/", None, _PRIVATE, None):
                    return f"skipped: no mounts here ({os.strerror(ctypes.get_errno())})"

                def mount(flags: int = 0, **limits: int) -> None:
                    options = ",".join(f"{name}={limit}" for name, limit in limits.items())
                    if libc.mount(b"tmpfs", os.fsencode(bench.work), b"tmpfs", flags, options.encode()):
                        raise OSError(ctypes.get_errno(), "mount")

                bench.random.seed(seed)
                own = Row(row.kind, row.case)
                # in a folder of the mounted file system, as its root cannot be removed
                one(replace(bench, work=bench.work / "disk"), prepared, own, mount)
                return own

            found = in_fork(in_new_mounts)
            if isinstance(found, str):
                row.note = found
                return
            row.add(found)
            yield

    return kind


def _filled(bench: Bench, prepared: Prepared, row: Row, mount: Mount, times: int) -> None:
    mount(size=64 << 20)
    prepared.reset(bench.work)
    needed = sum(path.stat().st_blocks * 512 for path in prepared.whole.rglob("*"))
    ballast, said, complaints = bench.work / "ballast", [], []
    for _ in range(times):
        free = bench.random.randrange(0, needed + 8192, 4096)
        room = shutil.disk_usage(bench.work).free - free
        with ballast.open("wb") as stream:
            for _ in range(max(0, room) // 4096):
                stream.write(bytes(4096))
        complaints.append(bench.run(prepared).complaint)
        said.append(f"{free:,} bytes free")
        ballast.unlink()
    bench.aftermath(prepared, row, ", then ".join(said), "; ".join(filter(None, complaints)))
    row.note = "a file system in memory, with little room"


@_on_disks
def full_disk(bench: Bench, prepared: Prepared, row: Row, mount: Mount) -> None:
    """A real disk of memory that becomes full at any point of a run, then has room again."""
    _filled(bench, prepared, row, mount, times=1)


@_on_disks
def twice_full_disk(bench: Bench, prepared: Prepared, row: Row, mount: Mount) -> None:
    """The same, and the disk is full again, at another point, in the run that resumes."""
    _filled(bench, prepared, row, mount, times=2)


@_on_disks
def tiny_disk(bench: Bench, prepared: Prepared, row: Row, mount: Mount) -> None:
    """A disk of a few pages, or of a few files; then a larger one."""
    start = [*prepared.start.rglob("*")]
    if bench.random.random() < 0.5:
        limit = {"nr_inodes": bench.random.randint(len(start) + 2, sum(1 for _ in prepared.whole.rglob("*")) + 4)}
    else:
        needed = sum(path.stat().st_blocks * 512 for path in start)
        limit = {"size": needed + 4096 * bench.random.randint(1, 12)}
    mount(**limit)
    try:
        prepared.reset(bench.work)
    except OSError:  # not even the inputs have room
        return
    end = bench.run(prepared)
    mount(_REMOUNT, size=64 << 20, nr_inodes=100_000)
    bench.aftermath(prepared, row, f"a disk with {limit}", end.complaint)
    row.note = "few pages, or few files"


@_on_disks
def read_only_disk(bench: Bench, prepared: Prepared, row: Row, mount: Mount) -> None:
    """A disk that is mounted read-only after a part of a run, then writable again."""
    at = bench.random.randint(1, bench.calls(prepared))
    mount(size=64 << 20)
    prepared.reset(bench.work)
    bench.run(prepared, fault=Fault(Mode.KILL_AFTER, at, CHANGING))
    mount(_REMOUNT | _READ_ONLY, size=64 << 20)
    is_whole = not prepared.expected.differences(prepared.files(bench.work))  # the kill came after the last result
    end = bench.run(prepared)
    mount(_REMOUNT, size=64 << 20)
    complaint = "" if end.status or is_whole else "status 0"
    bench.aftermath(prepared, row, "a read-only disk", end.complaint or complaint)
    row.note = "mounted again, read-only"


def slow_disk(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Every call takes some milliseconds; half of the runs are killed on the way."""
    for _ in range(2 if bench.short else 20):
        prepared.reset(bench.work)
        slow = Fault(Mode.SLOW, 0, CHANGING, microseconds=bench.random.choice((200, 1_000, 4_000)))
        started = bench.start(prepared, fault=slow)
        kills = bench.random.random() < 0.5
        if kills:
            time.sleep(bench.random.random() * prepared.end.seconds * 2)
            os.kill(started.pid, signal.SIGKILL)
        end = started.wait()
        bench.aftermath(prepared, row, f"{slow.microseconds} µs a call", "" if kills else end.complaint)
        yield
    row.note = "0.2 to 4 ms a call"


# ---------------------------------------------------------------- processes


def together(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Two and eight processes start the same command at once: one works, the others are refused or find it finished."""
    for n in (2, 8) * (1 if bench.short else 20):
        prepared.reset(bench.work)
        started = [bench.start(prepared) for _ in range(n)]
        ends = [one.wait() for one in started]
        complaints = [end.complaint for end in ends if end.complaint]
        if not any(end.status == 0 for end in ends) and not prepared.case.exports:
            complaints.append("nobody did the work")
        bench.aftermath(prepared, row, f"{n} processes at once", "; ".join(complaints[:1]))
        row.note = "2 and 8 processes"
        yield


def parents(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """A run on two devices: its parent is killed or interrupted, or one of its two processes is killed.

    The processes must go away, and the run goes on where it was.
    """
    arguments = (*prepared.case.arguments, "--device", "cpu,cpu")
    for _ in range(2 if bench.short else 40):
        prepared.reset(bench.work)
        mark = f"{os.getpid()}-{bench.random.randrange(1 << 40)}"
        how = bench.random.choice((signal.SIGKILL, signal.SIGTERM, "worker", "parent and worker", "worker and parent"))
        started = bench.children.start(arguments, bench.work, before=lambda mark=mark: os.environ.update({_MARK: mark}))
        while started.runs and not any((bench.work / "run" / "parts").glob(f"{prepared.case.stage}/*")):
            time.sleep(0.002)
        time.sleep(bench.random.random() ** 2 * 0.2)
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
        bench.aftermath(prepared, row, f"two devices, {name}", complaint)
        row.note = "parent or worker, two devices"
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


# ---------------------------------------------------------------- clock and limits


def wrong_clock(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """The clock is set back or forward before a run, jumps at every look, or differs between two halves of a run."""
    year = 365 * 86_400
    clocks = [(-year, 0), (-60 * year, 0), (0, -3_600), (70 * year, 0), (0, 86_400), (-1, 0), (150 * year, -year // 12)]
    for clock in clocks if not bench.short else bench.random.sample(clocks, 2):
        at = bench.random.randint(1, bench.calls(prepared))
        prepared.reset(bench.work)
        bench.run(prepared, fault=Fault(Mode.KILL_AFTER, at, CHANGING))
        end = bench.run(prepared, fault=Fault(clock=clock))
        bench.aftermath(prepared, row, f"clock {clock[0]:+,} s, {clock[1]:+,} s at each look", end.complaint)
        yield
    row.note = "back, forward, jumping"


def few_open_files(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Few files may be open: from none to enough."""
    yield from _limited(bench, prepared, row, resource.RLIMIT_NOFILE, list(range(3, 40)), "{} open files")


def limited_file_size(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """No file may become larger than a limit, as on some clusters."""
    sizes = [path.stat().st_size for path in prepared.whole.rglob("*") if path.is_file()]
    limits = sorted({0, 1, *sizes, *(size - 1 for size in sizes if size)})
    yield from _limited(bench, prepared, row, resource.RLIMIT_FSIZE, limits, "no file above {:,} bytes")


def _limited(bench: Bench, prepared: Prepared, row: Row, what: int, limits: list[int], said: str) -> Iterator[None]:
    for limit in bench.random.sample(limits, len(limits)):

        def before(limit: int = limit) -> None:
            resource.setrlimit(what, (limit, limit))
            if bench.before is not None:
                bench.before()

        prepared.reset(bench.work)
        end = bench.run(prepared, before=before)
        bench.aftermath(prepared, row, said.format(limit), end.complaint)
        yield
    row.note = f"{len(limits)} limits, {limits[0]:,} to {limits[-1]:,}"
