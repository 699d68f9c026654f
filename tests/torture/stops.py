"""Processes that are stopped: killed at chosen calls, killed at random instants, and every other signal."""

import itertools
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from .bench import Bench, in_random_order
from .cases import Prepared
from .child import Ended, Started, ended, real_command
from .faults import ALL, CHANGING, ERRORS, Fault, Mode
from .states import record
from .table import Row

_REALLY = 8
_LOOK = 0.002  # seconds between two looks for the first part
_INTERRUPTS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_HARMLESS = {
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT,
}  # fmt: skip  # ignored by Python or by default
_STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


def kills_at_calls(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Killed after each call that changes something: every state of the disk that a kill can leave.

    One run stops after each of its calls, and shows these states. A state is resumed once, however many calls leave it.
    Each eighth call is followed by a real kill instead.
    """
    recorded = record(bench, prepared)
    seen: set[str] = set()
    for at in in_random_order(bench, row, len(recorded.states), "places"):
        state = recorded.states[at - 1]
        if at % _REALLY == 0:
            prepared.reset(bench.work)
            end = bench.run(prepared, fault=Fault(Mode.KILL_AFTER, at, CHANGING))
            if bench.children.injector.fired:
                complaint = "" if end.status == -signal.SIGKILL else f"status {end.status}"
                bench.aftermath(prepared, row, f"killed after call {at}", complaint)
        elif state.key not in seen:
            seen.add(state.key)
            recorded.contents.write(state, bench.work)
            bench.aftermath(prepared, row, f"the disk after call {at}")
        yield


def killed_again(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Killed, resumed, killed again, up to five times, each time after a few more calls."""
    total = bench.calls(prepared)
    while True:
        prepared.reset(bench.work)
        kills = 0
        for _ in range(bench.random.randint(2, 5)):
            bench.run(prepared, fault=Fault(Mode.KILL_AFTER, bench.random.randint(1, max(2, total // 2)), CHANGING))
            kills += bool(bench.children.injector.fired)
        bench.aftermath(prepared, row, f"killed {kills} times in a row")
        yield


def kills_at_instants(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Killed at a random instant after the first part began to be written."""
    while True:
        prepared.reset(bench.work)
        started = bench.start(prepared)
        _wait_for_parts(bench, prepared, started)
        time.sleep(bench.random.random() ** 2 * prepared.end.seconds)
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        bench.aftermath(prepared, row, "killed at a random instant")
        yield


def signals(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Every signal that can be caught, ignored or stopped, at a random instant while parts are written."""
    which = sorted(signal.valid_signals() - {signal.SIGKILL})
    named = [number for number in which if isinstance(number, signal.Signals)]
    rounds = itertools.chain([bench.random.sample(named, len(named))], itertools.repeat(which))
    for done, order in enumerate(rounds):
        for number in order:
            prepared.reset(bench.work)
            started = bench.start(prepared, before=_no_core)
            _wait_for_parts(bench, prepared, started)
            time.sleep(bench.random.random() ** 2 * prepared.end.seconds)
            os.kill(started.pid, number)
            if number in _STOPS:
                time.sleep(0.02)
                os.kill(started.pid, signal.SIGCONT)
            end = started.wait()
            bench.aftermath(prepared, row, signal_name(number), _complaint(end, number))
            yield
        row.note = f"all {len(which)} signals" if done else f"the {len(named)} named signals"


def real_commands(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """The installed program with parts of the usual size, started and not forked: killed, interrupted, another signal;
    and calls that fail."""
    sent = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
    prepared.reset(bench.work)
    _failing_call(bench, prepared, Fault())
    total = bench.children.injector.count  # calls of the program that could fail
    while True:
        prepared.reset(bench.work)
        if bench.random.random() < 0.5:
            mode = bench.random.choice((Mode.SINGLE, Mode.LASTING))
            fault = Fault(mode, bench.random.randint(1, total), ALL, bench.random.choice(ERRORS))
            what, complaint = _failing_call(bench, prepared, fault)
        else:
            number = bench.random.choice((signal.SIGKILL, signal.SIGKILL, *sent))
            what, complaint = signal_name(number), _signalled(bench, prepared, number)
        again = ended(real_command(prepared.case.arguments, bench.work))
        if not complaint and again.status != 0:
            complaint = f"then the same command: status {again.status}"
        bench.count(prepared, row, what, complaint, prepared.files(bench.work))
        row.note = "the installed program, parts of the usual size"
        yield


def _signalled(bench: Bench, prepared: Prepared, number: int) -> str:
    """Send the program a signal once it has written a part; what is wrong with its end."""
    process = real_command(prepared.case.arguments, bench.work)
    while process.poll() is None and not _parts(bench.work / prepared.case.result):
        time.sleep(_LOOK)
    time.sleep(bench.random.random() * 0.6 * prepared.end.seconds)
    process.send_signal(number)
    return _complaint(ended(process), number)


def _failing_call(bench: Bench, prepared: Prepared, fault: Fault) -> tuple[str, str]:
    """Start the program with the library of faults: what failed, and what is wrong with the end."""
    injector = bench.children.injector
    injector.set(bench.children.root, fault)
    end = ended(real_command(prepared.case.arguments, bench.work, injector.environment))
    complaint = end.complaint
    if not complaint and end.status == 0 and prepared.expected.differences(prepared.files(bench.work)):
        complaint = "status 0 with another result"
    return f"{fault}, {injector.where}", complaint


def signal_name(number: int) -> str:
    return number.name if isinstance(number, signal.Signals) else f"signal {number}"


def _no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _parts(folder: Path) -> bool:
    return any(folder.glob("parts/*/*"))


def _wait_for_parts(bench: Bench, prepared: Prepared, started: Started) -> None:
    """Wait for the first file of a part that this process writes; for an export, any time."""
    if prepared.case.exports:
        time.sleep(bench.random.random() * prepared.end.seconds)
        return
    folder = bench.work / prepared.case.result / "parts"
    while started.runs and not any(folder.glob(f"{prepared.case.stage}/*")):
        time.sleep(_LOOK)


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
