"""What all kinds of faults share: run a case under a fault, run it again, compare, count."""

import hashlib
import os
import pickle
import random
import shutil
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from .cases import Prepared
from .child import Children, Ended
from .compare import RowDifference, Snapshot, row_difference
from .faults import CHANGING, Fault, Mode, Op
from .table import Row

Found = TypeVar("Found")


@dataclass
class Bench:
    """A place in which faults happen one after the other."""

    children: Children  # starts commands
    work: Path  # the folder in which they run
    random: random.Random  # draws what is not tried exhaustively
    short: bool = False  # whether there are two minutes for everything
    before: Callable[[], None] | None = None  # what each tortured process does first, such as a planted bug
    _calls: dict[tuple[str, Op], int] = field(default_factory=dict)
    _resumed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def run(self, prepared: Prepared, **how: Any) -> Ended:
        how.setdefault("before", self.before)
        return self.children.run(prepared.case.arguments, self.work, **how)

    def start(self, prepared: Prepared, **how: Any) -> Any:
        how.setdefault("before", self.before)
        return self.children.start(prepared.case.arguments, self.work, **how)

    def calls(self, prepared: Prepared, ops: Op = CHANGING) -> int:
        key = (prepared.case.name, ops)
        if key not in self._calls:
            prepared.reset(self.work)
            self.run(prepared, fault=Fault(ops=ops))
            self._calls[key] = self.children.injector.count
        return self._calls[key]

    def half(self, prepared: Prepared, share: float) -> None:
        at = max(1, round(share * self.calls(prepared)))
        prepared.reset(self.work)
        self.run(prepared, fault=Fault(Mode.KILL_AFTER, at, CHANGING))

    def aftermath(self, prepared: Prepared, row: Row, what: str, complaint: str = "", *, known: bool = False) -> None:
        """Run the same command without a fault, compare with the undisturbed result, and count the fault."""
        state = folder_digest(self.work) if known and not complaint else ""
        if state and state in self._resumed[prepared.case.name]:
            row.faults += 1
            row.survived += 1
            return
        wrong = row.wrong
        self._resume(prepared, row, what, complaint)
        if state and row.wrong == wrong:
            self._resumed[prepared.case.name].add(state)

    def _resume(self, prepared: Prepared, row: Row, what: str, complaint: str) -> None:
        end = self.run(prepared)
        if not complaint and end.status != 0:
            complaint = f"then the same command: {end.complaint or f'status {end.status}: {_last(end)}'}"
        if not complaint and end.out not in {prepared.end.out, prepared.again.out}:
            complaint = "then the same command prints other tables"
        self.count(prepared, row, what, complaint, prepared.files(self.work))

    def count(self, prepared: Prepared, row: Row, what: str, complaint: str, files: Snapshot) -> None:
        row.faults += 1
        different = prepared.expected.differences(files)
        if not different and not complaint:
            row.survived += 1
            return
        rows = self._rows(prepared.expected, files, different)
        row.rows += rows.lost + rows.doubled
        row.wrong += 1
        shown = ", ".join(prepared.expected.shown(files, name) for name in different[:3])
        parts = [complaint, f"differs: {shown}" if different else ""]
        if rows != RowDifference():
            parts.append(f"{rows.lost} rows lost, {rows.doubled} doubled, {rows.other} changed")
        row.findings.append(f"{what}: {'; '.join(filter(None, parts))}")

    def _rows(self, expected: Snapshot, files: Snapshot, different: list[str]) -> RowDifference:
        tables = [name for name in different if name.endswith(".parquet") and name in expected.files]
        if not tables:
            return RowDifference()
        compared = in_fork(lambda: [row_difference(expected.files[name], files.files.get(name)) for name in tables])
        return sum(compared, RowDifference())


def _last(end: Ended) -> str:
    return (end.err.strip().splitlines() or [""])[-1][:160]


def in_fork(function: Callable[[], Found]) -> Found:
    """Call a function in a forked process: it may start threads, which would not survive the next fork of this one.

    Raises:
        ChildProcessError: The process ended without a result.
    """
    source, target = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(source)
            with os.fdopen(target, "wb") as stream:
                pickle.dump(function(), stream)
            threading._shutdown()  # type: ignore[attr-defined]
        except BaseException:  # noqa: BLE001 - the parent only sees that there is no result
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(target)
    with os.fdopen(source, "rb") as stream:
        content = stream.read()
    os.waitpid(pid, 0)
    if not content:
        raise ChildProcessError("a process of the harness ended without a result")
    return pickle.loads(content)  # noqa: S301 - between a process and the one that started it


def in_random_order(bench: Bench, row: Row, total: int, what: str) -> Iterator[int]:
    """The places of a loop, from 1; the row's note says how far it came."""
    for done, at in enumerate(bench.random.sample(range(1, total + 1), total), 1):
        yield at
        row.note = f"all {total:,} {what}" if done == total else f"{done:,} of {total:,} {what}"


Kind = Callable[[Bench, Prepared, Row], Iterator[None]]
"""A kind of fault: yields after every fault that it has counted, and ends when there is nothing left to try."""


def folder_digest(folder: Path) -> str:
    """A digest of the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(b"/" if path.is_dir() else hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def clean(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
