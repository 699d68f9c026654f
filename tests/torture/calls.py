"""Calls of the operating system that fail: at every call in turn, once or from then on, and what a power cut leaves."""

import errno
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from .bench import Bench, shuffled
from .cases import Prepared
from .faults import ALL, CHANGING, ERRORS, Call, Fault, Mode, Op
from .table import Row

_FULL = (errno.ENOSPC, errno.EDQUOT)


def single_errors(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """One call fails; the next one works again."""
    yield from _errors(bench, prepared, row, Mode.SINGLE, (*ERRORS, errno.EINTR))


def lasting_errors(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """From one call on every call fails."""
    yield from _errors(bench, prepared, row, Mode.LASTING, ERRORS)


def cut_writes(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """A write takes half of its bytes, then the disk is full."""
    total = bench.calls(prepared, Op.WRITE)
    for done, at in enumerate(shuffled(bench, total), 1):
        yield from _error(bench, prepared, row, Fault(Mode.SHORT, at, Op.WRITE, bench.random.choice(_FULL)))
        row.note = f"{done:,} of {total:,} writes"
    row.note = f"all {total:,} writes"


def _errors(bench: Bench, prepared: Prepared, row: Row, mode: Mode, errors: tuple[int, ...]) -> Iterator[None]:
    """SQLite's loop: the first call fails, then the second, until a run has no call left that could fail."""
    total = bench.calls(prepared, ALL)
    for done, at in enumerate(shuffled(bench, total), 1):
        yield from _error(bench, prepared, row, Fault(mode, at, ALL, bench.random.choice(errors)))
        row.note = f"{done:,} of {total:,} calls"
    at = total + 1
    while True:  # threads do not always make the same number of calls
        before = row.faults
        yield from _error(bench, prepared, row, Fault(mode, at, ALL, bench.random.choice(errors)))
        if row.faults == before:
            break
        at += 1
    row.note = f"all {at - 1:,} calls"


def _error(bench: Bench, prepared: Prepared, row: Row, fault: Fault) -> Iterator[None]:
    prepared.reset(bench.work)
    end = bench.run(prepared, fault=fault)
    injector = bench.children.injector
    if not injector.fired:
        return
    what, complaint = f"{fault}, {injector.where}", end.complaint
    if not complaint and end.status == 0 and prepared.expected.differences(prepared.files(bench.work)):
        complaint = "status 0 with another result"
    bench.aftermath(prepared, row, what, complaint)
    yield


def power_cuts(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """The machine stops after a call: what was not flushed is lost.

    A file that was written and not flushed since has any length up to its own, also under a new name. A new name whose
    folder was not flushed since is gone.
    """
    if not bench.children.injector.is_native:
        row.note = "skipped: there is no C compiler"
        return
    total = bench.calls(prepared)
    for done, at in enumerate(shuffled(bench, total), 1):
        prepared.reset(bench.work)
        end = bench.run(prepared, fault=Fault(Mode.KILL_AFTER, at, CHANGING))
        if end.status == -signal.SIGKILL:
            lost = lose_unflushed(bench, bench.children.injector.calls)
            bench.aftermath(prepared, row, f"power cut after call {at}, {lost}")
        row.note = f"{done:,} of {total:,} places"
        yield
    row.note = f"all {total:,} places"


def lose_unflushed(bench: Bench, calls: list[Call]) -> str:
    """Do to the folder what a power cut can do; says what was lost."""
    dirty: set[int] = set()
    names: dict[str, Path] = {}
    for call in calls:
        if call.op in {Op.WRITE, Op.TRUNCATE}:
            dirty.add(call.inode)
        elif call.op is Op.FSYNC and call.name == "folder":
            names = {name: path for name, path in names.items() if _inode(path.parent) != call.inode}
        elif call.op is Op.FSYNC:
            dirty.discard(call.inode)
        elif call.op is Op.RENAME and not call.inode:  # it did not replace another file
            path = bench.work / call.name
            names[str(path)] = path
    counts: dict[str, int] = defaultdict(int)
    for path in [path for path in bench.work.rglob("*") if path.is_file()]:
        if path.stat().st_ino in dirty:
            content = path.read_bytes()
            keep = bench.random.choice((0, len(content) // 2, max(0, len(content) - 1)))
            path.write_bytes(content[:keep] + bytes(len(content) - keep) * bench.random.randint(0, 1))
            counts["contents"] += 1
    for path in names.values():
        if path.is_file() and bench.random.random() < 0.5:
            path.unlink()
            counts["names"] += 1
    return ", ".join(f"{n} {what} lost" for what, n in counts.items()) or "nothing lost"


def _inode(path: Path) -> int:
    return path.stat().st_ino if path.exists() else 0
