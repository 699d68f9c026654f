"""The pool of Ray workers: it gives out the parts, takes them back, and loses none.

Each worker has at most two parts. All answers come into one inbox: this process waits there, whatever the number of
workers. Three things can go wrong:

    a worker dies, or its machine    Ray starts it again, elsewhere if it must. Its parts come back at once and go to
                                     others: Ray's own retries would wait with the actor for a machine that has room
    a worker is silent               after some time its parts go to others; it may come back
    a part fails                     bad input ends the run, as no retry can cure it; so does a part whose workers die

The first result of a part counts. At the end, when no part is left to give, a free worker takes over a part of another
one. So a slow machine does not hold up the rest.
"""

import json
import queue
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from importlib.metadata import version
from typing import Any

from ray import cloudpickle
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from ..errors import InputError
from ..versions import DECIDING, versions
from .behind import Behind
from .executors import Advance, Finish, Say, Workers, opened
from .part import EncodedPart
from .ray_cluster import Patience
from .ray_files import Pieces, SentFile
from .ray_nodes import Nodes
from .ray_plan import WorkerPlan
from .ray_worker import IN_FLIGHT, THREADS, FilesMissing, NotOpenError, Opened, Order, Progress, Worker
from .stage import Choices, ModelOptions, Stage

_MOST_DEATHS = 4  # of the workers of one part, and of one worker before its first part
_RESUME = "finished parts are kept, run the same command again to resume"


class _State(Enum):
    OPENING = "opening"
    READY = "ready"
    AWAY = "away"  # it died or is silent; it is asked until it answers


@dataclass(eq=False)
class _Slot:
    """One worker: the actor, which may be another one after a death, and its parts."""

    plan: WorkerPlan
    actor: Any
    state: _State = _State.OPENING
    opened: Opened | None = None
    parts: set[int] = field(default_factory=set)
    heard: float = 0.0
    asked: bool = False
    deaths: int = 0  # since the last finished part

    @property
    def where(self) -> str:
        """Its machine, for messages."""
        return f" on node {self.opened.node}" if self.opened else ""


@contextmanager
def opened_pool(
    ray: Any,
    stage: Stage[Any, Any],
    options: ModelOptions,
    plans: Sequence[WorkerPlan],
    say: Say,
    *,
    copy_files: bool,
    patience: Patience,
) -> Iterator[Workers]:
    """Workers that have opened the stage's model; they end with the context.

    Args:
        ray: Ray, connected.
        stage: The stage.
        options: How models are opened; device and threads come from the plans.
        plans: One for each worker.
        say: Receives details, one line each.
        copy_files: Whether the machines read copies of the stage's files only.
        patience: How long to wait.

    Raises:
        InputError: A worker cannot open the model, or no worker gets room.
        RuntimeError: A worker failed; the message has its traceback.
    """
    files = {name: SentFile.at(place) for name, place in stage.files().items()}
    order = Order(stage, options, files, copy_files)
    pool = _Pool(ray, order, say, patience)
    try:
        pool.begin(plans)
        yield pool
    finally:
        pool.end()


