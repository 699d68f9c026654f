"""Files that are damaged between two runs: cut, partly zero, gone, or with one flipped bit."""

import errno
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from .compare import Snapshot
from .faults import ALL, Fault, Mode
from .trial import Trial
from .world import copy_tree

_LEFT = ".{}.01234567.negengine-tmp"  # as a killed process leaves it
_UNIMPORTANT = "run.json"  # it also tells of times and processes, where a flipped bit changes no result
_MOST_FLIPS = 60_000


def torn_files(trial: Trial) -> Iterator[None]:
    """Every file of a half run and of a finished run: cut at several lengths, zeros at its end, gone, or only its
    temporary file there."""
    places = [(state, path) for state in ("half", "whole") for path in _files_after(trial, state)]
    trial.random.shuffle(places)
    total, done = len(places) * len(_DAMAGES), 0
    for state, name in places:
        for what, damage in _DAMAGES.items():
            yield from _damaged(trial, state, name, what, damage)
            done += 1
            trial.row.note = f"{done:,} of {total:,}: {len(places)} files"
    trial.row.note = f"all {len(places)} files × {len(_DAMAGES)}"


def damaged_and_stopped(trial: Trial) -> Iterator[None]:
    """A damaged file; then the run that repairs it is stopped, or its disk fails, at any of its calls."""
    places = [(state, path) for state in ("half", "whole") for path in _files_after(trial, state)]
    calls = trial.calls(ALL)
    while True:
        state, name = trial.random.choice(places)
        what = trial.random.choice(list(_DAMAGES))
        mode = trial.random.choice((Mode.KILL_BEFORE, Mode.KILL_AFTER, Mode.SINGLE, Mode.LASTING, Mode.SHORT))
        second = Fault(mode, trial.random.randint(1, calls), ALL, trial.random.choice((errno.EIO, errno.ENOSPC)))
        yield from _damaged(trial, state, name, what, _DAMAGES[what], second)
        trial.row.note = f"{len(places)} files; a kill or an error of the disk while they are repaired"


def flipped_bits(trial: Trial) -> Iterator[None]:
    """One bit of each byte of every file, of a half run and of a finished run."""
    places = [
        (state, name, at)
        for state in ("half", "whole")
        for name, size in _files_after(trial, state).items()
        for at in range(size)
    ]
    trial.random.shuffle(places)
    for done, (state, name, at) in enumerate(places[:_MOST_FLIPS], 1):
        bit = trial.random.randrange(8)

        def flip(path: Path, at: int = at, bit: int = bit) -> None:
            content = bytearray(path.read_bytes())
            if at < len(content):  # of a half run, run.json is not always as long
                content[at] ^= 1 << bit
            path.write_bytes(content)

        yield from _damaged(trial, state, name, f"bit {bit} of byte {at:,} flipped", flip)
        trial.row.note = f"{done:,} of {len(places):,} bytes"
    trial.row.note = f"all {len(places):,} bytes"


def _files_after(trial: Trial, state: str) -> dict[str, int]:
    """The files below the folder in a state that the command can still read: relative path → size.

    A finished stage does not need its parts and what it was made from any more.
    """
    _leave(trial, state)
    folder = trial.work if state == "half" else trial.work / trial.case.result
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    own = f"/parts/{trial.case.stage}/"
    return {
        name: path.stat().st_size
        for path in paths
        if "/parts/" not in (name := str(path.relative_to(trial.work))) or (state == "half" and own in name)
    }


def _leave(trial: Trial, state: str) -> None:
    """Put the folder into a state. The half run is made once, as it takes longer than a copy of it."""
    kept = trial.prepared.whole
    if state == "half":
        kept = trial.place.children.scratch / f"{trial.work.name}-{trial.case.name.replace(' ', '-')}"
        if not kept.exists():
            trial.half(0.6)
            shutil.copytree(trial.work, kept)
    copy_tree(kept, trial.work)


def _damaged(
    trial: Trial,
    state: str,
    name: str,
    what: str,
    damage: Callable[[Path], object],
    second: Fault | None = None,
) -> Iterator[None]:
    """A damaged file; the same command, after another run of it that a second fault stops."""
    _leave(trial, state)
    path = trial.work / name
    if not path.exists():
        return
    content = path.read_bytes()
    damage(path)
    if path.exists() and path.read_bytes() == content:
        return
    said = f"{name} of the {state} run {what}"
    if second is not None:
        repair = trial.run(fault=second)
        said = f"{said}, then {second}" if trial.injector.fired else said
        if repair.status != -signal.SIGKILL and repair.complaint:
            trial.aftermath(said, repair.complaint)
            yield
            return
    end = trial.run()
    if end.status == 2 and not end.complaint:  # refused in one line: with the file as it was, all is well
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        trial.aftermath(f"{said}, refused")
    else:
        is_same = end.out in trial.prepared.outputs
        complaint = end.complaint or ("" if is_same else "used silently: the tables are other ones")
        files = {**trial.files().files, _UNIMPORTANT: trial.prepared.expected.files[_UNIMPORTANT]}
        trial.count(said, complaint, Snapshot(files))
    yield


def _second_half_zero(path: Path) -> None:
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + bytes(len(content) - half))


def _only_temporary(path: Path) -> None:
    path.with_name(_LEFT.format(path.name)).write_bytes(path.read_bytes())
    path.write_bytes(b"")


_DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "one byte": lambda path: path.write_bytes(path.read_bytes()[:1]),
    "cut in the middle": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "without its last byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "second half zero": _second_half_zero,
    "gone": Path.unlink,
    "empty, its temporary file there": _only_temporary,
}
