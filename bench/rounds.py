"""Fair timing: every system in a process of its own, all with the same items in the same minutes.

Each process tries its settings on a few items; the fastest are kept. Then the rounds: one system after the other does
all the work, in an order that is turned round each time. Rates are medians of the rounds.
"""

import math
import multiprocessing
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import psutil

from ..engine.basics.errors import InputError
from . import child
from .child import Took
from .system import Answers, Choice, Place, System, Unavailable, W

Say = Callable[[str], None]
Keep = Callable[[dict[str, Any]], None]  # is given the JSON document of a benchmark whenever more is known
INTERRUPTED = "interrupted"  # the key of a document that says whether it ends with an interrupt
_ENDING = 10  # seconds that a process gets to end
_BESIDE_WEIGHTS = 1e9  # bytes of libraries and activations
_COPIES = 2  # of the weights: as they are read, and as a library packs them
_OPENING = 0.6  # share of the limit in which all systems are opened
_NOT_YET, _TOO_LONG = "interrupted before it was measured", "no time is left for it"

_now = time.monotonic


class Child:
    """The process of a system, seen from the parent."""

    until = math.inf  # of `_now`: a call that lasts longer fails

    def __init__(self, process: Any, connection: Any, log: Path) -> None:
        self._process, self._connection, self._log = process, connection, log

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a method of `child.Service`. Raises Unavailable if the system cannot run here or fails."""
        try:
            self._connection.send((name, arguments))
            if self.until < math.inf and not self._connection.poll(max(0.0, self.until - _now())):
                self._process.kill()
                raise Unavailable(_TOO_LONG)
            worked, value = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_ENDING)
            code = self._process.exitcode
            status = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
            lines = self._log.read_text("utf-8", "replace").strip().splitlines() if self._log.exists() else []
            raise Unavailable(f"its process ended with {': '.join([status, *lines[-1:]])}") from None
        if not worked:
            raise Unavailable(value)
        return value


@contextmanager
def in_a_process(system: System[Any], place: Place, log: Path) -> Iterator[Child]:
    """A process that serves a system, until the end of the block."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    arguments = (there, pickle.dumps((system, place)), place.threads, str(log))
    process = spawning.Process(target=child.serve, args=arguments, daemon=True)
    process.start()
    there.close()
    try:
        yield Child(process, here, log)
    finally:
        here.close()
        process.join(_ENDING)
        process.kill()
        process.join()


Start = Callable[[System[Any], Place, Path], AbstractContextManager[Child]]  # the file is for what it prints


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int = 5  # how often each system is timed
    seconds: float = 8  # about how long a round of the slowest baseline takes
    tried: int = 64  # items for finding the fastest settings; an eighth of them is run before a setting is timed
    fewest: int = 64  # fewest items of a round
    most: int = 20_000  # most items of a round
    limit: float = math.inf  # seconds after which no system is opened and no round begins

    def quick(self) -> Self:
        """Less of everything: with what comes after the rounds, five minutes."""
        return replace(self, rounds=3, seconds=2.0, limit=210.0)


@dataclass(eq=False)
class Outcome:
    """A system that is open, and what was measured of it."""

    system: System[Any]
    served: Child
    opened: Took
    choice: Choice  # its fastest settings
    items: int  # how many there were
    runs: list[Took]  # of these settings: on few items; then one for each round
    rounds: int = 0
    found: Mapping[str, Any] = field(default_factory=dict)  # see `System.found`

    @property
    def answers(self) -> Answers:  # of the last round
        answers: Answers = self.runs[-1].answers
        return answers

    @property
    def rate(self) -> float:  # items a second, in the median round
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
        self.work = _share(self.system, work)
        self.served.ask("settle", self.work)
        self.served.ask("take", self.work)

    def time(self) -> None:
        run = self.served.ask("run", self.choice)
        self.runs, self.items = [*(self.runs if self.rounds else ()), run], len(self.work)
        self.rounds += 1


@dataclass(frozen=True, eq=False)
class Compared:
    """What `compare` gives."""

    outcomes: tuple[Outcome, ...]  # of the systems that ran, in their order
    missing: Mapping[str, str]  # name of a system → why it did not run, in a line
    interrupted: bool = False

    @property
    def by_name(self) -> dict[str, Outcome]:
        return {outcome.system.name: outcome for outcome in self.outcomes}


