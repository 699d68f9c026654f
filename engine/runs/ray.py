"""Ray: the parts of a stage are decided by long-lived actors on the machines of a Ray cluster.

Ray starts a dead actor again, also on another machine, and repeats its calls.
"""

import json
import logging
import math
import os
import re
import signal
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import platformdirs
from filelock import FileLock

from ..basics.atomic import make_folder, sha256, write_bytes
from ..basics.errors import InputError, StoppedError, check_number, first_line, needs_extra
from ..basics.limits import cpu_threads
from ..basics.option import Opening
from ..basics.printable import counted
from ..basics.reading import digests
from ..basics.versions import DECIDING, versions
from ..inference import tally
from ..inference.device import kinds
from ..inference.machine import machine
from .executors import Finish, PartWorker, Say, Workers, opened
from .record import differences
from .stage import Advance, Choices, Stage

_ADDRESS = re.compile(r"local|auto|(?:ray://)?(?P<host>[^\s/:]+|\[[0-9a-fA-F:]+\]):(?P<port>[1-9][0-9]{0,4})")
_IN_FLIGHT = 2  # parts of a worker: one is decided while the next one is prepared
_TRIES = 4  # of Ray, for a call whose worker dies
FOR_OTHERS = 10.0  # seconds in which other workers than the first may join before the first part
TO_BEGIN = 600.0  # seconds until a first worker has opened its model, or any gives a sign; then the run ends
Answer = tuple[Any, list[str]]  # What a worker has found, and what its models have said
Sent = Mapping[str, Mapping[str, Any]] | None  # Name of `Stage.files` → file → its content in Ray's object store


