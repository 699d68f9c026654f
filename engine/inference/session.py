"""A device as the engine sees it, and ONNX Runtime sessions that run wholly on it, without falling back to the CPU."""

import ctypes
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import onnxruntime as ort

from ..basics.errors import InputError, first_line
from .batches import Runner
from .exported import ExportedModel, graph_precision

# What may stay on the CPU in a session on a GPU: counting with a few numbers. The option of ONNX Runtime that forbids
# the CPU altogether forbids most of these as well.
_SHAPE_ARITHMETIC = {"Add", "Sub", "Mul", "Div", "Sqrt", "Max", "Min", "Equal", "Not", "Where", "Cast", "Range"}
_SHAPE_ARITHMETIC |= {"Shape", "ConstantOfShape", "Gather", "Slice", "Squeeze", "Unsqueeze", "Concat", "Reshape"}


@dataclass(frozen=True)
class Device(ABC):
    """One device of its kind, by its index."""

    index: int = 0

    kind: ClassVar[str]
    batch_tokens: ClassVar[int]  # usual number of tokens in a batch
    fewest_tokens: ClassVar[int] = 128  # in a batch, where few sentences are divided among cores
    rows: ClassVar[int]  # of a causal model's vocabulary projection, at a time
    together: ClassVar[int] = 1  # how many batches callers make at once
    at_once: ClassVar[int] = 4096  # sentences of a task, whose close calls the reference model decides together
    few_sizes: ClassVar[bool] = True  # whether each new size of a batch costs time, as shaders are compiled for it
    is_single: ClassVar[bool] = False  # whether there is one alone, which has no index in its name
    preference: ClassVar[int | None] = None  # its place among the kinds that `auto` tries; None: only where it is named
    low_graph: ClassVar[str | None] = None  # the file of the low-precision graph that is made for it

    def __str__(self) -> str:
        return self.kind if self.is_single else f"{self.kind}:{self.index}"

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """What is missing for devices of this kind, and what to do about it, in one clause; None if nothing is."""

    @classmethod
    @abstractmethod
    def count(cls) -> int:
        """The number of devices of this kind that this process may use."""

    @property
    def uses_cores(self) -> bool:
        """Whether its threads compute: such devices share the cores."""
        return False

    @property
    def beside(self) -> "Device | None":
        """Another device whose low-precision model may decide instead, where that is faster."""
        return None

    @property
    def is_software(self) -> bool:
        """Whether it only computes as a GPU would: such a device is used only where it is named."""
        return False

    @abstractmethod
    def hardware(self) -> dict[str, Any]:
        """What it is, for the run's record: `hardware` is its name; what is not known is missing."""

    @abstractmethod
    def session(self, graph: Path, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
        """Open a session that runs on this device only; InputError if the graph does not load, or not wholly here."""

    @abstractmethod
    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:
        """Open a graph for batches, of which so many run at the same time; errors as for `session`."""

    def graph(self, exported: ExportedModel) -> Path:
        return exported.graph

    @property
    def reference(self) -> "Device":
        """Where the reference model runs, which makes the decisions that are not certain here."""
        return self

    @property
    def is_reference(self) -> bool:  # whether its fp32 is that of the reference model
        return self.reference == self

    def low_precision(self, exported: ExportedModel) -> Path | None:
        """The graph of the low-precision model, if the export holds one for this device."""
        return exported.held(self.low_graph) if self.low_graph else None

    def precision(self, graph: Path) -> str:
        """What the column `precision` says about numbers of this graph, one of `PRECISIONS`."""
        return graph_precision(graph)

    def low_precision_speed(self) -> float:
        """How many times as fast the low-precision model is as the reference, as `auto` expects it."""
        return 2.0  # fp16 has half the bytes


_MAPPED_FROM = -3  # M_MMAP_THRESHOLD of glibc's malloc.h


def open_session(graph: Path, options: ort.SessionOptions, **given: Any) -> ort.InferenceSession:
    """A session that does not fall back; a graph that does not load is an `InputError`."""
    options.log_severity_level = 4  # its errors are raised too; it would write them with colours of its own
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        session = ort.InferenceSession(str(graph), options, enable_fallback=0, **given)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no base class
        raise InputError(f"{graph}: ONNX Runtime cannot open it: {first_line(error)}") from None
    session.disable_fallback()
    return session


def refuse_cpu_nodes(session: ort.InferenceSession, graph: Path, name: str, may: Set[str] = frozenset()) -> None:
    """Refuse a session on a GPU that leaves more to the CPU than arithmetic with shapes and the operators `may`."""
    if refused := set(placed(session).get("CPUExecutionProvider", {})) - _SHAPE_ARITHMETIC - may:
        raise InputError(f"{graph}: {name} cannot run {', '.join(sorted(refused))} of this model: use --device cpu")


def placed(session: ort.InferenceSession) -> dict[str, Counter[str]]:
    """Provider → how many nodes of each operator it runs, of the session of a `Device`."""
    found: dict[str, Counter[str]] = {}
    for group in session.get_provider_graph_assignment_info():
        found.setdefault(group.ep_name, Counter()).update(node.op_type for node in group.get_nodes())
    return found


def map_weights_apart() -> None:
    """Let the C library, if it is glibc, give back a weight as soon as it is freed: each megabyte has its own mapping.

    While the convolutions of a graph are opened, their weights are copied twice; else all copies stay to the end.
    """
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).mallopt(_MAPPED_FROM, 2**20)


def give_back_freed_memory() -> None:
    """Ask the C library for the memory that was freed, if it is glibc: of weights, which an opened graph has packed."""
    with suppress(OSError, TypeError, AttributeError):  # Windows has no library of the process itself
        ctypes.CDLL(None).malloc_trim(0)
