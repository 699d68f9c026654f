"""Where the parts of a stage are decided. Threads compose and encode meanwhile: all three release Python's lock."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from ..inference.tally import Tally
from .part import EncodedPart
from .stage import Advance, Choices, Model, PartResult, Prepared, Stage

IN_FLIGHT = 3  # parts of a worker: one is prepared, one is decided, one is encoded and written
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
    """A model that decides parts in the order of the calls, and prepares the following ones meanwhile."""

    def __init__(self, stage: Stage[Model, Prepared], options: Opening, lanes: int = 1) -> None:
        self.stage, self.model, self.lanes = stage, stage.open(options), lanes
        described = stage.describe(self.model)
        device = choose_device(str(described.get("device", options.device)))
        threads = {"threads": options.threads or cpu_threads()} if device.uses_cores else {}
        self.description = {**described, **device.hardware(), **threads}
        self._preparing, self._deciding, self._encoding = self._threads = tuple(
            ThreadPoolExecutor(lanes, name) for name in ("prepare", "decide", "encode")
        )
        self._asking = threading.Lock()
        self._choices: Choices | None = None
        self._free = queue.SimpleQueue[Model]()  # the models that decide as `_choices` say, and are not deciding

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        return [self.description]

    def choose(self, say: Say) -> Choices:
        return Choices(self.stage.calibrate(self.model, say))

    def ask(self, number: int, choices: Choices, advance: Advance = lambda *_: None) -> Future[EncodedPart]:
        """Have a part decided. Other choices are given once all parts before are answered."""
        with self._asking:
            if self._choices != choices:
                self._choices, self._free = choices, queue.SimpleQueue()
                for _ in range(self.lanes):
                    self._free.put(self.stage.use(self.model, choices.calibration))
            prepared = self._preparing.submit(copy_context().run, self.stage.prepare, number)
            decided = self._deciding.submit(copy_context().run, self._decide, number, prepared, advance)
            return self._encoding.submit(lambda: EncodedPart.of(*decided.result()))

    def _decide(self, number: int, prepared: Future[Prepared | None], advance: Advance) -> tuple[PartResult, Tally]:
        ready, model = prepared.result(), self._free.get()
        try:
            earlier = tally.take()  # what belongs to no part, such as the calibration
            with tally.apart():
                tally.count(earlier.sentences, tokens=earlier.tokens)
                return self.stage.decide(model, number, ready, advance), tally.take()
        finally:
            self._free.put(model)

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        stopped = threading.Event()

        def told(done: int, sentences: int) -> None:
            if stopped.is_set():  # so an interrupt ends a part with its next batch
                raise _StoppedError
            advance(done, sentences)

        def stop(calls: Collection[Future[EncodedPart]]) -> None:
            stopped.set()
            wait(calls)

        places = range(IN_FLIGHT * self.lanes)
        divide(numbers, places, lambda _, number: self.ask(number, choices, told), finish, stop)

    def close(self) -> None:
        for threads in self._threads:
            threads.shutdown()


class _StoppedError(Exception):
    """A part that is not wanted any more."""


def divide(
    numbers: Iterable[int],
    free: Iterable[Asked],
    ask: Callable[[Asked, int], Future[EncodedPart]],
    finish: Finish,
    stop: Callable[[Collection[Future[EncodedPart]]], object] = lambda _: None,
) -> None:
    """Ask for a part whoever is free; one that can take two stands there twice. An error keeps what is decided."""
    waiting, idle, calls = deque(numbers), deque(free), dict[Future[EncodedPart], tuple[Asked, int]]()
    try:
        while waiting or calls:
            while waiting and idle:
                asked, number = idle.popleft(), waiting.popleft()
                calls[ask(asked, number)] = asked, number
            wait(calls, return_when=FIRST_COMPLETED)
            for call in [own for own in calls if own.done()]:
                asked, number = calls.pop(call)
                idle.append(asked)
                finish(number, call.result())
    except BaseException:
        stop(calls)
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
        try:
            say(opened(own.description))
            yield own
        finally:
            own.close()


def lanes(stage: Stage[Any, Any], device: Device) -> int:
    """How many parts a device decides at the same time: cores are busy with one, up to its last batch."""
    return 1 if device.uses_cores else stage.lanes


def opened(description: Mapping[str, Any]) -> str:
    """The message once a model is open."""
    return ", ".join(f"{key} {value}" for key, value in description.items())
