"""Actors of Ray that decide parts, and the pool that feeds them.

Each actor has two parts: one is decided while the next one is prepared. A part can be decided twice: it gives the same
bytes each time. Ray and this pool cure what goes wrong:

    a worker dies, or its machine    Ray starts it again, elsewhere if it must; its parts go to other workers at once
    a worker is slow, or silent      workers that have nothing left to do decide its parts, too; the first result counts
    a part fails                     bad input ends the run, as no retry can cure it; so does a part whose worker died
                                     four times
"""

import json
import queue
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

from ..basics.errors import InputError
from ..basics.versions import DECIDING, versions
from ..inference import tally
from ..inference.device import CPU, Device
from ..inference.machine import machine
from .executors import Advance, Behind, Finish, Say, Workers, opened, worker
from .part import EncodedPart
from .ray import Patience, Resources
from .ray_files import Pieces, SentFile
from .stage import Choices, ModelOptions, Stage

_IN_FLIGHT = 2  # parts of a worker
_CHOOSING = 2  # workers that choose the precision: one may hang
_MOST_DEATHS = 4  # of the workers of one part, and of one worker that opens its model
_RESUME = "finished parts are kept, run the same command again to resume"


@dataclass(frozen=True, eq=False)
class Opened:
    """A worker that is ready: its machine's address, for messages; what is recorded of it; the deciding packages."""

    node: str
    description: Mapping[str, Any]
    packages: Mapping[str, str]


class Worker:
    """The actor; its methods run in other processes, in two threads."""

    def __init__(self, negengine: str, paths: Sequence[str], order: bytes, threads: int, on_gpu: bool) -> None:
        self._wanted, self._paths, self._order = negengine, paths, order
        self._threads, self._device = threads, Device("cuda") if on_gpu else CPU
        self._preparing, self._deciding = threading.Lock(), threading.Lock()
        self._stage: Stage[Any, Any] | None = None
        self._model: Any = None
        self._used: tuple[Choices, Any] | None = None

    def open(self, pieces: Mapping[str, Pieces] | None) -> Opened | None:
        """Open the model; None if this machine does not see the stage's files and got no `pieces` of them.

        Raises InputError if another version of negengine is installed here, or the model cannot be opened.
        """
        node = str(ray.util.get_node_ip_address())
        try:
            if (own := version("negengine")) != self._wanted:
                raise InputError(
                    f"negengine {own} is installed there, {self._wanted} here; install the same version there"
                )
            if self._stage is None and not self._open(pieces):
                return None
        except InputError as error:
            raise InputError(f"node {node}: {error}") from None
        stage = self._opened()
        described = {**stage.describe(self._model), **worker(self._device, self._threads), "machine": machine()}
        return Opened(node, described, versions(DECIDING))

    def _open(self, pieces: Mapping[str, Pieces] | None) -> bool:
        sys.path.extend(path for path in self._paths if path not in sys.path)
        stage, options, files, copy_files = cloudpickle.loads(self._order)
        places: dict[str, Path] = {}
        for name, sent in files.items():
            if not copy_files and sent.is_at(sent.place):
                places[name] = sent.place
            elif pieces is None:
                return False
            else:
                places[name] = sent.copied(pieces[name], ray.get)
        stage = stage.with_files(places)
        self._model = stage.open(replace(options, device=self._device, threads=self._threads))
        self._stage = stage
        tally.take()
        return True

    def choose(self) -> tuple[Choices, list[str]]:
        """What `Stage.calibrate` finds, and the lines that it says."""
        said: list[str] = []
        with self._deciding:
            return Choices(self._opened().calibrate(self._model, said.append)), said

    def decide(self, number: int, choices: Choices) -> tuple[EncodedPart, int, int] | None:
        """A part, the work done for it in the unit of the stage's sizes, and the number of sentences run.

        None if Ray has started this worker again: it has no model yet.
        """
        if self._stage is None:
            return None
        done = [0, 0]

        def advance(units: int, sentences: int) -> None:
            done[0] += units
            done[1] += sentences

        with self._preparing:
            prepared = self._stage.prepare(number)
        with self._deciding:
            if self._used is None or self._used[0] != choices:
                self._used = choices, self._stage.use(self._model, choices.calibration)
            result = self._stage.decide(self._used[1], number, prepared, advance)
            counted = tally.take()
        return EncodedPart.of(result, counted), done[0], done[1]

    def _opened(self) -> Stage[Any, Any]:
        if self._stage is None:
            raise RuntimeError("the worker has no model")
        return self._stage


@dataclass(eq=False)
class _Slot:
    """A worker as the pool sees it."""

    plan: Resources
    actor: Any
    opened: Opened | None = None
    is_ready: bool = False
    parts: set[int] = field(default_factory=set)

    @property
    def where(self) -> str:
        return f" on node {self.opened.node}" if self.opened else ""


