"""Where the parts of a stage are decided. Threads compose and encode meanwhile: all three release Python's lock."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from ..basics.limits import cpu_threads
from ..basics.option import Opening
from ..inference import tally
from ..inference.device import choose_device
from ..inference.session import Device
from .part import EncodedPart
from .stage import Advance, Choices, Model, Prepared, Stage

IN_FLIGHT = 3  # parts of a worker: one is decided, one is prepared, one is encoded or waits
Asked = TypeVar("Asked")
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


class PartWorker(Generic[Model, Prepared]):
    """A model that threads ask for parts: while it decides some, as many are prepared."""

    def __init__(self, stage: Stage[Model, Prepared], options: Opening, lanes: int = 1) -> None:
        self.stage, self.model, self.lanes = stage, stage.open(options), lanes
        described = stage.describe(self.model)
        device = choose_device(str(described.get("device", options.device)))
        threads = {"threads": options.threads or cpu_threads()} if device.uses_cores else {}
        self.description = {**described, **device.hardware(), **threads}
        self._preparing, self._choosing = threading.Semaphore(lanes), threading.Lock()
        self._choices: Choices | None = None
        self._free = queue.SimpleQueue[Model]()  # the models that decide as `_choices` say, and are not deciding

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        return [self.description]

    def choose(self, say: Say) -> Choices:
        return Choices(self.stage.calibrate(self.model, say))

    def decide(self, number: int, choices: Choices, advance: Advance) -> EncodedPart:
        with self._preparing:
            prepared = self.stage.prepare(number)
        with self._choosing:
            if self._choices != choices:
                self._choices, self._free = choices, queue.SimpleQueue()
                for _ in range(self.lanes):
                    self._free.put(self.stage.use(self.model, choices.calibration))
            free = self._free
        model = free.get()
        try:
            earlier = tally.take()  # what belongs to no part, such as the calibration
            with tally.apart():
                tally.count(earlier.sentences, tokens=earlier.tokens)
                decided = self.stage.decide(model, number, prepared, advance)
                counted = tally.take()
        finally:
            free.put(model)
        return EncodedPart.of(decided, counted)

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        stopped = threading.Event()

        def told(done: int, sentences: int) -> None:
            if stopped.is_set():  # so an interrupt ends a part with its next batch
                raise _StoppedError
            advance(done, sentences)

        def stop() -> None:
            stopped.set()
            threads.shutdown()

        places = range(IN_FLIGHT * self.lanes)
        with ThreadPoolExecutor(len(places), "part") as threads:

            def ask(_: int, number: int) -> Future[EncodedPart]:
                return threads.submit(copy_context().run, self.decide, number, choices, told)

            divide(numbers, places, ask, finish, stop)


class _StoppedError(Exception):
    """A part that is not wanted any more."""


def divide(
    numbers: Iterable[int],
    free: Iterable[Asked],
    ask: Callable[[Asked, int], Future[EncodedPart]],
    finish: Finish,
    stop: Callable[[], None] = lambda: None,
) -> None:
    """Ask for a part whoever is free; one that can take two stands there twice. An error keeps what is decided."""
    waiting, idle, calls = deque(numbers), deque(free), dict[Future[EncodedPart], tuple[Asked, int]]()
    try:
        while waiting or calls:
            while waiting and idle:
                asked, number = idle.popleft(), waiting.popleft()
                calls[ask(asked, number)] = asked, number
            for call in wait(calls, return_when=FIRST_COMPLETED).done:
                asked, number = calls.pop(call)
                idle.append(asked)
                finish(number, call.result())
    except BaseException:
        stop()
        for call, (_, number) in calls.items():
            if call.done() and call.exception() is None:
                finish(number, call.result())
        raise


@dataclass(frozen=True)
class ThisProcess:
    """One device, in this process."""

    device: Device

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> Iterator[Workers]:
        own = PartWorker(stage, replace(options, device=str(self.device)), lanes(stage, self.device))
        say(opened(own.description))
        yield own


def lanes(stage: Stage[Any, Any], device: Device) -> int:
    """How many parts a device decides at the same time: cores are busy with one, up to its last batch."""
    return 1 if device.uses_cores else stage.lanes


def opened(description: Mapping[str, Any]) -> str:
    """The message once a model is open."""
    return ", ".join(f"{key} {value}" for key, value in description.items())