@dataclass(frozen=True)
class Ray:
    """Actors of a Ray cluster; of the one that this process is connected to already, whatever `address` says."""

    address: str = "local"  # `local`, `auto`, `HOST:PORT` or `ray://HOST:PORT`
    workers: int | None = None  # actors; by default one for each GPU, or for each machine of a cluster without GPUs
    cpus_per_worker: float | None = None  # also a fraction; as many threads run its model. By default all there are
    gpus_per_worker: float | None = None  # also a fraction; 0 for the CPU. By default 1 where there are GPUs
    device: str = "auto"  # a kind of device, or `auto`: CUDA where there are GPUs

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise InputError(f"--ray {self.address}: give local, auto, HOST:PORT or ray://HOST:PORT")
        check_number("--workers", self.workers, 1, 100_000)
        for option, value, least in (("cpus", self.cpus_per_worker, 0.01), ("gpus", self.gpus_per_worker, 0)):
            check_number(f"--{option}-per-worker", value, least, 1_024)
            if value is not None and value > 1 and value != int(value):
                raise InputError(f"--{option}-per-worker {value}: above 1, Ray takes whole numbers")
        if self.device not in {"auto", *kinds()}:
            raise InputError(f"--device {self.device}: with --ray give auto, {', '.join(kinds())}")
        if (self.device == "cpu" and self.gpus_per_worker) or (self.device == "cuda" and self.gpus_per_worker == 0):
            raise InputError(f"--device {self.device}: this contradicts --gpus-per-worker {self.gpus_per_worker:g}")

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> Iterator[Workers]:
        with connected(self.address) as ray:
            found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            plan = self.planned([(own.get("CPU", 0), own.get("GPU", 0)) for own in found], options.threads)
            say(f"Ray: {counted(len(found), 'node')}, {counted(plan[0], 'worker')}")
            pool = _Pool(ray, stage, say)
            try:
                kind = ("cuda" if plan[2] else "cpu") if self.device == "auto" else self.device
                pool.begin(replace(options, device=kind), *plan)
                yield pool
            finally:
                for actor in pool.actors:
                    with suppress(Exception):  # the cluster itself may have gone
                        ray.kill(actor)

    def planned(self, nodes: Sequence[tuple[float, float]], threads: int | None = None) -> tuple[int, float, float]:
        """How many workers, and the CPUs and GPUs of each, from those of each machine; InputError for too few."""
        cores, cards = (sum(own) for own in zip(*nodes, strict=True))
        has = f"{counted(len(nodes), 'node')} of Ray with {counted(int(cores), 'CPU')} and {counted(int(cards), 'GPU')}"
        gpus = float(self.device != "cpu" and cards > 0) if self.gpus_per_worker is None else self.gpus_per_worker
        if self.device == "cuda" and not gpus:
            raise InputError(f"--device cuda: {has}: use --device cpu")

        def room(cpus: float) -> int:
            return sum(int(min(own / cpus, cards / gpus if gpus else math.inf) + 1e-9) for own, cards in nodes)

        cpus = self.cpus_per_worker or threads
        usual = room(cpus or 1e-6) if cpus or gpus else sum(own >= 1 for own, _ in nodes)
        workers = self.workers or max(usual, 1)
        if cpus is None:  # the most whole ones with which all find room
            cpus = next((share for share in range(int(max(nodes)[0]), 1, -1) if room(share) >= workers), 1)
        if room(cpus) < workers:
            each = f"with {cpus:g} CPUs and {gpus:g} GPUs each; ask for less"
            raise InputError(f"--ray: {has}: room for {room(cpus)} of {counted(workers, 'worker')} {each}")
        return workers, float(cpus), gpus


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster until the context ends; raises InputError if it is not installed or not there."""
    # Reports to Ray's makers, and messages that Ray would print: it and its processes read this when they start.
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_SCHEDULER_EVENTS", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"):
        os.environ.setdefault(name, "0")
    with needs_extra("ray", f"--ray {address}"):
        import ray  # noqa: PLC0415 - an extra
    if ray.is_initialized():
        yield ray
        return
    try:  # Ray itself would wait for minutes
        if (place := _ADDRESS.fullmatch(address)) and place["port"]:
            socket.create_connection((place["host"].strip("[]"), int(place["port"])), timeout=5).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--ray {address}: nothing answers there ({reason}); run `ray start --head` there") from None
    # What Ray's processes report goes to Ray's log files: Ray would print it on stdout, into the results.
    logger, log = logging.getLogger("ray"), ray._private.worker  # noqa: SLF001 - there is no public switch
    level, stop = logger.level, signal.getsignal(signal.SIGTERM)
    here = {"num_cpus": cpu_threads(), "include_dashboard": False, "object_store_memory": 2**29}  # bytes, for parts
    logger.setLevel(logging.CRITICAL)
    try:
        try:
            ray.init(address, configure_logging=False, log_to_driver=False, **(here if address == "local" else {}))
        except Exception as error:  # noqa: BLE001 - Ray raises many kinds, some of gRPC
            also = "; a cluster with tokens wants RAY_AUTH_MODE=token, and its token in RAY_AUTH_TOKEN"
            raise InputError(f"--ray {address}: Ray cannot connect ({first_line(error)}){also}") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, stop)  # Ray takes it; a batch system's stop must interrupt the run as before
        log._worker_logs_enabled = False  # noqa: SLF001
        yield ray
    finally:
        ray.shutdown()
        logger.setLevel(level)
        log._worker_logs_enabled = True  # noqa: SLF001


class NotSeenError(Exception):
    """A machine does not see a stage's file or folder, or sees another one."""


def placed(get: Callable[[Any], Any], sent: Mapping[str, Any] | None, place: Path, wanted: Mapping[str, str]) -> Path:
    """Where this machine has the same file or folder, or a copy of what was sent; NotSeenError if nothing was sent."""
    with suppress(InputError):  # what this machine's user may not read is sent, too
        if wanted.items() <= digests(place).items():
            return place
    if sent is None:
        raise NotSeenError(place)
    own = sha256(json.dumps([place.name, wanted]).encode())[:32]
    copy = platformdirs.user_cache_path("negengine", appauthor=False) / "ray" / own / place.name
    make_folder(copy.parent)
    with FileLock(copy.parent / ".lock"):  # the workers of a machine wait for the first one
        for name in () if digests(copy) == wanted else wanted:
            make_folder((copy / name).parent)
            write_bytes(copy / name, get(sent[name]))
        if digests(copy) != wanted:
            raise InputError(f"{copy} arrived damaged (a sha256 is not that of the original): run again")
    return copy


