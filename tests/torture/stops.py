"""Processes that are stopped: killed at chosen calls, killed at random instants, and every other signal."""

import itertools
import os
import resource
import signal
import time
from collections.abc import Iterator

from .child import Ended
from .faults import ALL, CHANGING, ERRORS, Fault, Mode
from .states import record
from .trial import Trial

_REALLY = 8
_INTERRUPTS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_HARMLESS = {
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT,
}  # fmt: skip  # ignored by Python or by default
_STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


def kills_at_calls(trial: Trial) -> Iterator[None]:
    """Killed after each call that changes something: every state of the disk that a kill can leave.

    One run stops after each of its calls, and shows these states. A state is resumed once, however many calls leave it.
    Each eighth call is followed by a real kill instead.
    """
    recorded = record(trial)
    seen = set()
    for at in trial.in_random_order(len(recorded.states), "places"):
        state = recorded.states[at - 1]
        if at % _REALLY == 0:
            end = trial.kill_after(at)
            if trial.injector.fired:
                complaint = "" if end.status == -signal.SIGKILL else f"status {end.status}"
                trial.aftermath(f"killed after call {at}", complaint)
        elif state.key not in seen:
            seen.add(state.key)
            state.write(trial.work)
            trial.aftermath(f"the disk after call {at}")
        yield


def killed_again(trial: Trial) -> Iterator[None]:
    """Killed, resumed, killed again, up to five times, each time after a few more calls."""
    total = trial.calls()
    while True:
        trial.reset()
        kills = 0
        for _ in range(trial.random.randint(2, 5)):
            trial.run(fault=Fault(Mode.KILL_AFTER, trial.random.randint(1, max(2, total // 2)), CHANGING))
            kills += bool(trial.injector.fired)
        trial.aftermath(f"killed {kills} times in a row")
        yield


def kills_at_instants(trial: Trial) -> Iterator[None]:
    """Killed at a random instant after the first part began to be written."""
    while True:
        _signalled(trial, signal.SIGKILL)
        trial.aftermath("killed at a random instant")
        yield


def signals(trial: Trial) -> Iterator[None]:
    """Every signal that can be caught, ignored or stopped, at a random instant while parts are written."""
    which = sorted(signal.valid_signals() - {signal.SIGKILL})
    named = [number for number in which if isinstance(number, signal.Signals)]
    rounds = itertools.chain([trial.random.sample(named, len(named))], itertools.repeat(which))
    for done, order in enumerate(rounds):
        for number in order:
            trial.aftermath(_name(number), _complaint(_signalled(trial, number), number))
            yield
        trial.row.note = f"all {len(which)} signals" if done else f"the {len(named)} named signals"


def _signalled(trial: Trial, number: int) -> Ended:
    """The end of a run that gets a signal at a random instant while it writes parts; of an export, at any instant."""
    trial.reset()
    started = trial.start(before=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    if trial.case.exports:
        time.sleep(trial.random.random() * trial.prepared.seconds)
    else:
        trial.wait_for_parts(started)
    time.sleep(trial.random.random() ** 2 * trial.prepared.seconds)
    os.kill(started.pid, number)
    if number in _STOPS:
        time.sleep(0.02)
        os.kill(started.pid, signal.SIGCONT)
    return started.wait()


def real_commands(trial: Trial) -> Iterator[None]:
    """The installed program with parts of the usual size, started and not forked: killed, interrupted, another signal;
    and calls that fail."""
    sent = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
    total = trial.calls(ALL)
    while True:
        if trial.random.random() < 0.5:
            mode = trial.random.choice((Mode.SINGLE, Mode.LASTING))
            fault = Fault(mode, trial.random.randint(1, total), ALL, trial.random.choice(ERRORS))
            trial.reset()
            end = trial.run(fault=fault)
            what, complaint = f"{fault}, {trial.injector.where}", trial.complaint(end)
        else:
            number = trial.random.choice((signal.SIGKILL, signal.SIGKILL, *sent))
            what, complaint = _name(number), _complaint(_signalled(trial, number), number)
        trial.aftermath(what, complaint)
        trial.row.note = "the installed program, parts of the usual size"
        yield


def _name(number: int) -> str:
    return number.name if isinstance(number, signal.Signals) else f"signal {number}"


def _complaint(end: Ended, number: int) -> str:
    """What is wrong with the end of a process that got a signal; it may have been done before."""
    if end.status == 0 and "Traceback" not in end.err:
        return ""
    said = end.err.strip().splitlines()[-1:] or [""]
    if number in _INTERRUPTS and end.status == 130 and said[0].startswith("negengine: interrupted"):
        return "" if "Traceback" not in end.err else "interrupted with a traceback"
    if number not in _INTERRUPTS | _HARMLESS | _STOPS and end.status == -number:
        return ""
    if number in _INTERRUPTS and end.status == -number:
        return ""  # the moment after the forked process has its arguments and before it has its handlers
    return f"ends with status {end.status}: {said[0][:120]!r}"
