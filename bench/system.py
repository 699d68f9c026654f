"""What a system is: a program that does some work, is opened in a process of its own, and is timed there.

It is pickled before `open`. It gives its answers, so every measurement is also a check that all do the same work.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from numpy.typing import NDArray

from ..engine.basics.errors import InputError
from ..engine.basics.versions import requirement
from ..engine.inference.causal import open_language_model
from ..engine.inference.devices.cuda import Cuda
from ..engine.inference.exported import load_exported
from ..engine.inference.session import Device

LOOP, ROW, OURS = "PyTorch, loop", "PyTorch, mask row", "ours"
Answers = NDArray[Any]  # one row for each item, in the order of the work
Choice = Mapping[str, int]  # settings of which the fastest is taken, such as the size of a batch

_BATCHES, _BATCHES_ON_CUDA = (8, 32, 128), (32, 128, 512)


class Work(Protocol):
    """Sentences, or other items, that all systems are given; it is pickled."""

    def __len__(self) -> int: ...

    def head(self, n: int) -> Self:
        """The first n items."""


W = TypeVar("W", bound=Work)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Items(Generic[T]):
    """Items of one kind."""

    items: tuple[T, ...]

    def __len__(self) -> int:
        return len(self.items)

    def head(self, n: int) -> Self:
        return replace(self, items=self.items[:n])


class Unavailable(Exception):  # noqa: N818 - it is not an error
    """A system cannot run here. The message says why, in one line."""


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that is made where it is not complete. Raises InputError if it cannot be written."""
    if not (folder / "complete").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir(parents=True)
            make(folder)
            (folder / "complete").touch()
        except OSError as error:
            if error.errno is None:  # of a library, not of the disk
                raise
            raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    return folder


@dataclass(frozen=True)
class Place:
    """What is measured, and where."""

    checkpoint: str  # the folder or hub id that transformers loads
    exported: Path  # the folder of the same model, exported
    device: Device  # where systems run; those that do not know WebGPU run on the CPU beside it
    threads: int  # threads of each system; no system may use more cores
    cache: Path  # a folder for files that systems make once, such as other exports of the checkpoint

    @property
    def on_cuda(self) -> bool:
        return self.device.kind == Cuda.kind

    @property
    def torch_device(self) -> str:
        return f"cuda:{self.device.index}" if self.on_cuda else "cpu"

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """A folder of the cache that belongs to the exported model's bytes; see `once`."""
        digest = load_exported(self.exported).sha256[:16]
        return once(self.cache / "systems" / f"{self.exported.name}-{digest}-{name}", make)


class System(ABC, Generic[W]):
    """One program that is measured."""

    name: str  # no other system of a benchmark has it
    said: str  # what it does, in a line; the settings of a choice stand in braces
    arithmetic: str = "fp32"  # what its products are computed in: fp32, bf16, fp16, int8, or `mixed`
    ours: bool = False  # whether it is the engine
    # whether others are compared with it. Neither ours nor a reference can be missing: it is an error
    reference: bool = False
    fewer: int = 1  # it is given one of so many items, because it is slow
    needs: tuple[str, ...] = ()  # modules that it imports, beyond those of the exporter
    extra: str = "bench"  # which of our extras installs them
    batched: bool = False  # whether the usual sizes of batches are tried

    def about(self, choice: Choice) -> str:
        """What it does with some settings, in a line."""
        return self.said.format(**choice)

    def missing(self, place: Place) -> str | None:  # noqa: ARG002 - others look at it
        """Why it cannot run here, in a line; None if nothing is known against it. Asked before a process is started."""
        for name in self.needs:
            try:
                found = find_spec(name)
            except ModuleNotFoundError:  # the package around it
                found = None
            if found is None:
                return f"{name} is not installed: pip install {requirement(self.extra)}"
        return None

    def choices(self, place: Place) -> Sequence[Choice]:
        """The settings to try; the fastest on a few items is taken."""
        sizes = _BATCHES_ON_CUDA if place.on_cuda else _BATCHES
        return tuple({"batch": size} for size in sizes) if self.batched else ({},)

    def make(self, place: Place) -> None:
        """Make what it needs in `place.cache`, unless it is there. This runs in a process that ends afterwards."""

    @abstractmethod
    def open(self, place: Place) -> None:
        """Load the model. Raises Unavailable if it cannot run here."""

    def settle(self, work: W) -> None:
        """See the work before the clock starts: what a user does once before a long run, such as a calibration."""

    @abstractmethod
    def run(self, work: W, choice: Choice) -> Answers:
        """Do the work; this is timed. All is finished when it returns, on a CUDA device too."""

    def found(self) -> Mapping[str, Any]:
        """What else a report says about it, as JSON values; asked after the last round."""
        return {}


class Fp32(System[W]):
    """Our reference model, which is open before the clock starts; a subclass says what it does."""

    name, said = OURS, "batches of a fixed number of tokens on each core"
    ours = True

    def open(self, place: Place) -> None:
        self._exported = load_exported(place.exported)
        self._model = open_language_model(self._exported, place.device, threads=place.threads)
