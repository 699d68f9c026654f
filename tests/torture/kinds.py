"""All kinds of faults: where each can happen, how it is made, and what the command may do.

A fault is made in a fork of a process that has imported everything; the library of faults (LD_PRELOAD) counts calls
from there. Each call that changes a file is followed by a kill in a run of its own; a power cut is such a kill, and
then what was not flushed is lost. If a fault leaves the very same files as an earlier one, they are not resumed again.
"""

import contextlib
import errno
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from .cases import RESULT, Case
from .child import Started
from .faults import ALL, CHANGING, ERRORS, Fault, Mode, Op
from .trial import Run, Trial

Do = Callable[[Trial, Any], None]
_KILLED = (-signal.SIGKILL,)
_INTERRUPTS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_HARMLESS = {  # ignored by Python or by default
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT,
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of fault."""

    do: Do  # makes a fault at one of the places
    places: Callable[[Trial], Sequence[Any]] = lambda _: [None]
    unit: str = ""  # what the places are
    weight: float = 1.0  # seconds that it has in one round
    ends: bool = False  # whether it comes to an end once it was at every place
    only_runs: bool = False  # whether it is not for exports
    devices: bool = False  # whether it needs a command with `--device`

    def applies(self, case: Case) -> bool:
        return not (case.exports and self.only_runs) and not ("merge" in case.name and self.devices)

    def tries(self, trial: Trial) -> Iterator[None]:
        """Faults one after the other, at the places in a random order."""
        while True:
            places = self.places(trial)
            for done, place in enumerate(trial.random.sample(places, len(places)), 1):
                self.do(trial, place)
                if self.unit:
                    trial.row.note = f"{'all' if done == len(places) else f'{done:,} of'} {len(places):,} {self.unit}"
                yield
            if self.ends:
                return


# Calls to the operating system: each one kills the process or fails.
def _calls(ops: Op) -> Callable[[Trial], Sequence[int]]:
    return lambda trial: range(1, trial.calls(ops) + 1)


def _killed(at: int) -> Run:
    return Run(Fault(Mode.KILL_AFTER, at, CHANGING), ends=_KILLED)


def _kill(trial: Trial, at: int) -> None:
    trial.attempt(f"killed after call {at}", _killed(at))


def _fails(mode: Mode, errors: Sequence[int] = ERRORS, ops: Op = ALL) -> Do:
    def do(trial: Trial, at: int) -> None:
        fault = Fault(mode, at, ops, trial.random.choice(errors))
        trial.attempt(str(fault), Run(fault))

    return do


def _kill_and_error(trial: Trial, _: None) -> None:
    first = _killed(trial.random.randint(1, trial.calls()))
    mode = trial.random.choice((Mode.SINGLE, Mode.LASTING, Mode.SHORT))
    fault = Fault(mode, trial.random.randint(1, trial.calls(ALL)), ALL, trial.random.choice(ERRORS))
    trial.attempt(f"killed, then {fault}", first, Run(fault))


def _power_cut(trial: Trial, at: int) -> None:
    """What was written and not flushed since has any length up to its own, also under a new name; a new name whose
    folder was not flushed since is gone."""
    trial.begin()
    trial.run(_killed(at))
    dirty: set[int] = set()
    names: list[Path] = []
    for call in trial.injector.calls:
        if call.op in {Op.WRITE, Op.TRUNCATE}:
            dirty.add(call.inode)
        elif call.op is Op.FSYNC and call.name == "folder":
            names = [name for name in names if name.exists() and name.parent.stat().st_ino != call.inode]
        elif call.op is Op.FSYNC:
            dirty.discard(call.inode)
        elif call.op is Op.RENAME and not call.inode:
            names.append(trial.work / call.name)
    lost = 0
    for path in [path for path in sorted(trial.work.rglob("*")) if path.is_file()]:
        if path.stat().st_ino in dirty:
            content = path.read_bytes()
            keep = trial.random.choice((0, len(content) // 2, max(0, len(content) - 1)))
            path.write_bytes(content[:keep] + bytes(len(content) - keep) * trial.random.randint(0, 1))
            lost += 1
    for path in names:
        if path.is_file() and trial.random.random() < 0.5:
            path.unlink()
            lost += 1
    trial.end(f"power cut after call {at}, {lost} contents or names lost")


# Signals, at an instant drawn by chance.
def _signal(trial: Trial, number: signal.Signals) -> None:
    def strike(trial: Trial, started: Started) -> None:
        trial.wait_an_instant(started)
        os.kill(started.pid, number)
        if number in _STOPS:
            time.sleep(0.02)
            os.kill(started.pid, signal.SIGCONT)

    ends = [] if number in _HARMLESS | _STOPS else [-number]  # of an interrupt: before it has its handlers
    ends += [130] if number in _INTERRUPTS else []
    run = Run(strike=strike, ends=ends, before=partial(resource.setrlimit, resource.RLIMIT_CORE, (0, 0)))
    trial.attempt(f"{number.name} at a random instant", run)


_VICTIMS = [("parent",), ("terminated parent",), ("worker",), ("parent", "worker"), ("worker", "parent")]


def _devices(trial: Trial, how: Sequence[str]) -> None:
    """A run on two devices: its parent, one of its processes, or both are killed. No process may stay."""

    def strike(trial: Trial, started: Started) -> None:
        trial.wait_for_parts(started)
        time.sleep(trial.random.random() ** 2 * 0.2)
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            parent = psutil.Process(started.pid)
            workers = parent.children(recursive=True)
            for victim in how:
                if victim == "worker" and workers:
                    trial.random.choice(workers).kill()
                elif victim != "worker":
                    os.kill(started.pid, signal.SIGTERM if victim == "terminated parent" else signal.SIGKILL)

    ends = {"worker": [], "terminated parent": [130]}.get(how[0] if len(how) == 1 else "", _KILLED)
    trial.attempt(f"two devices, {' and '.join(how)}", Run(more=("--device", "cpu,cpu"), strike=strike, ends=ends))


# Damaged files of a half run and of a finished run.
_DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "empty": lambda _: b"",
    "one byte": lambda content: content[:1],
    "cut in the middle": lambda content: content[: len(content) // 2],
    "without its last byte": lambda content: content[:-1],
    "second half zero": lambda content: content[: len(content) // 2] + bytes(len(content) - len(content) // 2),
    "gone": lambda _: None,
    "empty, its temporary file there": lambda _: b"",
}


def _files(trial: Trial) -> list[tuple[str, str, int]]:
    """State, name and size of the files that the command can still read: a finished stage does not need its parts and
    what it was made from any more."""
    own, found = f"{RESULT}/parts/{trial.case.stage}/", []
    for state in ("half", "whole"):
        folder = trial.prepared.folder / state
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            is_read = own in name if "/parts/" in name else state == "half" or name.startswith(f"{RESULT}/")
            if path.is_file() and not path.name.startswith(".") and is_read and (state == "half" or own not in name):
                found.append((state, name, path.stat().st_size))
    return found


def _torn(trial: Trial) -> list[Any]:
    return [(state, name, what) for state, name, _ in _files(trial) for what in _DAMAGES]


def _bytes(trial: Trial) -> list[Any]:
    places = [(state, name, at) for state, name, size in _files(trial) for at in range(size)]
    return trial.random.sample(places, min(len(places), 60_000))


def _flip(trial: Trial, place: tuple[str, str, int]) -> None:
    state, name, at = place
    bit = trial.random.randrange(8)

    def flipped(content: bytes) -> bytes:
        return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]

    _damaged(trial, state, name, f"bit {bit} of byte {at:,} flipped", flipped)


def _tear(trial: Trial, place: tuple[str, str, str]) -> None:
    _damaged(trial, *place, _DAMAGES[place[2]])


def _tear_and_stop(trial: Trial, place: tuple[str, str, str]) -> None:
    state, name, what = place
    mode = trial.random.choice((Mode.KILL_BEFORE, Mode.KILL_AFTER, Mode.SINGLE, Mode.LASTING, Mode.SHORT))
    error = trial.random.choice((errno.EIO, errno.ENOSPC))
    second = Fault(mode, trial.random.randint(1, trial.calls(ALL)), ALL, error)
    _damaged(trial, state, name, f"{what}, then {second}", _DAMAGES[what], Run(second, ends=_KILLED))


def _damaged(
    trial: Trial, state: str, name: str, what: str, damage: Callable[[bytes], bytes | None], *runs: Run
) -> None:
    """A file that is damaged; the command refuses it in one line, or gives the same result and prints the same."""
    trial.begin(state)
    path = trial.work / name
    content = path.read_bytes()
    changed = damage(content)
    if changed == content:
        return
    if "temporary" in what:  # as a killed process leaves it
        path.with_name(f".{path.name}.01234567.negengine-tmp").write_bytes(content)
    path.unlink() if changed is None else path.write_bytes(changed)
    for run in runs:
        trial.run(run)
    trial.happened = True
    trial.end(f"{name} of the {state} run {what}", ignored="run.json", restore=(path, content))


def _together(trial: Trial, n: int) -> None:
    trial.attempt(f"{n} processes at once", Run(processes=n))


KINDS = {
    "kill-calls": Kind(_kill, _calls(CHANGING), "places", 36, ends=True),
    "signals": Kind(_signal, lambda _: sorted(signal.Signals), "signals", 4),
    "error-once": Kind(_fails(Mode.SINGLE, (*ERRORS, errno.EINTR)), _calls(ALL), "calls", 48, ends=True),
    "error-lasting": Kind(_fails(Mode.LASTING), _calls(ALL), "calls", 48, ends=True),
    "short-write": Kind(
        _fails(Mode.SHORT, (errno.ENOSPC, errno.EDQUOT), Op.WRITE), _calls(Op.WRITE), "writes", 12, ends=True
    ),
    "power-cut": Kind(_power_cut, _calls(CHANGING), "places", 24, ends=True),
    "torn-file": Kind(_tear, _torn, "files and damages", 2, ends=True, only_runs=True),
    "flipped-bit": Kind(_flip, _bytes, "bytes", 5, ends=True, only_runs=True),
    "damage-and-stop": Kind(_tear_and_stop, _torn, "files and damages", 3, only_runs=True),
    "kill-and-error": Kind(_kill_and_error, weight=2, only_runs=True),
    "together": Kind(_together, lambda _: [2, 8], "numbers of processes"),
    "devices": Kind(_devices, lambda _: _VICTIMS, "choices of processes", only_runs=True, devices=True),
}