def _installed() -> dict[str, str]:
    """Package → version, of those that all machines must have alike."""
    return {name.removesuffix("-gpu"): own for name, own in versions(("negengine", *DECIDING)).items()}


class Worker:
    """The actor, in another process: two threads, and one for signs. Started again by Ray, it opens its model again."""

    def __init__(self, order: list[Any]) -> None:  # a reference in a list: Ray itself would not keep it for restarts
        import ray  # noqa: PLC0415 - an extra

        self._order, self._ray, self._opening = order, ray, threading.Lock()
        self._opened: PartWorker[Any, Any] | None = None
        self._notes: list[str] = []  # what models said since the last answer; each answer takes them along
        tally.listen(self._notes.append)

    def open(self, sent: Sent) -> Answer:
        node = str(self._ray.util.get_node_ip_address())
        try:
            return self._answer((node, self._open(sent).description | {"machine": machine(), **self._more}))
        except InputError as error:
            raise InputError(f"node {node}: {error}") from None

    def choose(self, sent: Sent) -> Answer:
        said: list[str] = []
        return self._answer((self._open(sent).choose(said.append), said))

    def decide(self, sent: Sent, number: int, choices: Choices) -> Answer:
        return self._answer(self._open(sent).ask(number, choices).result())

    def _answer(self, found: Any) -> Answer:
        notes = [*self._notes]
        del self._notes[: len(notes)]
        return found, notes

    def _open(self, sent: Sent) -> PartWorker[Any, Any]:
        with self._opening:
            if self._opened is None:
                installed, paths, content = self._ray.get(self._order[0])
                if other := differences(_installed(), installed, "here"):
                    raise InputError(f"installed there: {other}; install the same versions there")
                sys.path.extend(path for path in paths if path not in sys.path)
                stage, files, options, self._more = self._ray.cloudpickle.loads(content)
                stage = stage.with_files({n: placed(self._ray.get, sent and sent[n], *own) for n, own in files.items()})
                self._opened = PartWorker(stage, options)
                tally.take()
            return self._opened