class _Pool:
    """See `opened_pool`, and `Workers`."""

    def __init__(self, ray: Any, order: Order, say: Say, patience: Patience) -> None:
        self._ray, self._order, self._say, self._patience = ray, order, say, patience
        # cloudpickle takes a stage of a script or a notebook along with its code.
        self._order_ref = ray.put(cloudpickle.dumps(order))
        self._actor_class = ray.remote(concurrency_groups=THREADS)(Worker)
        self._pieces: dict[str, Pieces] = {}
        self._inbox: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._slots: list[_Slot] = []
        self._nodes = Nodes()
        self._descriptions: list[Mapping[str, Any]] | None = None
        self._next_question = self._next_message = 0.0
        self._heard = time.monotonic()
        self._call = 0  # which call of `run`; late answers to an earlier one do not count
        self._reset([], Choices(), _nothing, _nothing)

    def _reset(self, numbers: Iterable[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        self._call += 1
        self._waiting = deque(numbers)
        self._left = set(self._waiting)
        self._holders: dict[int, set[_Slot]] = {}  # in the order in which the parts were given
        self._told: dict[int, tuple[int, int]] = {}  # part → units and sentences that the meter knows of
        self._deaths: Counter[int] = Counter()
        self._choices, self._finish, self._advance = choices, finish, advance
        for slot in self._slots:
            slot.parts.clear()
            slot.heard = time.monotonic()

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        """See `Workers`; workers that are alike are one entry with their number, as there may be thousands."""
        if self._descriptions is None:
            here = versions(DECIDING)
            alike: dict[str, dict[str, Any]] = {}
            for slot in list(self._slots):  # a thread may ask
                if slot.opened is not None:
                    gpus = {"GPUs": slot.plan.gpus} if slot.plan.gpus else {}
                    other = {} if slot.opened.packages == here else {"packages": dict(slot.opened.packages)}
                    found = {**slot.opened.description, **gpus, **other}
                    entry = alike.setdefault(json.dumps(found, sort_keys=True), {**found, "workers": 0})
                    entry["workers"] += 1
            self._descriptions = list(alike.values())
        return self._descriptions

    def begin(self, plans: Sequence[WorkerPlan]) -> None:
        """Start the actors and wait until they have opened the model; those that take long join later."""
        for plan in plans:
            self._slots.append(slot := _Slot(plan, self._actor(plan)))
            self._open(slot)
        first: float | None = None
        while late := sum(slot.state is not _State.READY for slot in self._slots):
            self._listen()
            if first is None and late < len(self._slots):
                first = time.monotonic()
            if first is not None and time.monotonic() - first > self._patience.others:
                self._say(f"Ray: {late:,} of {len(self._slots):,} workers are not ready yet; they join later")
                break

    def end(self) -> None:
        """End the actors; what they still do is of no use any more."""
        for slot in self._slots:
            with suppress(Exception):  # the cluster itself may have gone
                self._ray.kill(slot.actor)
        self._slots.clear()
        self._pieces.clear()

    def choose(self, say: Say) -> Choices:
        """See `Workers`; in one worker, in another one if that dies."""
        found: list[tuple[Choices, list[str]]] = []
        asked: _Slot | None = None
        while not found:
            if asked is None or asked.state is not _State.READY:
                asked = next((slot for slot in self._slots if slot.state is _State.READY), None)
                if asked is not None:
                    self._expect(asked, "chosen", asked.actor.choose.remote())
            self._listen(found)
        choices, lines = found[0]
        for line in lines:
            say(line)
        return choices

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        """See `Workers`; parts are finished in a thread, so that an interrupt does not cut one off."""
        with Behind(finish) as behind:
            self._run(numbers, choices, behind.finish, advance)

    def _run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        self._reset(numbers, choices, finish, advance)
        for _ in range(IN_FLIGHT):  # one for each worker, then the second one
            for slot in self._slots:
                self._give(slot, 1)
        try:
            while self._left:
                self._listen()
        finally:
            self._reset([], Choices(), _nothing, _nothing)
        self._tell_nodes()

    def _listen(self, chosen: list[Any] | None = None) -> None:
        """Take one answer, or wait a moment for one; ask how far the workers are when it is time."""
        with suppress(queue.Empty):
            self._take(self._inbox.get(timeout=self._patience.progress), chosen)
        now = time.monotonic()
        if now >= self._next_question:
            # More rarely with very many workers, as each answer costs this process time.
            self._next_question = now + max(self._patience.progress, len(self._slots) / 200)
            self._ask(now)
        if now >= self._next_message and self._left:
            self._next_message = now + self._patience.nodes
            self._tell_nodes()
        if now - self._heard > self._patience.nobody:
            raise InputError(
                f"Ray: no worker has answered for {self._patience.nobody / 60:.0f} minutes (other jobs may hold the "
                f"cluster: see `ray status`); {_RESUME}"
            )

    def _take(self, answer: "_Answer", chosen: list[Any] | None) -> None:
        slot = answer.slot
        if slot.actor is not answer.actor:
            return  # the actor has been replaced
        if answer.kind == "progress":
            slot.asked = False
        try:
            value = answer.future.result()
        except RayTaskError as error:
            # An error that a method raised: bad input is the run's, any other one is a bug.
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            if isinstance(error.cause, NotOpenError):
                self._lost(answer, error)
                return
            raise RuntimeError(f"a Ray worker{slot.where}: {error}") from None
        except RayError as error:
            self._lost(answer, error)
            return
        slot.heard = self._heard = time.monotonic()
        if answer.kind == "part":
            if answer.call == self._call:
                self._finished(slot, answer.number, *value)
        elif answer.kind == "progress":
            self._told_progress(slot, value)
        elif answer.kind == "open":
            self._has_opened(slot, value)
        elif chosen is not None:
            chosen.append(value)

    def _has_opened(self, slot: _Slot, answer: Opened | FilesMissing) -> None:
        if isinstance(answer, FilesMissing):
            for name in answer.names:
                if name not in self._pieces:
                    file = self._order.files[name]
                    self._say(f"Ray: the {name} is sent to the nodes that do not hold {file.place}")
                    self._pieces[name] = file.in_store(self._ray.put)
            self._open(slot)
            return
        if slot.opened is None:
            self._say(f"Ray: node {answer.node}: {opened(_brief(answer.description))}")
        if slot.opened is None or slot.opened.node != answer.node:
            self._nodes.moved(slot.opened, answer)
        slot.opened, slot.state, self._descriptions = answer, _State.READY, None
        self._give(slot, IN_FLIGHT)

    def _finished(self, slot: _Slot, number: int, part: EncodedPart, units: int, sentences: int) -> None:
        slot.parts.discard(number)
        slot.deaths = 0
        is_first = number in self._left
        self._left.discard(number)
        self._holders.get(number, set()).discard(slot)
        self._give(slot, IN_FLIGHT)  # before the part is written, so that the worker does not wait
        if is_first:
            told = self._told.pop(number, (0, 0))
            self._advance(units - told[0], sentences - told[1])
            self._nodes.count(slot.opened, sentences)
            self._finish(number, part)

    def _told_progress(self, slot: _Slot, progress: Progress) -> None:
        if slot.state is _State.AWAY:
            if progress.is_open:
                slot.state = _State.READY
                self._give(slot, IN_FLIGHT)
            else:
                self._open(slot)
        for number, (units, sentences) in progress.parts.items():
            if number in self._left and number in slot.parts:
                told = self._told.get(number, (0, 0))
                if units > told[0]:  # not what a second holder of the part says that is behind
                    self._advance(units - told[0], max(0, sentences - told[1]))
                    self._told[number] = units, max(sentences, told[1])

    def _lost(self, answer: "_Answer", error: RayError | RayTaskError) -> None:
        """A worker died, or cannot be reached: its parts go back, and it is asked until it answers."""
        slot, number = answer.slot, answer.number
        if slot.state is _State.READY or answer.kind == "open":
            slot.state = _State.AWAY
            slot.deaths += 1
            self._say(f"Ray: a worker{slot.where} was lost ({_reason(error)})")
        if answer.kind == "part" and answer.call == self._call and number in slot.parts:
            self._deaths[number] += 1
            self._back(slot, number)
        ended = f"its process ended {_MOST_DEATHS} times ({_reason(error)}; is the memory full?)"
        if self._deaths[number] >= _MOST_DEATHS:
            raise InputError(f"Ray: part {number}: {ended}; {_RESUME}")
        if slot.deaths >= _MOST_DEATHS:
            self._give_up(slot, ended)
        elif isinstance(error, ActorDiedError):  # Ray does not start it again
            if slot.opened is None:
                raise InputError(f"Ray: a worker cannot start ({_reason(error)})")
            for own in sorted(slot.parts):
                self._back(slot, own)
            slot.actor, slot.asked = self._actor(slot.plan), False
            self._open(slot)

    def _give_up(self, slot: _Slot, why: str) -> None:
        """Go on without a worker that ends again and again, such as on a machine with too little memory.

        Raises:
            InputError: It was the last one.
        """
        self._slots.remove(slot)
        for number in sorted(slot.parts):
            self._back(slot, number)
        actor, slot.actor = slot.actor, None  # late answers of it do not count
        with suppress(Exception):
            self._ray.kill(actor)
        if not self._slots:
            raise InputError(f"Ray: every worker: {why}; {_RESUME}")
        self._say(f"Ray: a worker{slot.where}: {why}; the run goes on without it")

    def _back(self, slot: _Slot, number: int) -> None:
        """Take a part from a worker; another one gets it, unless one has it already."""
        slot.parts.discard(number)
        holders = self._holders.get(number, set())
        holders.discard(slot)
        if number in self._left and not holders:
            self._advance(-self._told.pop(number, (0, 0))[0], 0)
            self._waiting.appendleft(number)
            for other in self._slots:
                self._give(other, IN_FLIGHT)

    def _ask(self, now: float) -> None:
        """Ask every worker how far it is; a silent one loses its parts to others."""
        for slot in self._slots:
            silent = now - slot.heard
            if slot.state is _State.READY and slot.parts and silent > self._patience.silent:
                slot.state = _State.AWAY
                self._say(f"Ray: a worker{slot.where} has been silent for {silent:.0f} s; others take over its parts")
                for number in sorted(slot.parts):
                    self._back(slot, number)
            if not slot.asked:
                slot.asked = True
                asked = slot.actor.progress.remote()
                self._expect(slot, "progress", asked)

    def _give(self, slot: _Slot, most: int) -> None:
        """Give a worker parts, until it has `IN_FLIGHT` or got `most` of them."""
        for _ in range(most):
            if slot.state is not _State.READY or len(slot.parts) >= IN_FLIGHT:
                return
            number = self._next_part(slot)
            if number is None:
                return
            slot.parts.add(number)
            self._holders.setdefault(number, set()).add(slot)
            decided = slot.actor.decide.remote(number, self._choices)
            self._expect(slot, "part", decided, number)

    def _next_part(self, slot: _Slot) -> int | None:
        """The next part; if none waits, for a worker without any, the oldest one that a single other worker has."""
        while self._waiting:
            number = self._waiting.popleft()
            if number in self._left:
                return number
        if slot.parts:
            return None
        return next((own for own, slots in self._holders.items() if own in self._left and len(slots) == 1), None)

    def _open(self, slot: _Slot) -> None:
        slot.state = _State.OPENING
        self._expect(slot, "open", slot.actor.open.remote(self._order_ref, self._pieces))

    def _actor(self, plan: WorkerPlan) -> Any:
        # Ray starts a dead actor again, without end: the pool counts. It repeats no call: the pool gives a lost part to
        # a worker that lives.
        options = {"max_restarts": -1, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        resources = {"num_cpus": plan.cpus, "num_gpus": plan.gpus}
        paths = [path for path in sys.path if path]
        return self._actor_class.options(**resources, **options).remote(
            version("negengine"), paths, plan.threads, bool(plan.gpus)
        )

    def _expect(self, slot: _Slot, kind: str, reference: Any, number: int = -1) -> None:
        """Put the answer to a call into the inbox once it is there."""
        actor, call, inbox = slot.actor, self._call, self._inbox
        reference.future().add_done_callback(lambda future: inbox.put(_Answer(slot, actor, kind, call, number, future)))

    def _tell_nodes(self) -> None:
        for line in self._nodes.lines():
            self._say(line)


@dataclass(frozen=True, eq=False)
class _Answer:
    """An answer of an actor, or the error in its place."""

    slot: _Slot
    actor: Any
    kind: str
    call: int
    number: int
    future: Any


def _nothing(*_: Any) -> None:
    """Results of an earlier call go nowhere."""


def _brief(description: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in description.items() if not isinstance(value, Mapping)}


def _reason(error: BaseException) -> str:
    """Why Ray says that a worker was lost, in one clause."""
    text = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in text if line.startswith(("ModuleNotFoundError", "ImportError", "RuntimeError"))]
    return (found or text or [type(error).__name__])[0][:160].rstrip(".:")
