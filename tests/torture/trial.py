"""What all kinds of faults share: run a command under a fault, run it again, compare, count."""

import hashlib
import os
import pickle
import random
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from .cases import Case, Prepared
from .child import Children, Ended, Started
from .compare import RowDifference, Snapshot, row_difference
from .faults import CHANGING, Fault, Injector, Mode, Op
from .table import Row

Found = TypeVar("Found")
_LOOK = 0.002  # seconds between two looks for the first part


@dataclass
class Place:
    """Where faults happen one after the other."""

    children: Children  # starts commands
    work: Path  # the folder in which they run
    random: random.Random  # draws what is not tried exhaustively
    short: bool = False  # whether there are two minutes for everything
    calls: dict[tuple[str, Op], int] = field(default_factory=dict)  # command, kinds of calls → number of calls
    resumed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # command → folders that were


@dataclass
class Trial:
    """One command under one kind of fault."""

    place: Place
    prepared: Prepared
    row: Row

    @property
    def case(self) -> Case:
        return self.prepared.case

    @property
    def work(self) -> Path:
        return self.place.work

    @property
    def random(self) -> random.Random:
        return self.place.random

    @property
    def injector(self) -> Injector:
        return self.place.children.injector

    def reset(self) -> None:
        self.prepared.reset(self.work)

    def files(self) -> Snapshot:
        return self.prepared.files(self.work)

    def start(self, arguments: Sequence[str] | None = None, **how: Any) -> Started:
        return self.place.children.start(arguments or self.case.arguments, self.work, **how)

    def run(self, **how: Any) -> Ended:
        return self.start(**how).wait()

    def calls(self, ops: Op = CHANGING) -> int:
        """How many calls an undisturbed run makes."""
        key = (self.case.name, ops)
        if key not in self.place.calls:
            self.reset()
            self.run(fault=Fault(ops=ops))
            self.place.calls[key] = self.injector.count
        return self.place.calls[key]

    def in_random_order(self, total: int, what: str) -> Iterator[int]:
        """The places of a loop, from 1; the row's note says how far it came."""
        for done, at in enumerate(self.random.sample(range(1, total + 1), total), 1):
            yield at
            self.row.note = f"all {total:,} {what}" if done == total else f"{done:,} of {total:,} {what}"

    def kill_after(self, at: int) -> Ended:
        """Start from the beginning, and be killed after a number of calls."""
        self.reset()
        return self.run(fault=Fault(Mode.KILL_AFTER, at, CHANGING))

    def half(self, share: float) -> None:
        self.kill_after(max(1, round(share * self.calls())))

    def wait_for_parts(self, started: Started) -> None:
        """Wait for the first file of a part that a process writes."""
        folder = self.work / self.case.result / "parts"
        while started.runs and not any(folder.glob(f"{self.case.stage}/*")):
            time.sleep(_LOOK)

    def complaint(self, end: Ended) -> str:
        """What is wrong with the end of a disturbed command, which may be done nevertheless."""
        silent = end.status == 0 and self.prepared.expected.differences(self.files())
        return end.complaint or ("status 0 with another result" if silent else "")

    def aftermath(self, what: str, complaint: str = "", *, known: bool = False) -> None:
        """Run the same command without a fault, compare with the undisturbed result, and count the fault.

        Of folders that are `known` to be left alike, the first one is resumed.
        """
        resumed = self.place.resumed[self.case.name]
        state = folder_digest(self.work) if known and not complaint else ""
        if state and state in resumed:
            self.row.faults += 1
            self.row.survived += 1
            return
        end = self.run()
        if not complaint and end.status != 0:
            last = (end.err.strip().splitlines() or [""])[-1][:160]
            complaint = f"then the same command: {end.complaint or f'status {end.status}: {last}'}"
        if not complaint and end.out not in self.prepared.outputs:
            complaint = "then the same command prints other tables"
        if self.count(what, complaint) and state:
            resumed.add(state)

    def count(self, what: str, complaint: str, files: Snapshot | None = None) -> bool:
        """Count a fault; whether the result and the end are right."""
        expected, files = self.prepared.expected, files or self.files()
        self.row.faults += 1
        different = expected.differences(files)
        if not different and not complaint:
            self.row.survived += 1
            return True
        tables = [name for name in different if name.endswith(".parquet") and name in expected.files]
        compared = in_fork(lambda: [row_difference(expected.files[name], files.files.get(name)) for name in tables])
        rows = sum(compared, RowDifference())
        self.row.rows += rows.lost + rows.doubled
        self.row.wrong += 1
        shown = ", ".join(expected.shown(files, name) for name in different[:3])
        parts = [complaint, f"differs: {shown}" if different else ""]
        if rows != RowDifference():
            parts.append(f"{rows.lost} rows lost, {rows.doubled} doubled, {rows.other} changed")
        self.row.findings.append(f"{what}: {'; '.join(filter(None, parts))}")
        print(f"torture: {self.row.kind}, {self.case.name}: {self.row.findings[-1]}", file=sys.stderr, flush=True)
        return False


Kind = Callable[[Trial], Iterator[None]]
"""A kind of fault: yields after every fault that it has counted, and ends when there is nothing left to try."""


def forked(function: Callable[[], Found]) -> Callable[[], Found]:
    """Call a function in a forked process, which starts now; what is returned waits for it and gives its result.

    The function may start threads, which would not survive the next fork of this process. Waiting raises
    ChildProcessError if the process ended without a result.
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

    def wait() -> Found:
        with os.fdopen(source, "rb") as stream:
            try:
                found: Found = pickle.load(stream)  # noqa: S301 - between a process and the one that started it
            except (EOFError, pickle.UnpicklingError):
                raise ChildProcessError("a process of the harness ended without a result") from None
            finally:
                os.waitpid(pid, 0)
        return found

    return wait


def in_fork(function: Callable[[], Found]) -> Found:
    return forked(function)()


def folder_digest(folder: Path) -> str:
    """A digest of the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(b"/" if path.is_dir() else hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
