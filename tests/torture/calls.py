"""Calls of the operating system that fail: at every call in turn, once or from then on; and what a power cut leaves."""

import errno
from collections.abc import Iterator

from .faults import ALL, ERRORS, Fault, Mode, Op
from .states import record, without_unflushed
from .trial import Trial

_FULL = (errno.ENOSPC, errno.EDQUOT)


def single_errors(trial: Trial) -> Iterator[None]:
    """One call fails; the next one works again."""
    yield from _errors(trial, Mode.SINGLE, (*ERRORS, errno.EINTR))


def lasting_errors(trial: Trial) -> Iterator[None]:
    """From one call on every call fails."""
    yield from _errors(trial, Mode.LASTING, ERRORS)


def cut_writes(trial: Trial) -> Iterator[None]:
    """A write takes half of its bytes, then the disk is full."""
    for at in trial.in_random_order(trial.calls(Op.WRITE), "writes"):
        yield from _error(trial, Fault(Mode.SHORT, at, Op.WRITE, trial.random.choice(_FULL)))


def _errors(trial: Trial, mode: Mode, errors: tuple[int, ...]) -> Iterator[None]:
    """SQLite's loop: the first call fails, then the second, until a run has no call left that could fail."""
    total, before = trial.calls(ALL), -1
    for at in trial.in_random_order(total, "calls"):
        yield from _error(trial, Fault(mode, at, ALL, trial.random.choice(errors)))
    while trial.row.faults != before:  # threads do not always make the same number of calls
        before, total = trial.row.faults, total + 1
        yield from _error(trial, Fault(mode, total, ALL, trial.random.choice(errors)))


def _error(trial: Trial, fault: Fault, *, resumes: bool = False) -> Iterator[None]:
    if not resumes:
        trial.reset()
    end = trial.run(fault=fault)
    if trial.injector.fired:
        trial.aftermath(f"{fault}, {trial.injector.where}", trial.complaint(end), known=True)
        yield


def killed_and_failing(trial: Trial) -> Iterator[None]:
    """A run that was killed at any call; then the run that resumes it meets an error of the disk at any call."""
    calls = trial.calls(ALL)
    while True:
        trial.half(trial.random.random())
        mode = trial.random.choice((Mode.SINGLE, Mode.LASTING, Mode.SHORT))
        fault = Fault(mode, trial.random.randint(1, calls), ALL, trial.random.choice(ERRORS))
        yield from _error(trial, fault, resumes=True)
        trial.row.note = "an error in the run that resumes a killed one"


def power_cuts(trial: Trial) -> Iterator[None]:
    """The machine stops after a call: what was not flushed is lost, see `without_unflushed`."""
    recorded = record(trial)
    seen = set()
    for at in trial.in_random_order(len(recorded.states), "places"):
        state, lost = without_unflushed(recorded.calls, recorded.states[at - 1], trial.work, trial.random)
        if state.key not in seen:
            seen.add(state.key)
            state.write(trial.work)
            trial.aftermath(f"power cut after call {at}, {lost}")
        yield
