"""Actors of Ray that decide parts.

Each actor has two parts: one is decided while the next one is prepared. Ray starts a dead actor again, elsewhere if it
must, and repeats its calls. A part may be decided twice, as it gives the same bytes: workers that have nothing left to
do decide the parts of slow, silent and lost ones after a while, and the first result counts.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray
from filelock import FileLock
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

from ..basics.atomic import make_folder, sha256, write_atomically
from ..basics.errors import InputError
from ..basics.option import Opening
from ..basics.reading import file_sha256, is_file, is_folder
from ..basics.versions import DECIDING, versions
from ..inference import tally
from ..inference.device import CPU, Device
from ..inference.exported import VerifiedFiles
from ..inference.machine import machine
from .executors import Advance, Finish, Say, Workers, opened, worker
from .part import EncodedPart
from .ray import Patience, Resources
from .stage import Choices, Stage

_IN_FLIGHT = 2  # parts of a worker
_TRIES = 4  # of Ray, for a call whose worker dies
Pieces = Mapping[str, Sequence[Any]]  # file → references to its pieces in the object store
_RESUME = "finished parts are kept, run the same command again to resume"


class Worker:
    """The actor; its methods run in another process, in two threads. Started again by Ray, it opens its model again."""

    def __init__(self, order: bytes, plan: Resources, pieces: Mapping[str, Pieces] | None) -> None:
        self._order, self._plan, self._pieces = order, plan, pieces
        self._preparing, self._deciding = threading.Lock(), threading.Lock()
        self._opened: tuple[Stage[Any, Any], Any, dict[str, Any]] | None = None
        self._used: tuple[Choices, Any] | None = None

    def open(self) -> tuple[str, dict[str, Any], dict[str, str]] | None:
        """The machine's address, what is recorded of the worker, its deciding packages; None if files are missing."""
        node = str(ray.util.get_node_ip_address())
        try:
            described = self._open()[2]
        except FileNotFoundError:
            return None
        except InputError as error:
            raise InputError(f"node {node}: {error}") from None
        return node, described, dict(versions(DECIDING))

    def choose(self) -> tuple[int, Choices, list[str]]:
        """What `Stage.calibrate` finds, and the lines that it says; as if it were part 0."""
        stage, model, _ = self._open()
        said: list[str] = []
        with self._deciding:
            return 0, Choices(stage.calibrate(model, said.append)), said

    def decide(self, number: int, choices: Choices) -> tuple[int, EncodedPart, list[tuple[int, int]]]:
        """A part with its number, and what was told of its progress."""
        stage, model, _ = self._open()
        told: list[tuple[int, int]] = []
        with self._preparing:
            prepared = stage.prepare(number)
        with self._deciding:
            if self._used is None or self._used[0] != choices:
                self._used = choices, stage.use(model, choices.calibration)
            result = stage.decide(self._used[1], number, prepared, lambda *done: told.append(done))
            return number, EncodedPart.of(result, tally.take()), told

    def _open(self) -> tuple[Stage[Any, Any], Any, dict[str, Any]]:
        """Stage, model and description; raises FileNotFoundError where the machine does not see the stage's files."""
        with self._deciding:
            if self._opened is None:
                wanted, paths, content = cloudpickle.loads(self._order)
                if (own := version("negengine")) != wanted:
                    told = f"negengine {own} is installed there, {wanted} here; install the same version there"
                    raise InputError(told)
                sys.path.extend(path for path in paths if path not in sys.path)
                stage, options, files = cloudpickle.loads(content)
                found = {name: file.found(self._pieces and self._pieces[name], ray.get) for name, file in files.items()}
                device, threads = Device("cuda") if self._plan.gpus else CPU, self._plan.threads
                stage = stage.with_files(found)
                model = stage.open(replace(options, device=str(device), threads=threads))
                described = {**stage.describe(model), **worker(device, threads), "machine": machine()}
                self._opened = stage, model, described
                tally.take()
            return self._opened


