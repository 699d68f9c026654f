"""Calls of the operating system that fail: at every call in turn, once or from then on; and what a power cut leaves."""

import errno
from collections.abc import Iterator

from .bench import Bench, in_random_order
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
    for at in in_random_order(bench, row, bench.calls(prepared, Op.WRITE), "writes"):
        yield from _error(bench, prepared, row, Fault(Mode.SHORT, at, Op.WRITE, bench.random.choice(_FULL)))


def _errors(bench: Bench, prepared: Prepared, row: Row, mode: Mode, errors: tuple[int, ...]) -> Iterator[None]:
    """SQLite's loop: the first call fails, then the second, until a run has no call left that could fail."""
    total, before = bench.calls(prepared, ALL), -1
    for at in in_random_order(bench, row, total, "calls"):
        yield from _error(bench, prepared, row, Fault(mode, at, ALL, bench.random.choice(errors)))
    while row.faults != before:  # threads do not always make the same number of calls
        before, total = row.faults, total + 1
        yield from _error(bench, prepared, row, Fault(mode, total, ALL, bench.random.choice(errors)))


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
    for at in in_random_order(bench, row, len(recorded.states), "places"):
        state, lost = without_unflushed(recorded, recorded.states[at - 1], bench.work, bench.random)
        if state.key not in seen:
            seen.add(state.key)
            recorded.contents.write(state, bench.work)
            bench.aftermath(prepared, row, f"power cut after call {at}, {lost}")
        yield
