"""A worker of a Ray cluster: an actor that opens a stage's model once and decides part after part.

Two parts run at the same time: one is decided, the other is prepared or encoded. A third thread answers how far they
are. An actor that Ray has started again has no model; the pool has it opened again before it gets a part.
"""

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray import cloudpickle

from ..errors import InputError
from ..inference import tally
from ..inference.device import CPU, Device
from ..inference.machine import machine
from ..versions import DECIDING, versions
from .executors import worker
from .part import EncodedPart
from .ray_files import Pieces, SentFile
from .stage import Choices, ModelOptions, Stage


@dataclass(frozen=True, eq=False)
class Order:
    """What a worker is to do.

    Attributes:
        stage: The stage.
        options: How its model is opened; device and threads included.
        files: The stage's files.
        copy_files: Whether to read copies only.
    """

    stage: Stage[Any, Any]
    options: ModelOptions
    files: Mapping[str, SentFile]
    copy_files: bool


@dataclass(frozen=True, eq=False)
class Opened:
    """A worker that is ready.

    Attributes:
        node: The address of its machine, for messages; it is not recorded.
        description: What the run's record says about it.
        packages: Package → version, of those that decide a number.
    """

    node: str
    description: Mapping[str, Any]
    packages: Mapping[str, str]


@dataclass(frozen=True)
class FilesMissing:
    """The machine of a worker does not hold these files of the stage."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """How far a worker is.

    Attributes:
        is_open: Whether it has a model.
        parts: Part → the work done, in the unit of the stage's sizes, and the number of sentences run.
    """

    is_open: bool
    parts: Mapping[int, tuple[int, int]]


Method = TypeVar("Method", bound=Callable[..., Any])

IN_FLIGHT = 2
"""Parts of a worker: one is decided, one is prepared."""
PARTS, PROGRESS = "parts", "progress"
THREADS = {PARTS: IN_FLIGHT, PROGRESS: 1}
"""Threads of a worker, for parts and for the question how far it is."""


def _in_threads(name: str) -> Callable[[Method], Method]:
    """Have a method run in the threads of this name."""
    decorate: Callable[[Method], Method] = ray.method(concurrency_group=name)
    return decorate


class NotOpenError(Exception):
    """The worker was started again and has no model yet."""


class Worker:
    """The actor; its methods run in other processes.

    Args:
        negengine: The version of the process that started the run.
        paths: Its `sys.path`: a stage may come from a script or from a test.
        threads: CPU threads.
        on_gpu: Whether it has a GPU.
    """

    def __init__(self, negengine: str, paths: Sequence[str], threads: int, on_gpu: bool) -> None:
        self._wanted, self._paths = negengine, paths
        self._threads, self._device = threads, Device("cuda") if on_gpu else CPU
        self._preparing, self._deciding = threading.Lock(), threading.Lock()
        self._stage: Stage[Any, Any] | None = None
        self._model: Any = None
        self._used: tuple[Choices, Any] | None = None
        self._done: dict[int, tuple[int, int]] = {}
        self._counting = threading.Lock()

    def open(self, order: bytes, pieces: Mapping[str, Pieces]) -> Opened | FilesMissing:
        """Open the model.

        Args:
            order: An `Order`, pickled; it is read after the versions were compared.
            pieces: File of the stage → its pieces in the object store; empty at first, as most clusters share a file
                system.

        Raises:
            InputError: Another version of negengine is installed here, or the model cannot be opened.
        """
        node = str(ray.util.get_node_ip_address())
        try:
            return self._open(node, order, pieces, ray.get)
        except InputError as error:
            raise InputError(f"node {node}: {error}") from None

    def _open(
        self, node: str, content: bytes, pieces: Mapping[str, Pieces], get: Callable[[Any], Any]
    ) -> Opened | FilesMissing:
        if (own := version("negengine")) != self._wanted:
            raise InputError(f"negengine {own} is installed there, {self._wanted} here; install the same version there")
        sys.path.extend(path for path in self._paths if path not in sys.path)
        order: Order = cloudpickle.loads(content)
        places: dict[str, Path] = {}
        for name, sent in order.files.items():
            if not order.copy_files and sent.is_at(sent.place):
                places[name] = sent.place
            elif name in pieces:
                places[name] = sent.copied(pieces[name], get)
        if missing := tuple(name for name in order.files if name not in places):
            return FilesMissing(missing)
        if self._stage is None:
            stage = order.stage.with_files(places)
            self._model = stage.open(replace(order.options, device=self._device, threads=self._threads))
            self._stage = stage
            tally.take()
        described = {**self._stage.describe(self._model), **worker(self._device, self._threads), "machine": machine()}
        return Opened(node, described, versions(DECIDING))

    def choose(self) -> tuple[Choices, list[str]]:
        """What `Stage.choose` finds, and the lines that it says."""
        stage = self._opened()
        said: list[str] = []
        with self._deciding:
            return stage.choose(self._model, said.append), said

    @_in_threads(PARTS)
    def decide(self, number: int, choices: Choices) -> tuple[EncodedPart, int, int]:
        """A part, the work done for it in the unit of the stage's sizes, and the number of sentences run.

        Raises:
            NotOpenError: Ray has started this worker again.
            InputError: As for `Stage.decide`.
        """
        stage = self._opened()

        def advance(units: int, sentences: int) -> None:
            with self._counting:
                done, ran = self._done.get(number, (0, 0))
                self._done[number] = done + units, ran + sentences

        try:
            with self._preparing:
                prepared = stage.prepare(number)
            with self._deciding:
                if self._used is None or self._used[0] != choices:
                    self._used = choices, stage.with_choices(self._model, choices)
                result = stage.decide(self._used[1], number, prepared, advance)
                counted = tally.take()
            return EncodedPart.of(result, counted), *self._done.get(number, (0, 0))
        finally:
            with self._counting:
                self._done.pop(number, None)

    @_in_threads(PROGRESS)
    def progress(self) -> Progress:
        """How far this worker is; it answers while parts are decided."""
        with self._counting:
            return Progress(self._stage is not None, dict(self._done))

    def _opened(self) -> Stage[Any, Any]:
        if self._stage is None:
            raise NotOpenError
        return self._stage