@contextmanager
def opened_pool(
    ray: Any,
    stage: Stage[Any, Any],
    options: ModelOptions,
    plans: Sequence[Resources],
    say: Say,
    copy_files: bool,
    patience: Patience,
) -> Iterator[Workers]:
    """Workers that have opened the stage's model; they end with the context.

    Raises InputError if a worker cannot open the model or none gets room, and RuntimeError with the traceback of a
    worker that failed.
    """
    files = {name: SentFile.at(place) for name, place in stage.files().items()}
    # cloudpickle takes a stage of a script or a notebook along with its code.
    order = ray.put(cloudpickle.dumps((stage, options, files, copy_files)))
    # Ray starts a dead actor again, without end. It repeats no part: a lost one goes to a worker that lives.
    actors = ray.remote(max_restarts=-1, max_concurrency=_IN_FLIGHT, scheduling_strategy="SPREAD")(Worker)
    paths = [path for path in sys.path if path]
    slots = []
    for plan in plans:
        resources = actors.options(num_cpus=plan.cpus, num_gpus=plan.gpus)
        slots.append(_Slot(plan, resources.remote(version("negengine"), paths, order, plan.threads, bool(plan.gpus))))
    pool = _Pool(ray, files, slots, say, patience)
    try:
        pool.begin()
        yield pool
    finally:
        for slot in slots:
            with suppress(Exception):  # the cluster itself may have gone
                ray.kill(slot.actor)


