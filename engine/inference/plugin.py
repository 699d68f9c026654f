"""Devices that a plugin of ONNX Runtime reaches: what is installed, which devices it lists, and which of them compute.

A plugin is a Python package with `get_library_path()` and `get_ep_name()`. Some list devices that have no driver, and
open graphs in fp16 on devices without fp16. So a small graph is run first. The numbers of such a device are rounded
otherwise than a CPU's, so the reference model runs on the CPU.
"""

import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnxruntime as ort

from ..basics.errors import InputError, first_line
from .batches import Runner
from .devices.cpu import CPU
from .exported import FP16, FP32_ON_DEVICE, REFERENCE, ExportedModel, graph_precision
from .gpu import Filled
from .session import Device, open_session, refuse_cpu_nodes

# y = x + x with one number each, as ONNX; the types of x and y are at the two places of %c
_ADDITION = (
    b'\x08\x08:5\n\x0e\n\x01x\n\x01x\x12\x01y"\x03Add\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08%c\x12\x04\n\x02\x08\x01'
    b"b\x0f\n\x01y\x12\n\n\x08\x08%c\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
_TYPES = {np.float32: 1, np.float16: 10}  # NumPy's → ONNX's


class PluginDevice(Device):
    """A device of a plugin. A subclass names the plugin, and what is special to it."""

    package: ClassVar[str]  # the plugin's Python package
    label: ClassVar[str]  # what messages call it
    extra: ClassVar[str]  # what installs it: the argument of `pip install`
    batch_tokens: ClassVar[int] = 4096
    rows: ClassVar[int] = 512
    may_stay_on_cpu: ClassVar[Set[str]] = frozenset()  # operators beside arithmetic with shapes
    no_driver: ClassVar[str] = r"(?!)"  # what the plugin says where a listed device has no driver
    driver_advice: ClassVar[str] = "install the newest driver of the device"

    @classmethod
    def missing(cls) -> str | None:
        found = _adapter(cls, 0)
        return found if isinstance(found, str) else None

    @classmethod
    def count(cls) -> int:
        return len(cls.listed())

    @classmethod
    def listed(cls) -> Sequence[Any]:
        """The devices that the plugin lists, as ONNX Runtime describes them; a subclass may leave some out."""
        return _listed(cls.package)

    @classmethod
    def settings(cls, index: int) -> Mapping[str, str]:  # noqa: ARG003 - others look at it
        """The plugin's options for a session on a device."""
        return {}

    @property
    def adapter(self) -> "Adapter":
        found = _adapter(type(self), self.index)
        if isinstance(found, str):
            raise InputError(f"--device {self}: {found}")
        return found

    @property
    def is_software(self) -> bool:
        return self.adapter.is_software

    def hardware(self) -> dict[str, Any]:
        return {"hardware": self.adapter.name, "numbers": "fp32 and fp16" if self.adapter.has_fp16 else "fp32 alone"}

    @property
    def reference(self) -> Device:
        return CPU

    def low_precision(self, exported: ExportedModel) -> Path | None:
        return (exported.held(FP16) if self.adapter.has_fp16 else None) or exported.graph

    def precision(self, graph: Path) -> str:
        own = graph_precision(graph)
        return FP32_ON_DEVICE if own == REFERENCE else own

    def session(self, graph: Path, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
        if graph_precision(graph) != REFERENCE and not self.adapter.has_fp16:
            raise InputError(f"{graph}: {self} ({self.adapter.name}) does not compute in fp16: use the graph in fp32")
        session = open_session(graph, self._options(self.index, options))
        refuse_cpu_nodes(session, graph, self.label, self.may_stay_on_cpu)
        return session

    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:  # noqa: ARG002
        return Filled(self.session(graph), self, batch_tokens, 1)  # one queue: more threads would wait for it

    @classmethod
    def _options(cls, index: int, options: ort.SessionOptions | None = None, **settings: int) -> ort.SessionOptions:
        options, devices = options or ort.SessionOptions(), cls.listed()
        chosen = devices[min(index, len(devices) - 1)]
        options.add_provider_for_devices([chosen], dict(cls.settings(index, **settings)))
        return options


@dataclass(frozen=True)
class Adapter:
    """A device that computes."""

    name: str
    is_software: bool
    has_fp16: bool


@cache
def _adapter(kind: type[PluginDevice], index: int) -> Adapter | str:
    """A device that computes; else what is missing, in one clause."""
    if find_spec(kind.package) is None:
        return f"the plugin for {kind.label} is not installed: pip install {kind.extra}"
    if not hasattr(ort.InferenceSession, "get_provider_graph_assignment_info"):
        return f"ONNX Runtime {ort.__version__} does not tell where operators run: install 1.31 or newer"
    with _quiet():
        try:
            device = next(iter(kind.listed()[index:]), None)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no base class
            return f"ONNX Runtime does not load the plugin for {kind.label} ({first_line(error)}): install both anew"
        if device is None:
            return f"no device for {kind.label} on this machine: use --device cpu"
        try:
            _add(kind, index, np.float32)
        except Exception as error:  # noqa: BLE001
            said = re.search(kind.no_driver, str(error))
            told = said[0] if said else first_line(error)
            return f"no driver that {kind.label} can use ({told}): {kind.driver_advice}, or use --device cpu"
        has_fp16 = False
        with suppress(Exception):
            _add(kind, index, np.float16)
            has_fp16 = True
    is_software = device.device.type == ort.OrtHardwareDeviceType.CPU
    name = device.device.metadata.get("Description") or f"GPU of {device.device.vendor or 'an unknown maker'}"
    return Adapter("software" if is_software else name, is_software, has_fp16)


def _add(kind: type[PluginDevice], index: int, numbers: type[np.floating[Any]]) -> None:
    """Run an addition on the device, in numbers of this type; raises an exception of ONNX Runtime where it cannot."""
    options = kind._options(index)  # noqa: SLF001 - of this file
    options.log_severity_level = 4
    graph = _ADDITION % (_TYPES[numbers], _TYPES[numbers])
    session = ort.InferenceSession(graph, options, enable_fallback=0)
    session.disable_fallback()
    session.run(None, {"x": np.ones(1, numbers)})


@cache
def _listed(package: str) -> list[Any]:
    """What a plugin lists, once it is registered."""
    plugin = importlib.import_module(package)
    ort.register_execution_provider_library(package, plugin.get_library_path())
    return [own for own in ort.get_ep_devices() if own.ep_name == plugin.get_ep_name()]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the plugin's own output from stderr: without a driver it writes many lines, and the message tells one."""
    try:
        before = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)
