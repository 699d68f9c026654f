"""Files that are damaged between two runs: cut, partly zero, gone, or with one flipped bit."""

import errno
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from .bench import Bench
from .cases import Prepared
from .compare import Snapshot
from .faults import ALL, Fault, Mode
from .table import Row

_LEFT = ".{}.01234567.negengine-tmp"  # as a killed process leaves it
_UNIMPORTANT = "run.json"  # it also tells of times and processes, where a flipped bit changes no result
_MOST_FLIPS = 60_000


def torn_files(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """Every file of a half run and of a finished run: cut at several lengths, zeros at its end, gone, or only its
    temporary file there."""
    places = [(state, path) for state in ("half", "whole") for path in _files_after(bench, prepared, state)]
    bench.random.shuffle(places)
    total, done = len(places) * len(_DAMAGES), 0
    for state, name in places:
        for what, damage in _DAMAGES.items():
            yield from _damaged(bench, prepared, row, state, name, what, damage)
            done += 1
            row.note = f"{done:,} of {total:,}: {len(places)} files"
    row.note = f"all {len(places)} files × {len(_DAMAGES)}"


def damaged_and_stopped(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """A damaged file; then the run that repairs it is stopped, or its disk fails, at any of its calls."""
    places = [(state, path) for state in ("half", "whole") for path in _files_after(bench, prepared, state)]
    calls = bench.calls(prepared, ALL)
    while True:
        state, name = bench.random.choice(places)
        what = bench.random.choice(list(_DAMAGES))
        mode = bench.random.choice((Mode.KILL_BEFORE, Mode.KILL_AFTER, Mode.SINGLE, Mode.LASTING, Mode.SHORT))
        second = Fault(mode, bench.random.randint(1, calls), ALL, bench.random.choice((errno.EIO, errno.ENOSPC)))
        yield from _damaged(bench, prepared, row, state, name, what, _DAMAGES[what], second)
        row.note = f"{len(places)} files; a kill or an error of the disk while they are repaired"


def flipped_bits(bench: Bench, prepared: Prepared, row: Row) -> Iterator[None]:
    """One bit of each byte of every file, of a half run and of a finished run."""
    places = [
        (state, name, at)
        for state in ("half", "whole")
        for name, size in _files_after(bench, prepared, state).items()
        for at in range(size)
    ]
    bench.random.shuffle(places)
    for done, (state, name, at) in enumerate(places[:_MOST_FLIPS], 1):
        bit = bench.random.randrange(8)

        def flip(path: Path, at: int = at, bit: int = bit) -> None:
            content = bytearray(path.read_bytes())
            if at < len(content):  # of a half run, run.json is not always as long
                content[at] ^= 1 << bit
            path.write_bytes(content)

        yield from _damaged(bench, prepared, row, state, name, f"bit {bit} of byte {at:,} flipped", flip)
        row.note = f"{done:,} of {len(places):,} bytes"
    row.note = f"all {len(places):,} bytes"


def _files_after(bench: Bench, prepared: Prepared, state: str) -> dict[str, int]:
    """The files below the folder in a state that the command can still read: relative path → size.

    A finished stage does not need its parts and what it was made from any more.
    """
    _leave(bench, prepared, state)
    folder = bench.work if state == "half" else bench.work / prepared.case.result
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    own = f"/parts/{prepared.case.stage}/"
    return {
        name: path.stat().st_size
        for path in paths
        if "/parts/" not in (name := str(path.relative_to(bench.work))) or (state == "half" and own in name)
    }


def _leave(bench: Bench, prepared: Prepared, state: str) -> None:
    """Put the folder into a state. The half run is made once, as it takes longer than a copy of it."""
    if state == "whole":
        prepared.finish(bench.work)
        return
    kept = bench.children.scratch / f"{bench.work.name}-{prepared.case.name.replace(' ', '-')}"
    if not kept.exists():
        bench.half(prepared, 0.6)
        shutil.copytree(bench.work, kept)
    shutil.rmtree(bench.work)
    shutil.copytree(kept, bench.work)


def _damaged(
    bench: Bench,
    prepared: Prepared,
    row: Row,
    state: str,
    name: str,
    what: str,
    damage: Callable[[Path], object],
    second: Fault | None = None,
) -> Iterator[None]:
    """A damaged file; the same command, after another run of it that a second fault stops."""
    _leave(bench, prepared, state)
    path = bench.work / name
    if not path.exists():
        return
    content = path.read_bytes()
    damage(path)
    if path.exists() and path.read_bytes() == content:
        return
    said = f"{name} of the {state} run {what}"
    if second is not None:
        repair = bench.run(prepared, fault=second)
        said = f"{said}, then {second}" if bench.children.injector.fired else said
        if repair.status != -signal.SIGKILL and repair.complaint:
            bench.aftermath(prepared, row, said, repair.complaint)
            yield
            return
    end = bench.run(prepared)
    if end.status == 2 and not end.complaint:  # refused in one line: with the file as it was, all is well
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        bench.aftermath(prepared, row, f"{said}, refused")
    else:
        is_same = end.out in {prepared.end.out, prepared.again.out}
        complaint = end.complaint or ("" if is_same else "used silently: the tables are other ones")
        files = {**prepared.files(bench.work).files, _UNIMPORTANT: prepared.expected.files[_UNIMPORTANT]}
        bench.count(prepared, row, said, complaint, Snapshot(files))
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