@dataclass(frozen=True)
class SentFile:
    """A file or folder of a stage on its way to machines that do not see it.

    It travels through Ray's object store, in pieces, once for each machine, which keeps it in a folder that is named by
    its digests: a later run of the same model finds it. Every digest is compared on the machine that reads the file.
    """

    folder: Path  # where it is on the machine that started the run: the folder, or that of the one file; absolute
    file: str | None  # the one file; None for a folder
    digests: Mapping[str, str]  # File → SHA-256

    @classmethod
    def at(cls, place: Path) -> "SentFile":
        """What is at a place; hidden files of a folder do not count. Raises InputError if a file cannot be read."""
        place = place.absolute()
        if not is_folder(place):
            return cls(place.parent, place.name, {place.name: file_sha256(place)})
        names = [path.relative_to(place) for path in sorted(place.rglob("*")) if path.is_file()]
        shown = [path.as_posix() for path in names if not any(part.startswith(".") for part in path.parts)]
        known = VerifiedFiles(place)
        digests = {name: known.sha256(name) for name in shown}
        known.save()
        return cls(place, None, digests)

    def is_in(self, folder: Path) -> bool:
        if not all(is_file(folder / name) for name in self.digests):
            return False
        known = VerifiedFiles(folder)
        try:
            same = all(known.sha256(name) == digest for name, digest in self.digests.items())
        except InputError:
            return False
        if self.file is None:
            known.save()
        return same

    def pieces(self, put: Callable[[Any], Any], size: int = 64 * 2**20) -> Pieces:
        """File → references to its pieces of so many bytes, put into the object store with `ray.put`."""
        found: dict[str, list[Any]] = {}
        for name in self.digests:
            with (self.folder / name).open("rb") as stream:
                found[name] = [put(piece) for piece in iter(lambda: stream.read(size), b"")]
        return found

    def found(self, pieces: Mapping[str, Sequence[Any]] | None, get: Callable[[Any], Any]) -> Path:
        """Where this machine has it; if there are pieces, a copy, which is made of them unless it is there.

        Raises FileNotFoundError if it is not here and there are no pieces, and InputError if it cannot be written, or
        arrived damaged.
        """
        folder = self.folder
        if pieces is None and not self.is_in(folder):
            raise FileNotFoundError(folder)
        if pieces is not None:
            own = json.dumps([self.folder.name, *sorted(self.digests.items())])
            copies = copies_folder()
            folder = copies / sha256(own.encode())[:32] / self.folder.name
            with FileLock(copies / f"{folder.parent.name}.lock"):  # the workers of a machine wait for the first one
                for name in () if self.is_in(folder) else self.digests:
                    make_folder((folder / name).parent)
                    write_atomically(folder / name, partial(_write, pieces[name], get))
                if not self.is_in(folder):
                    shutil.rmtree(folder.parent)
                    raise InputError(
                        f"{self.folder.name} arrived damaged (a sha256 is not that of the original): run again"
                    )
        return folder / self.file if self.file else folder


def copies_folder() -> Path:
    """Where this machine keeps this user's copies; raises InputError if the folder is somebody else's."""
    own = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"negengine-{own}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from None
    if hasattr(os, "getuid") and folder.lstat().st_uid != own:
        raise InputError(f"{folder}: belongs to another user; set TMPDIR to a folder of your own")
    return folder


def _write(pieces: Sequence[Any], get: Callable[[Any], Any], path: Path) -> None:
    with path.open("wb") as stream:
        for piece in pieces:
            stream.write(get(piece))


