"""Fair timing: every system in a process of its own, all with the same items in the same minutes.

`compare` starts the processes one after the other. Each opens its system and tries its settings, such as sizes of a
batch, on a few items; the fastest are kept. Then the rounds: one system after the other does all the work, in an order
that is turned round each time, and one process works at a time. Rates are medians of the rounds. Since nothing else
lives in the process of a system, its peak memory is its own.
"""

import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import psutil

from ..engine.basics.errors import InputError
from . import child
from .child import Took
from .system import Answers, Choice, Place, System, Unavailable, W

Say = Callable[[str], None]
_ENDING = 10  # seconds that a process gets to end
_BESIDE_WEIGHTS = 1e9  # bytes of libraries and activations
_COPIES = 2  # of the weights: as they are read, and as a library packs them


class Served(Protocol):
    """Whatever serves a system."""

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a method of `child.Service`. Raises Unavailable if the system cannot run here or fails."""


Start = Callable[[System[Any], Place, Path], AbstractContextManager[Served]]
"""A system, its place, and a file for what it prints → what serves it until the end of the block."""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int = 5  # how often each system is timed
    seconds: float = 8  # about how long a round of the slowest baseline takes
    tried: int = 64  # items for finding the fastest settings; an eighth of them is run before a setting is timed
    fewest: int = 64  # fewest items of a round
    most: int = 20_000  # most items of a round


@dataclass(eq=False)
class Outcome:
    """A system that is open, and what was measured of it."""

    system: System[Any]
    served: Served
    opened: Took
    choice: Choice  # its fastest settings
    tried: float  # items a second of these settings, on few items
    items: int = 0  # how many there were
    runs: list[Took] = field(default_factory=list)  # one for each round
    found: Mapping[str, Any] = field(default_factory=dict)  # see `System.found`

    @property
    def answers(self) -> Answers:
        """Those of the last round."""
        answers: Answers = self.runs[-1].answers
        return answers

    @property
    def rate(self) -> float:
        """Items a second, in the median round."""
        return self.items / float(np.median([run.seconds for run in self.runs]))

    def row(self) -> dict[str, Any]:
        return {
            "system": self.system.name,
            "about": self.system.about(self.choice),
            "arithmetic": self.system.arithmetic,
            "ours": self.system.ours,
            "sentences/s": self.rate,
            "seconds": [run.seconds for run in self.runs],
            "MB": max((run.megabytes for run in self.runs if run.megabytes is not None), default=None),
            "opening, MB": self.opened.megabytes,
            "opening, s": self.opened.seconds,
            **self.found,
        }

    def take(self, work: Any) -> None:
        own = _share(self.system, work)
        self.items = len(own)
        self.served.ask("settle", own)
        self.served.ask("take", own)

    def time(self) -> None:
        self.runs.append(self.served.ask("run", self.choice))


@dataclass(frozen=True, eq=False)
class Compared:
    """What `compare` gives."""

    outcomes: tuple[Outcome, ...]  # of the systems that ran, in their order
    missing: Mapping[str, str]  # name of a system → why it did not run, in a line

    @property
    def by_name(self) -> dict[str, Outcome]:
        return {outcome.system.name: outcome for outcome in self.outcomes}


def compare(
    systems: Sequence[System[W]],
    place: Place,
    make: Callable[[int], W],
    effort: Effort,
    say: Say,
    start: Start | None = None,
) -> Compared:
    """Time systems in turn; `make` gives so many items, or fewer.

    Raises:
        InputError: one of our systems, or a reference, cannot run or fails.
    """
    few, missing = make(effort.tried), dict[str, str]()
    ready: list[Outcome] = []

    @contextmanager
    def missing_if_it_fails(system: System[Any]) -> Iterator[None]:
        try:
            yield
        except Unavailable as why:
            if system.ours or system.reference:
                raise InputError(f"{system.name} cannot be measured: {why}") from why
            say(f"{system.name}: not measured: {why}")
            missing[system.name] = str(why)
            ready[:] = [one for one in ready if one.system is not system]

    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="negengine.bench.")))
        for number, system in enumerate(systems):
            say(f"{system.name}: opening")
            with missing_if_it_fails(system):
                log = folder / f"{number}.log"
                ready.append(_prepared(system, place, few, log, stack, start or in_a_process))
        slowest = min(one.tried * one.system.fewer for one in ready if not one.system.ours)
        items = make(int(min(max(slowest * effort.seconds, effort.fewest), effort.most)))
        for one in ready:
            with missing_if_it_fails(one.system):
                one.take(items)
        for number in range(effort.rounds):
            say(f"round {number + 1} of {effort.rounds}")
            for one in list(ready if number % 2 == 0 else reversed(ready)):
                with missing_if_it_fails(one.system):
                    one.time()
        for one in ready:
            one.found = one.served.ask("found")
    return Compared(tuple(ready), missing)


def _prepared(system: System[Any], place: Place, few: Any, log: Path, stack: ExitStack, start: Start) -> Outcome:
    """Start a system's process, open it, and find its fastest settings."""
    if why := system.missing(place) or _no_room(place):
        raise Unavailable(why)
    if type(system).make is not System.make:
        with start(system, place, log) as maker:
            maker.ask("make")
    process = stack.enter_context(start(system, place, log))
    opened: Took = process.ask("open")
    choices = system.choices(place)
    own = few if len(choices) > 1 else _share(system, few)  # too few items do not tell large batches apart
    process.ask("settle", own)
    seconds = []
    for choice in choices:
        process.ask("take", own.head(max(1, len(few) // 8)))
        process.ask("run", choice)  # libraries compile, allocate, and start their threads
        process.ask("take", own)
        seconds.append(process.ask("run", choice).seconds)
    best = int(np.argmin(seconds))
    if len(choices) > 1:
        process.ask("run", choices[best])  # what belongs to other settings is out of memory again
    return Outcome(system, process, opened, choices[best], len(own) / seconds[best])


def _share(system: System[Any], work: Any) -> Any:
    return work if system.fewer == 1 else work.head(max(1, len(work) // system.fewer))


def _no_room(place: Place) -> str | None:
    """Why one more copy of the model does not fit into memory; None if it does."""
    weights = max((path.stat().st_size for path in place.exported.glob("*") if path.is_file()), default=0)
    needed, free = _COPIES * weights + _BESIDE_WEIGHTS, psutil.virtual_memory().available
    return f"{free / 1e9:.1f} GB of memory are free, about {needed / 1e9:.1f} GB are needed" if free < needed else None


class _Child:
    """The process of a system, seen from the parent."""

    def __init__(self, process: Any, connection: Any, log: Path) -> None:
        self._process, self._connection, self._log = process, connection, log

    def ask(self, name: str, *arguments: Any) -> Any:
        try:
            self._connection.send((name, arguments))
            kind, value = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_ENDING)
            code = self._process.exitcode
            status = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
            lines = self._log.read_text("utf-8", "replace").strip().splitlines() if self._log.exists() else []
            raise Unavailable(f"its process ended with {': '.join([status, *lines[-1:]])}") from None
        if kind == child.DONE:
            return value
        raise Unavailable(value)


@contextmanager
def in_a_process(system: System[Any], place: Place, log: Path) -> Iterator[_Child]:
    """A process that serves a system, until the end of the block."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    arguments = (there, pickle.dumps((system, place)), place.threads, str(log))
    process = spawning.Process(target=child.serve, args=arguments, daemon=True)
    process.start()
    there.close()
    try:
        yield _Child(process, here, log)
    finally:
        here.close()
        process.join(_ENDING)
        process.kill()
        process.join()