def compare(
    systems: Sequence[System[W]], place: Place, make: Callable[[int], W], effort: Effort, say: Say,
    start: Start = in_a_process, known: Callable[[Compared], None] = lambda _: None,
) -> Compared:  # fmt: skip
    """Time systems in turn; `make` gives so many items, or fewer. `known` is told what is known, again and again.

    Raises:
        InputError: one of our systems, or a reference, cannot run or fails.
        KeyboardInterrupt: nothing was measured yet.
    """
    few, missing, began = make(effort.tried), dict[str, str](), _now()
    until = began + _OPENING * effort.limit
    ready: list[Outcome] = []

    @contextmanager
    def missing_if_it_fails(system: System[Any]) -> Iterator[None]:
        try:
            yield
        except Unavailable as why:
            if _is_needed(system):
                raise InputError(f"{system.name} cannot be measured: {why}") from why
            say(f"{system.name}: not measured: {why}")
            missing[system.name] = str(why)
            ready[:] = [one for one in ready if one.system is not system]

    def found(*, interrupted: bool = False) -> Compared:
        """All systems in their order; once a round has begun, those that have run in one."""
        rounds = [one for one in ready if one.rounds] or ready
        lost = {one.system.name: _NOT_YET for one in ready if one not in rounds}
        return Compared(tuple(sorted(rounds, key=lambda one: systems.index(one.system))), missing | lost, interrupted)

    def tell(one: Outcome, when: str) -> None:
        say(f"{one.system.name}: {one.items / one.runs[-1].seconds:,.1f} a second, {when}")
        known(found())

    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="negengine.bench.")))
        try:
            for number, system in enumerate(sorted(systems, key=lambda own: not _is_needed(own))):
                say(f"{system.name}: opening")
                ends = math.inf if _is_needed(system) else until
                share = _now() + (ends - _now()) / (len(systems) - number)
                with missing_if_it_fails(system):
                    starting = partial(start, system, place, folder / f"{number}.log")
                    ready.append(_prepared(system, place, few, stack, starting, share, ends))
                    tell(ready[-1], f"with {len(few):,} items")
            slowest = min(one.rate * one.system.fewer for one in ready if not one.system.ours)
            items = make(int(min(max(slowest * effort.seconds, effort.fewest), effort.most)))
            ready.sort(key=lambda one: systems.index(one.system))
            for one in [*ready]:
                with missing_if_it_fails(one.system):
                    one.take(items)
            for number in range(effort.rounds):
                if number and _now() > began + effort.limit:
                    break
                for one in list(ready if number % 2 == 0 else reversed(ready)):
                    with missing_if_it_fails(one.system):
                        one.time()
                        tell(one, f"round {number + 1} of {effort.rounds}")
            for one in ready:
                one.found = one.served.ask("found")
        except KeyboardInterrupt:
            if not ready:
                raise
            say("interrupted: what was measured follows")
            return found(interrupted=True)
        return found()


def _is_needed(system: System[Any]) -> bool:
    return system.ours or system.reference


def _prepared(
    system: System[Any], place: Place, few: Any, stack: ExitStack, start: Callable[[], AbstractContextManager[Child]],
    share: float, until: float,
) -> Outcome:  # fmt: skip
    """Start a system's process, open it, and find its fastest settings."""
    weights = max((path.stat().st_size for path in place.exported.glob("*") if path.is_file()), default=0)
    needed, free = _COPIES * weights + _BESIDE_WEIGHTS, psutil.virtual_memory().available
    full = f"{free / 1e9:.1f} GB of memory are free, about {needed / 1e9:.1f} GB are needed" if free < needed else None
    if why := system.missing(place) or full or (_TOO_LONG if _now() > until else None):
        raise Unavailable(why)
    if type(system).make is not System.make:
        with start() as maker:
            maker.until = until
            maker.ask("make")
    process = stack.enter_context(start())
    process.until = until
    opened: Took = process.ask("open")
    choices = system.choices(place)
    own = few if len(choices) > 1 else _share(system, few)  # too few items do not tell large batches apart
    process.ask("settle", own)
    tried: list[Took] = []
    for choice in choices:
        if tried and _now() > share:
            break
        process.ask("take", own.head(max(1, len(few) // 8)))
        process.ask("run", choice)  # libraries compile, allocate, and start their threads
        process.ask("take", own)
        tried.append(process.ask("run", choice))
    best = int(np.argmin([run.seconds for run in tried]))
    process.until = math.inf
    if len(tried) > 1:
        process.ask("run", choices[best])  # what belongs to other settings is out of memory again
    return Outcome(system, process, opened, choices[best], len(own), [tried[best]])


def _share(system: System[Any], work: Any) -> Any:
    return work if system.fewer == 1 else work.head(max(1, len(work) // system.fewer))