@contextmanager
def opened_pool(
    stage: Stage[Any, Any],
    options: Opening,
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
    content = cloudpickle.dumps((stage, options, files))
    order = ray.put(cloudpickle.dumps((version("negengine"), [path for path in sys.path if path], content)))
    pool = _Pool(order, files, say, patience)
    try:
        if copy_files and files:
            pool.send_files()
        for plan in plans:
            pool.start(plan)
        pool.begin()
        yield pool
    finally:
        pool.end()


class _Pool:
    """The `Workers` of a cluster."""

    def __init__(self, order: Any, files: Mapping[str, SentFile], say: Say, patience: Patience) -> None:
        self._order, self._files, self._say, self._patience = order, files, say, patience
        self._pieces: dict[str, Pieces] | None = None
        self._opening: dict[Any, tuple[Any, Resources]] = {}  # a call of `Worker.open` → the actor
        self._ready: list[Any] = []
        self._described: dict[str, dict[str, Any]] = {}

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        """Workers that are alike are one entry with their number, as there may be thousands."""
        return list(self._described.values())

    def start(self, plan: Resources) -> None:
        settings = {"max_restarts": -1, "max_task_retries": _TRIES - 1, "max_concurrency": _IN_FLIGHT}
        resources = {"num_cpus": plan.cpus, "num_gpus": plan.gpus, "scheduling_strategy": "SPREAD"}
        actor = ray.remote(**settings, **resources)(Worker).remote(self._order, plan, self._pieces)
        self._opening[actor.open.remote()] = actor, plan

    def begin(self) -> None:
        """Wait until the workers have opened the model; those that take long join later."""
        until = time.monotonic() + self._patience.nobody
        while self._opening and (left := until - time.monotonic()) > 0:
            self._join(left)
            if self._ready:  # a first one
                until = min(until, time.monotonic() + self._patience.others)
        if not self._ready:
            raise _silence(self._patience.nobody)
        if late := len(self._opening):
            self._say(f"Ray: {late:,} of {late + len(self._ready):,} workers are not ready yet; they join later")

    def end(self) -> None:
        for actor in (*self._ready, *(actor for actor, _ in self._opening.values())):
            with suppress(Exception):  # the cluster itself may have gone
                ray.kill(actor)

    def choose(self, say: Say) -> Choices:
        _, choices, said = next(self._answers([0], lambda actor, _: actor.choose.remote()))
        for line in said:
            say(line)
        found: Choices = choices
        return found

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        for number, part, told in self._answers(numbers, lambda actor, number: actor.decide.remote(number, choices)):
            for done in told:
                advance(*done)
            finish(number, part)

    def _answers(self, numbers: Sequence[int], call: Callable[[Any, int], Any]) -> Iterator[Any]:
        """One answer for each number, which it begins with."""
        waiting, left, heard = deque(numbers), set(numbers), time.monotonic()
        idle, running = deque(self._ready * _IN_FLIGHT), {}
        while left:
            idle.extend(self._join(0) * _IN_FLIGHT)
            while waiting and idle:
                actor = idle.popleft()
                running[call(actor, waiting.popleft())] = actor
            for reference in ray.wait([*running], timeout=self._patience.others)[0]:
                idle.append(running.pop(reference))
                try:
                    answer = ray.get(reference)
                except RayError as error:
                    raise _failed(error, "a worker") from None
                heard = time.monotonic()
                if answer[0] in left:
                    left.remove(answer[0])
                    yield answer
            if time.monotonic() - heard > self._patience.silent:
                raise _silence(self._patience.silent)
            if time.monotonic() - heard > self._patience.others:
                waiting = waiting or deque(sorted(left))

    def _join(self, seconds: float) -> list[Any]:
        """The actors that have opened the model within so many seconds. Those that cannot are left out."""
        joined = []
        for call in ray.wait([*self._opening], timeout=seconds)[0] if self._opening else ():
            actor, plan = self._opening.pop(call)
            try:
                answer = ray.get(call)
            except RayError as error:
                if isinstance(error, RayTaskError) or not (self._ready or self._opening):
                    raise _failed(error, "every worker") from None
                self._say(f"Ray: a worker: {_ended(error)}; the run goes on without it")
                ray.kill(actor)
                continue
            if answer is None:
                ray.kill(actor)
                self.send_files()
                self.start(plan)
            else:
                self._describe(plan, *answer)
                joined.append(actor)
        self._ready += joined
        return joined

    def send_files(self) -> None:
        if self._pieces is None:
            self._say("Ray: the model is sent to the nodes that do not see it")
            self._pieces = {name: file.pieces(ray.put) for name, file in self._files.items()}

    def _describe(self, plan: Resources, node: str, described: Mapping[str, Any], packages: dict[str, str]) -> None:
        shown = {key: value for key, value in described.items() if not isinstance(value, Mapping)}
        self._say(f"Ray: node {node}: {opened(shown)}")
        gpus = {"GPUs": plan.gpus} if plan.gpus else {}
        found = {**described, **gpus, **({} if packages == versions(DECIDING) else {"packages": packages})}
        self._described.setdefault(json.dumps(found, sort_keys=True), {**found, "workers": 0})["workers"] += 1


def _silence(seconds: float) -> InputError:
    return InputError(
        f"Ray: no worker has answered for {seconds / 60:.0f} minutes (other jobs may hold the cluster: see `ray "
        f"status`); {_RESUME}"
    )


def _failed(error: RayError, who: str) -> Exception:
    """Bad input is the run's; any other error of a method is a bug; else Ray has tried in vain."""
    if isinstance(error, RayTaskError):
        if isinstance(error.cause, InputError):
            return InputError(str(error.cause))
        return RuntimeError(f"a Ray worker: {error}")
    return InputError(f"Ray: {who}: {_ended(error)}; {_RESUME}")


def _ended(error: RayError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError", "RuntimeError"))]
    reason = (found or lines or [type(error).__name__])[0][:160].rstrip(".:")
    return f"its process ended {_TRIES} times ({reason}; is the memory full?)"