class _Pool:
    """The `Workers` of a cluster. All answers come into one inbox: this process waits there."""

    def __init__(
        self, ray: Any, files: Mapping[str, SentFile], slots: list[_Slot], say: Say, patience: Patience
    ) -> None:
        self._ray, self._files, self._slots, self._say, self._patience = ray, files, list(slots), say, patience
        self._inbox: queue.SimpleQueue[tuple[_Slot, str, int, int, Any]] = queue.SimpleQueue()
        self._pieces: dict[str, Pieces] | None = None
        self._heard = time.monotonic()
        self._chosen: tuple[Choices, list[str]] | None = None
        self._round = 0  # which call of `run`; late answers to an earlier one do not count
        self._waiting: deque[int] = deque()
        self._left: set[int] = set()
        self._deaths: Counter[int] = Counter()

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        """Workers that are alike are one entry with their number, as there may be thousands."""
        here = versions(DECIDING)
        alike: dict[str, dict[str, Any]] = {}
        for slot in list(self._slots):  # a thread may ask
            if slot.opened is not None:
                gpus = {"GPUs": slot.plan.gpus} if slot.plan.gpus else {}
                other = {} if slot.opened.packages == here else {"packages": dict(slot.opened.packages)}
                found = {**slot.opened.description, **gpus, **other}
                alike.setdefault(json.dumps(found, sort_keys=True), {**found, "workers": 0})["workers"] += 1
        return list(alike.values())

    def begin(self) -> None:
        """Wait until the workers have opened the model; those that take long join later."""
        for slot in self._slots:
            self._open(slot)
        first: float | None = None
        while late := sum(not slot.is_ready for slot in self._slots):
            self._listen()
            if first is None and any(slot.is_ready for slot in self._slots):
                first = time.monotonic()
            if first is not None and time.monotonic() - first > self._patience.others:
                self._say(f"Ray: {late:,} of {len(self._slots):,} workers are not ready yet; they join later")
                break

    def choose(self, say: Say) -> Choices:
        """Choose in two workers, and in others if these die; the first answer counts."""
        asked: list[_Slot] = []
        while self._chosen is None:
            asked = [slot for slot in asked if slot.is_ready]
            for slot in [own for own in self._slots if own.is_ready and own not in asked][: _CHOOSING - len(asked)]:
                asked.append(slot)
                self._expect(slot, "choose", slot.actor.choose.remote())
            self._listen()
        choices, lines = self._chosen
        for line in lines:
            say(line)
        return choices

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        """Decide parts. They are finished in a thread, so that an interrupt does not cut one off."""
        with Behind(finish) as behind:
            self._round += 1
            self._waiting, self._left = deque(numbers), set(numbers)
            self._deaths.clear()
            self._choices, self._finish, self._advance = choices, behind.finish, advance
            for slot in self._slots:
                slot.parts.clear()
            self._give_all()
            while self._left:
                self._listen()

    def _listen(self) -> None:
        try:
            slot, kind, of_round, number, future = self._inbox.get(timeout=1.0)
        except queue.Empty:
            nobody = self._patience.nobody
            if not any(slot.is_ready for slot in self._slots) and time.monotonic() - self._heard > nobody:
                raise InputError(
                    f"Ray: no worker has answered for {nobody / 60:.0f} minutes (other jobs may hold the cluster: see "
                    f"`ray status`); {_RESUME}"
                ) from None
            return
        self._heard = time.monotonic()
        number = number if of_round == self._round else -1
        try:
            value = future.result()
        except RayTaskError as error:  # of a method: bad input is the run's, any other error is a bug
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            raise RuntimeError(f"a Ray worker{slot.where}: {error}") from None
        except RayError as error:
            if kind == "open":
                self._give_up(slot, error)
            else:
                self._lost(slot, number, error)
            return
        if kind == "open":
            self._has_opened(slot, value)
        elif kind == "choose":
            self._chosen = self._chosen or value
        elif value is None:
            self._lost(slot, number, None)
        elif number in self._left:
            self._left.discard(number)
            self._advance(*value[1:])
            slot.parts.discard(number)
            self._give(slot, _IN_FLIGHT)  # before the part is written, so that the worker does not wait
            self._finish(number, value[0])
        else:
            slot.parts.discard(number)
            self._give(slot, _IN_FLIGHT)

    def _open(self, slot: _Slot) -> None:
        slot.is_ready = False
        reference = slot.actor.open.options(max_task_retries=_MOST_DEATHS - 1).remote(self._pieces)
        self._expect(slot, "open", reference)

    def _has_opened(self, slot: _Slot, answer: Opened | None) -> None:
        if answer is None:
            if self._pieces is None:
                self._say("Ray: the model is sent to the nodes that do not see it")
                self._pieces = {name: file.in_store(self._ray.put) for name, file in self._files.items()}
            self._open(slot)
            return
        if slot.opened is None:
            shown = {key: value for key, value in answer.description.items() if not isinstance(value, Mapping)}
            self._say(f"Ray: node {answer.node}: {opened(shown)}")
        slot.opened, slot.is_ready = answer, True
        self._give(slot, _IN_FLIGHT)

    def _lost(self, slot: _Slot, number: int, error: RayError | None) -> None:
        """A worker died, or cannot be reached. Ray starts it again; meanwhile others decide its parts."""
        if slot.is_ready:
            self._say(f"Ray: a worker{slot.where} was lost ({_reason(error)})")
            self._open(slot)
        if number not in slot.parts:
            return
        slot.parts.discard(number)
        self._deaths[number] += error is not None
        if self._deaths[number] >= _MOST_DEATHS:
            raise InputError(f"Ray: part {number}: {_ended(error)}")
        if number in self._left and not any(number in other.parts for other in self._slots):
            self._waiting.appendleft(number)
            self._give_all()

    def _give_up(self, slot: _Slot, error: RayError) -> None:
        """Go on without a worker that cannot open the model, such as on a machine with too little memory."""
        self._slots.remove(slot)
        if not self._slots:
            raise InputError(f"Ray: every worker: {_ended(error)}")
        self._say(f"Ray: a worker{slot.where}: {_ended(error)}; the run goes on without it")

    def _give_all(self) -> None:
        for most in range(1, _IN_FLIGHT + 1):  # one for each worker, then the second one
            for slot in self._slots:
                self._give(slot, most)

    def _give(self, slot: _Slot, most: int) -> None:
        while slot.is_ready and len(slot.parts) < most and (number := self._next_part(slot)) is not None:
            slot.parts.add(number)
            self._expect(slot, "part", slot.actor.decide.remote(number, self._choices), number)

    def _next_part(self, slot: _Slot) -> int | None:
        """The next part; if none waits, for a worker without any, the first one that a single other worker has."""
        if self._waiting:
            return self._waiting.popleft()
        if slot.parts:
            return None
        holders = Counter(number for other in self._slots for number in other.parts if number in self._left)
        return min((number for number, count in holders.items() if count == 1), default=None)

    def _expect(self, slot: _Slot, kind: str, reference: Any, number: int = -1) -> None:
        of_round, inbox = self._round, self._inbox
        reference.future().add_done_callback(lambda future: inbox.put((slot, kind, of_round, number, future)))


def _ended(error: BaseException | None) -> str:
    return f"its process ended {_MOST_DEATHS} times ({_reason(error)}; is the memory full?); {_RESUME}"


def _reason(error: BaseException | None) -> str:
    """Why Ray says that a worker was lost, in one clause."""
    text = [line.strip() for line in str(error or "it was started again").splitlines() if line.strip()]
    found = [line for line in text if line.startswith(("ModuleNotFoundError", "ImportError", "RuntimeError"))]
    return (found or text or [type(error).__name__])[0][:160].rstrip(".:")
