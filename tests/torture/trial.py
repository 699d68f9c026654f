"""What all kinds of faults share: run a command while something disturbs it, run it again, compare, count."""

import hashlib
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .cases import RESULT, Prepared, differences, files_of, wrong_rows
from .child import Children, Started, in_fork
from .faults import CHANGING, Fault, Op

_LOOK = 0.002  # seconds between two looks for a part


def say(text: str) -> None:
    print(f"torture: {text}", file=sys.stderr, flush=True)


@dataclass
class Row:
    """What happened to one command under one kind of fault."""

    kind: str  # of fault
    case: str  # the command
    faults: int = 0  # how many happened
    survived: int = 0  # after how many the command ended as it must, and then gave the undisturbed result
    rows: int = 0  # rows that were lost or doubled
    wrong: int = 0  # after how many faults a result or an end was wrong
    note: str = ""  # what was covered
    findings: list[str] = field(default_factory=list)  # what went wrong, one line each


@dataclass
class Place:
    """Where faults happen one after the other."""

    children: Children  # starts commands
    work: Path  # the folder in which they run
    random: random.Random  # draws what is not tried exhaustively
    calls: dict[tuple[str, Op], int] = field(default_factory=dict)  # command, kinds of calls → number of calls
    resumed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # command → folders that were


@dataclass(frozen=True)
class Run:
    """One run of the command, and what disturbs it."""

    fault: Fault | None = None  # in its calls to the operating system
    strike: "Callable[[Trial, Started], None] | None" = None  # is called while it runs
    ends: Sequence[int] = ()  # what it may end with besides 0, and 2 with one line
    before: Callable[[], None] = lambda: None  # is called in its process
    more: tuple[str, ...] = ()  # further arguments
    processes: int = 1  # that are started at once


@dataclass
class Trial:
    """One command under one kind of fault: `begin`, any number of `run`, and `end`, which counts it."""

    place: Place
    prepared: Prepared
    row: Row
    complaints: list[str] = field(default_factory=list)  # what was wrong with the ends of the disturbed runs
    met: list[str] = field(default_factory=list)  # the calls at which faults happened
    happened: bool = False

    def __post_init__(self) -> None:
        self.case, self.work, self.random = self.prepared.case, self.place.work, self.place.random
        self.injector = self.place.children.injector

    def calls(self, ops: Op = CHANGING) -> int:
        """How many calls an undisturbed run makes."""
        key = (self.case.name, ops)
        if key not in self.place.calls:
            self.prepared.leave("start", self.work)
            self._start(Run(Fault(ops=ops))).wait()
            self.place.calls[key] = self.injector.count()
        return self.place.calls[key]

    def attempt(self, said: str, *runs: Run) -> None:
        self.begin()
        for run in runs:
            self.run(run)
        self.end(said)

    def begin(self, state: str = "start") -> None:
        self.complaints, self.met, self.happened = [], [], False
        self.prepared.leave(state, self.work)

    def run(self, run: Run) -> None:
        started = [self._start(run) for _ in range(run.processes)]
        if run.strike is not None:
            run.strike(self, started[0])
        ends = [one.wait() for one in started]
        fires = run.fault is not None and bool(run.fault.mode)
        self.happened |= not fires or bool(self.injector.fired())
        if fires and self.injector.fired():
            self.met.append(self.injector.where)
        is_done = any(end.status == 0 for end in ends)
        self.complaints += filter(None, (end.complaint(run.ends) for end in ends))
        if is_done and not self.complaints and differences(self.prepared.expected, files_of(self.work)):
            self.complaints.append("status 0 with another result")
        if run.processes > 1 and not is_done and not self.case.exports:
            self.complaints.append("nobody did the work")

    def end(self, said: str, *, ignored: str = "", restore: tuple[Path, bytes] | None = None) -> None:
        """Run the command again, undisturbed, compare, and count the fault; of folders left alike, once.

        A file that was damaged may be refused; it is restored then.
        """
        if not self.happened:
            return
        said = ", ".join([said, *self.met])
        resumed, state = self.place.resumed[self.case.name], _digest(self.work)
        if state in resumed and not self.complaints:
            self._count(said, [])
            return
        end = self._start(Run()).wait()
        if restore is not None and end.status == 2 and not end.complaint():
            path, content = restore
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            end, said = self._start(Run()).wait(), f"{said}, refused"
        complaints = [*self.complaints]
        if not complaints and (end.status != 0 or end.left):
            last = (end.err.strip().splitlines() or [""])[-1][:160]
            complaints = [f"then the same command: {end.complaint() or f'status {end.status}: {last}'}"]
        elif not complaints and end.out not in self.prepared.outputs:
            complaints = ["then the same command prints other tables"]
        found = files_of(self.work)
        if ignored in self.prepared.expected:
            found[ignored] = self.prepared.expected[ignored]
        if different := differences(self.prepared.expected, found):
            complaints = [*complaints, f"differs: {', '.join(different[:3])}"]
            rows = in_fork(lambda: wrong_rows(self.prepared.expected, found))()
            self.row.rows += rows
            complaints += [f"{rows} rows lost or doubled"] if rows else []
        if self._count(said, complaints):
            resumed.add(state)

    def _count(self, said: str, complaints: Sequence[str]) -> bool:
        self.row.faults += 1
        self.row.survived += not complaints
        self.row.wrong += bool(complaints)
        if complaints:
            self.row.findings.append(f"{said}: {'; '.join(complaints)}")
            say(f"{self.row.kind}, {self.case.name}: {self.row.findings[-1]}")
        return not complaints

    def _start(self, run: Run) -> Started:
        return self.place.children.start((*self.case.arguments, *run.more), self.work, run.fault, run.before)

    def wait_for_parts(self, started: Started) -> None:
        """Wait until a process has finished a part, or has ended."""
        folder = self.work / RESULT / "parts" / self.case.stage
        while started.runs and not [*folder.glob("part-*.json")]:
            time.sleep(_LOOK)

    def wait_an_instant(self, started: Started) -> None:
        """Wait for an instant while a process writes parts; of an export, for any instant."""
        if self.case.exports:
            time.sleep(self.random.random() * self.prepared.seconds)
        else:
            self.wait_for_parts(started)
        time.sleep(self.random.random() ** 2 * self.prepared.seconds)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(b"/" if path.is_dir() else hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