class _Pool:
    def __init__(self, ray: Any, stage: Stage[Any, Any], say: Say) -> None:
        self._ray, self._stage, self._say, self._sizes = ray, stage, say, stage.sizes
        self._files = {n: (own.absolute(), digests(own)) for n, own in stage.files().items()}
        self._sent: Sent = None  # once a machine does not see the files
        self.actors: list[Any] = []
        self._idle: deque[Any] = deque()  # the actors that can take a part, or two
        self._calls: dict[Any, tuple[Any, int | None]] = {}  # a call → its actor, and the part; None while it opens
        self._alike: Counter[str] = Counter()  # what is recorded of a worker, as JSON → how many are alike

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        return [{**json.loads(own), "workers": n} for own, n in self._alike.items()]

    def begin(self, options: Opening, workers: int, cpus: float, gpus: float) -> None:
        """Start the workers; wait for the first one, and some seconds for the others, which may join later."""
        ray, options = self._ray, replace(options, threads=max(1, int(cpus)))
        # cloudpickle takes a stage of a script or a notebook along with its code.
        content = ray.cloudpickle.dumps((self._stage, self._files, options, {"GPUs": gpus} if gpus else {}))
        self._order = ray.put((_installed(), [path for path in sys.path if path], content))
        settings = {"max_restarts": -1, "max_task_retries": _TRIES - 1, "max_concurrency": _IN_FLIGHT + 1}
        actors = ray.remote(**settings, num_cpus=cpus, num_gpus=gpus, scheduling_strategy="SPREAD")(Worker)
        self.actors = [actors.remote([self._order]) for _ in range(workers)]
        self._calls = {actor.open.remote(None): (actor, None) for actor in self.actors}
        if not ray.wait(calls := [*self._calls], timeout=TO_BEGIN)[0]:
            raise InputError(f"Ray: no worker has begun for {TO_BEGIN / 60:.0f} minutes; is it busy (`ray status`)?")
        for call in ray.wait(calls, num_returns=len(calls), timeout=FOR_OTHERS)[0]:
            self._join(self._calls.pop(call)[0], call)

    def choose(self, say: Say) -> Choices:
        _, (choices, said) = next(
            self._answers([0], lambda actor, _: actor.choose.remote(self._sent), "the calibration")
        )
        for line in said:
            say(line)
        return cast("Choices", choices)

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        parts = self._answers(numbers, lambda actor, n: actor.decide.remote(self._sent, n, choices), "part {}")
        for number, part in parts:
            advance(self._sizes[number], part.tally.sentences)
            finish(number, part)

    def _answers(self, numbers: Sequence[int], call: Callable[[Any, int], Any], what: str) -> Iterator[tuple[int, Any]]:
        """Each number with the first answer of a worker."""
        waiting, left = deque(numbers), len(numbers)
        while left:
            while waiting and self._idle:
                actor, number = self._idle.popleft(), waiting.popleft()
                self._calls[call(actor, number)] = actor, number
            one = self._next()
            actor, asked = self._calls.pop(one)
            if asked is None:
                self._join(actor, one)
                continue
            self._idle.append(actor)
            if (answer := self._answer(one, f"{what.format(asked)} of {self._stage.name}")) is None:
                waiting.append(asked)
            else:
                left -= 1
                yield asked, answer

    def _next(self) -> Any:
        """A call that is answered; StoppedError if no worker that has one gives a sign."""
        calls = [*self._calls]
        while not (answered := self._ray.wait(calls, timeout=TO_BEGIN)[0]):
            signs = [actor.__ray_ready__.remote() for actor, _ in self._calls.values()]
            if not self._ray.wait([*calls, *signs], timeout=TO_BEGIN)[0]:
                raise StoppedError(f"Ray: no worker has given a sign for {TO_BEGIN / 60:.0f} minutes")
        return answered[0]

    def _join(self, actor: Any, call: Any) -> None:
        """Go on with a worker that has opened the model, and without one that cannot if there are others."""
        try:
            answer = self._answer(call)
        except InputError as error:
            self.actors.remove(actor)
            if not self.actors:
                raise
            self._say(f"{error}; the run goes on without this worker")
            return
        if answer is None:
            self._calls[actor.open.remote(self._sent)] = actor, None
        else:
            node, described = answer
            self._say(f"Ray: {opened({**described, 'machine': node})}")
            self._alike[json.dumps(described, sort_keys=True)] += 1
            self._idle.extend([actor] * _IN_FLIGHT)

    def _answer(self, call: Any, doing: str = "") -> Any:
        """What a worker answers. None: it is to be asked again, with the files."""
        try:
            answer, notes = self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, NotSeenError):
                if self._sent is None:
                    self._say("Ray: the model is sent to the nodes that do not see it")
                    self._sent = {
                        name: {file: self._ray.put(np.fromfile(place / file, np.uint8)) for file in files}
                        for name, (place, files) in self._files.items()
                    }
                return None
            if isinstance(error.cause, InputError):
                raise error.cause from None
            raise RuntimeError(f"a Ray worker: {error}") from None
        except self._ray.exceptions.RayError as error:
            found = re.search(r"(?m)^\s*((ModuleNotFound|Import|Runtime)Error.*)$", str(error))
            reason = (found[1] if found else first_line(error))[:160].rstrip(".:") + "; is the memory full?"
            where = f"{doing}: " if doing else ""
            raise StoppedError(f"Ray: a worker's process ended {_TRIES} times ({where}{reason})") from None
        for note in notes:
            tally.say(note)
        return answer
