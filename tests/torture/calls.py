"""Calls of the operating system that fail: at every call in turn, once or from then on; and what a power cut leaves."""

import errno
from collections.abc import Iterator

from .bench import Bench, calls_left, states_left
from .cases import Prepared
from .faults import ALL, ERRORS, Fault, Mode, Op
from .states import record, without_unflushed
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
    for at in calls_left(bench, row, bench.calls(prepared, Op.WRITE)):
        yield from _error(bench, prepared, row, Fault(Mode.SHORT, at, Op.WRITE, bench.random.choice(_FULL)))
        row.note = f"{len(row.done):,} of {row.total:,} writes"
    row.note = f"all {row.total:,} writes"


def _errors(bench: Bench, prepared: Prepared, row: Row, mode: Mode, errors: tuple[int, ...]) -> Iterator[None]:
    """SQLite's loop: the first call fails, then the second, until a run has no call left that could fail."""
    for at in calls_left(bench, row, bench.calls(prepared, ALL)):
        yield from _error(bench, prepared, row, Fault(mode, at, ALL, bench.random.choice(errors)))
        row.note = f"{len(row.done):,} of {row.total:,} calls"
    at = row.total + 1
    while True:  # threads do not always make the same number of calls
        before = row.faults
        yield from _error(bench, prepared, row, Fault(mode, at, ALL, bench.random.choice(errors)))
        if row.faults == before:
            break
        at += 1
    row.note = f"all {at - 1:,} calls"


def _error(bench: Bench, prepared: Prepared, row: Row, fault: Fault, *, resumes: bool = False) -> Iterator[None]:
    if not resumes:
        prepared.reset(bench.work)
    end = bench.run(prepared, fault=fault)
    injector = bench.children.injector
    if not injector.fired:
        return
    what, complaint = f"{fault}, {injector.where}", end.complaint
    if not complaint and end.status == 0 and prepared.expected.differences(prepared.files(bench.work)):
        complaint = "status 0 with another result"
    bench.aftermath(prepared, row, what, complaint, known=True)
    yield


def killed_and_failing(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """A run that was killed at any call; then the run that resumes it meets an error of the disk at any call."""
    calls = bench.calls(prepared, ALL)
    while True:
        bench.half(prepared, bench.random.random())
        mode = bench.random.choice((Mode.SINGLE, Mode.LASTING, Mode.SHORT))
        at = bench.random.randint(1, calls)
        yield from _error(bench, prepared, row, Fault(mode, at, ALL, bench.random.choice(ERRORS)), resumes=True)
        row.note = "an error in the run that resumes a killed one"


def power_cuts(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """The machine stops after a call: what was not flushed is lost, see `without_unflushed`."""
    recorded = record(bench, prepared)
    seen: set[str] = set()
    for at in states_left(bench, row, len(recorded.states)):
        state, lost = without_unflushed(recorded, recorded.states[at - 1], bench.work, bench.random)
        if state.key not in seen:
            seen.add(state.key)
            recorded.contents.write(state, bench.work)
            bench.aftermath(prepared, row, f"power cut after call {at}, {lost}")
        row.note = f"{len(row.done):,} of {row.total:,} places"
        yield
    row.note = f"all {row.total:,} places"
