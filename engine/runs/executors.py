"""Where the parts of a stage are decided. Threads compose and write meanwhile: all three release Python's lock."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

from ..basics.limits import cpu_threads
from ..basics.option import Opening
from ..inference import tally
from ..inference.device import choose_device
from ..inference.session import Device
from ..inference.tally import Tally
from .part import EncodedPart
from .stage import Advance, Choices, PartResult, Stage

Finish = Callable[[int, EncodedPart], None]
Say = Callable[[str], None]


class Workers(Protocol):
    """Opened models that decide parts."""

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        """What the run's record says about each process that decides parts; JSON values."""

    def choose(self, say: Say) -> Choices:
        """Choose once what the decisions depend on, by `Stage.calibrate`."""

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        """Decide parts, in any order."""


class Executor(Protocol):
    """Where parts are decided."""

    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> AbstractContextManager[Workers]:
        """Open the stage's model where parts are decided, and close it; RuntimeError if a worker has failed."""


@dataclass(frozen=True)
class ThisProcess:
    """One device, in this process: parts are composed ahead and written behind in threads."""

    device: Device

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> Iterator[Workers]:
        options = replace(options, device=str(self.device))
        model = stage.open(options)
        description = stage.describe(model)
        say(opened(description))
        yield _Here(stage, model, [worker(description, options)], lanes(stage, self.device))


@dataclass(frozen=True, eq=False)
class _Here:
    stage: Stage[Any, Any]
    model: Any
    descriptions: Sequence[Mapping[str, Any]]
    lanes: int

    def choose(self, say: Say) -> Choices:
        return Choices(self.stage.calibrate(self.model, say))

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        def lane() -> Callable[[int, Any], tuple[PartResult, Tally]]:
            model = self.stage.use(self.model, choices.calibration)
            return lambda number, prepared: (self.stage.decide(model, number, prepared, advance), tally.take())

        ended: Callable[[int, tuple[PartResult, Tally]], None] = lambda key, found: finish(key, EncodedPart.of(*found))  # noqa: E731
        side_by_side(numbers, self.stage.prepare, [lane() for _ in range(self.lanes)], ended)


def lanes(stage: Stage[Any, Any], device: Device) -> int:
    """How many parts a device decides at the same time: cores are busy with one, up to its last batch."""
    return 1 if device.uses_cores else stage.lanes


def worker(description: Mapping[str, Any], options: Opening) -> dict[str, Any]:
    """What the run's record says about a process that decides parts: its model, its hardware and its threads."""
    device = choose_device(str(description.get("device", options.device)))
    return {
        **description,
        **device.hardware(),
        **({"threads": options.threads or cpu_threads()} if device.uses_cores else {}),
    }


def opened(description: Mapping[str, Any]) -> str:
    """The message once a model is open."""
    return ", ".join(f"{key} {value}" for key, value in description.items())


Key = TypeVar("Key")
Prepared = TypeVar("Prepared")
Computed = TypeVar("Computed")


def overlap(
    keys: Iterable[Key],
    prepare: Callable[[Key], Prepared],
    compute: Callable[[Key, Prepared], Computed],
    finish: Callable[[Key, Computed], None],
) -> None:
    """Run prepare → compute → finish for each key, the three on different keys at the same time.

    `compute` runs in the calling thread, so that an interrupt reaches it. One key at most is prepared ahead, and one is
    being finished. An exception ends the run once the other two have come to rest; what is finished stays finished.
    """
    with ThreadPoolExecutor(1, "prepare") as before, ThreadPoolExecutor(1, "finish") as after:
        behind: Future[None] | None = None
        for key, prepared in _ahead(before, prepare, iter(keys)):
            computed = compute(key, prepared)
            if behind is not None:
                behind.result()
            behind = after.submit(finish, key, computed)
        if behind is not None:
            behind.result()


def _ahead(
    pool: ThreadPoolExecutor, prepare: Callable[[Key], Prepared], keys: Iterator[Key]
) -> Iterator[tuple[Key, Prepared]]:
    """Each key, and what is prepared for it; the one behind it is prepared meanwhile."""
    waiting = [(key, pool.submit(prepare, key)) for key in islice(keys, 1)]
    while waiting:
        key, prepared = waiting[0][0], waiting[0][1].result()
        waiting = [(following, pool.submit(prepare, following)) for following in islice(keys, 1)]
        yield key, prepared


def side_by_side(
    keys: Iterable[Key],
    prepare: Callable[[Key], Prepared],
    computes: Sequence[Callable[[Key, Prepared], Computed]],
    finish: Callable[[Key, Computed], None],
) -> None:
    """`overlap` in as many lanes as there are functions, each of which computes one key at a time.

    Several of them compute in threads; `finish` is called for one key at a time. An exception in one lane, or an
    interrupt, lets the others end their keys.
    """
    if len(computes) == 1:
        overlap(keys, prepare, computes[0], finish)
        return
    left, taking, finishing = iter(keys), threading.Lock(), threading.Lock()
    stopped = threading.Event()

    def own() -> Iterator[Key]:
        while not stopped.is_set():
            with taking:
                taken = list(islice(left, 1))
            if not taken:
                return
            yield taken[0]

    def ended(key: Key, computed: Computed) -> None:
        with finishing:
            finish(key, computed)

    def lane(compute: Callable[[Key, Prepared], Computed]) -> None:
        try:
            with tally.apart():
                overlap(own(), prepare, compute, ended)
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(len(computes), "lane") as threads:
        waited = [threads.submit(copy_context().run, lane, compute) for compute in computes]
        try:
            for each in waited:
                each.result()
        finally:
            stopped.set()
