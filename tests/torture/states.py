"""The states of the disk that one run goes through: the process stops after each call that changes something.

What a kill leaves is what is on the disk at that moment, so one run shows the states of all kills. Each content of a
file is kept once: two states share all that did not change between them.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from .cases import UndisturbedError
from .child import SECONDS, Started
from .faults import CHANGING, Call, Fault, Mode, Op
from .trial import Trial

_LOOK = 0.0002  # seconds


@dataclass(frozen=True)
class Entry:
    """A file, or a folder, which has no content; its inode and time, in nanoseconds."""

    content: bytes | None
    inode: int
    time: int


@dataclass(frozen=True)
class State:
    """A folder with all that is in it."""

    entries: dict[str, Entry]  # by relative path, `.` for the folder itself; a folder stands before what is in it
    calls: int  # how many changes the run had made

    @property
    def key(self) -> frozenset[tuple[str, bytes | None]]:
        return frozenset((path, entry.content) for path, entry in self.entries.items())

    def write(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name, entry in self.entries.items():
            path = folder / name
            if entry.content is None:
                path.mkdir(parents=True)
            else:
                path.write_bytes(entry.content)
                os.utime(path, ns=(entry.time, entry.time))


def _read(folder: Path, calls: int, known: dict[bytes, bytes]) -> State:
    entries = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        about, content = path.lstat(), None if path.is_dir() else path.read_bytes()
        own = None if content is None else known.setdefault(content, content)
        entries[str(path.relative_to(folder))] = Entry(own, about.st_ino, about.st_mtime_ns)
    return State(entries, calls)


def steps(started: Started) -> Iterator[None]:
    """Stops of a process under `Mode.STEP`, one after the other; it goes on when the next one is asked for.

    Raises:
        TimeoutError: It neither stops nor ends.
    """
    while _has_stopped(started.pid):
        yield
        os.kill(started.pid, signal.SIGCONT)


def _has_stopped(pid: int) -> bool:
    """Wait until a process stops, or ends: then there is nothing more to see."""
    latest = time.monotonic() + SECONDS
    while time.monotonic() < latest:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is not None:
            if found.si_code != os.CLD_STOPPED:
                return False
            os.waitid(os.P_PID, pid, os.WSTOPPED)
            return True
        time.sleep(_LOOK)
    raise TimeoutError("a run neither stops nor ends")


@dataclass(frozen=True)
class Recorded:
    """All states of an undisturbed run."""

    states: list[State]  # after each call that changes something
    calls: list[Call]  # all changes, in their order


def record(trial: Trial) -> Recorded:
    """Run a case step by step."""
    trial.reset()
    known: dict[bytes, bytes] = {}
    started = trial.start(fault=Fault(Mode.STEP, ops=CHANGING))
    states = [_read(trial.work, trial.injector.recorded, known) for _ in steps(started)]
    end = started.wait()
    if end.status != 0:
        raise UndisturbedError(f"{trial.case.name}, step by step: status {end.status}, {end.err[-300:]}")
    return Recorded(states, trial.injector.calls)


def without_unflushed(calls: list[Call], state: State, folder: Path, draw: Random) -> tuple[State, str]:
    """What a power cut can leave of a state, and what was lost.

    A file that was written and not flushed since has any length up to its own, also under a new name. A new name whose
    folder was not flushed since is gone.
    """
    dirty, names = _unflushed(calls[: state.calls], state, folder)
    entries, contents_lost, names_lost = dict(state.entries), 0, 0
    for name, entry in state.entries.items():
        if entry.content is not None and entry.inode in dirty:
            size = len(entry.content)
            keep = draw.choice((0, size // 2, max(0, size - 1)))
            kept = entry.content[:keep] + bytes(size - keep) * draw.randint(0, 1)
            entries[name] = Entry(kept, entry.inode, entry.time)
            contents_lost += 1
    for name in names:
        if name in entries and entries[name].content is not None and draw.random() < 0.5:
            del entries[name]
            names_lost += 1
    said = [f"{n} {what} lost" for n, what in ((contents_lost, "contents"), (names_lost, "names")) if n]
    return State(entries, state.calls), ", ".join(said) or "nothing lost"


def _unflushed(calls: list[Call], state: State, folder: Path) -> tuple[set[int], list[str]]:
    """The inodes of the files, and the new names, that are not flushed after some calls."""
    dirty: set[int] = set()
    names: list[str] = []
    for call in calls:
        if call.op in {Op.WRITE, Op.TRUNCATE}:
            dirty.add(call.inode)
        elif call.op is Op.FSYNC and call.name == "folder":
            names = [name for name in names if _inode(state, str(Path(name).parent)) != call.inode]
        elif call.op is Op.FSYNC:
            dirty.discard(call.inode)
        elif call.op is Op.RENAME and not call.inode:  # it did not replace another file
            names.append(os.path.relpath(folder / call.name, folder))
    return dirty, names


def _inode(state: State, name: str) -> int:
    entry = state.entries.get(name)
    return entry.inode if entry else 0
