"""WebGPU devices: the GPU of most laptops, through Metal, D3D12 or Vulkan, by a plugin of ONNX Runtime.

The plugin lists some GPUs that have no driver, and opens graphs in fp16 on GPUs without fp16. So a small graph is run
first. Shaders round differently from CPUs, so the reference model runs on the CPU. For tests, the variable
ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1 allows a Vulkan driver that needs no GPU.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnxruntime as ort

from ..basics.errors import InputError, first_line
from . import tally
from .batches import Array, Feeds, Runner
from .cpu import CPU
from .exported import ON_WEBGPU, REFERENCE, ExportedModel, graph_precision
from .gpu import Filled
from .session import Device, open_session, refuse_cpu_nodes

_CHOOSES_FROM = (0, 5)  # the first version of the plugin that takes the number of a GPU: before, it chose one
# y = x + x with one number each, as ONNX; the types of x and y are at the two places of %c
_ADDITION = (
    b'\x08\x08:5\n\x0e\n\x01x\n\x01x\x12\x01y"\x03Add\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08%c\x12\x04\n\x02\x08\x01'
    b"b\x0f\n\x01y\x12\n\n\x08\x08%c\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
# The plugin has kernels of these for floating-point numbers. What it leaves to the CPU has 64-bit integers or truth
# values, in which relative positions and masks are counted.
_OF_INTEGERS = {"Abs", "Clip", "Expand", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Neg"}
_OF_INTEGERS |= {"ReduceSum", "Sign", "Transpose", "And", "Or"}
_TYPES = {np.float32: 1, np.float16: 10}  # NumPy's → ONNX's


class WebGpu(Device):
    """A GPU that the plugin of ONNX Runtime reaches."""

    kind: ClassVar[str] = "webgpu"
    batch_tokens: ClassVar[int] = 4096  # a laptop's GPU shares the memory of the processor
    rows: ClassVar[int] = 512

    @classmethod
    def missing(cls) -> str | None:
        found = _adapter(0)
        return found if isinstance(found, str) else None

    @classmethod
    def count(cls) -> int:
        numbers = re.findall(r"[0-9]+", _devices()[0].ep_metadata.get("version", "0.0"))
        return len(_devices()) if tuple(map(int, numbers[:2])) >= _CHOOSES_FROM else 1

    @property
    def is_software(self) -> bool:
        return self._adapter.is_software

    def hardware(self) -> dict[str, Any]:
        return {"hardware": self._adapter.name, "numbers": "fp32 and fp16" if self._adapter.has_fp16 else "fp32 alone"}

    @property
    def reference(self) -> Device:
        return CPU

    def low_precision(self, exported: ExportedModel) -> Path | None:
        if self._adapter.has_fp16 and (half := exported.low_precision("cuda")):
            return half
        return exported.graph

    def precision(self, graph: Path) -> str:
        own = graph_precision(graph)
        return ON_WEBGPU if own == REFERENCE else own

    def session(self, graph: Path) -> ort.InferenceSession:
        if graph_precision(graph) != REFERENCE and not self._adapter.has_fp16:
            raise InputError(f"{graph}: {self} ({self._adapter.name}) does not compute in fp16: use the graph in fp32")
        session = open_session(graph, _options(self.index))
        refuse_cpu_nodes(session, graph, "WebGPU", _OF_INTEGERS)
        return session

    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:  # noqa: ARG002
        return _Shaders(self.session(graph), self, batch_tokens, 1)  # one queue: more threads would wait for it

    @property
    def _adapter(self) -> "_Adapter":
        found = _adapter(self.index)
        if isinstance(found, str):
            raise InputError(f"--device {self}: {found}")
        return found


class _Shaders(Filled):
    """A session whose first batch compiles shaders."""

    _is_compiled = False

    def _filled(self, outputs: Any, feeds: Feeds, full: int) -> list[Array]:
        if not self._is_compiled:
            tally.say(f"{self._device}: compiling shaders, which can take a minute; later batches are faster")
            self._is_compiled = True
        return super()._filled(outputs, feeds, full)


@dataclass(frozen=True)
class _Adapter:
    name: str
    is_software: bool
    has_fp16: bool


@cache
def _adapter(index: int) -> _Adapter | str:
    """A GPU that computes; else what is missing, in one clause."""
    if find_spec("onnxruntime_ep_webgpu") is None:
        return "the plugin for WebGPU is not installed: pip install 'negengine[webgpu]'"
    if not hasattr(ort.InferenceSession, "get_provider_graph_assignment_info"):
        return f"ONNX Runtime {ort.__version__} does not tell where operators run: install 1.31 or newer"
    with _quiet():
        try:
            device = next(iter(_devices()), None)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no base class
            return f"ONNX Runtime does not load the plugin for WebGPU ({first_line(error)}): install both anew"
        if device is None:
            return "no GPU on this machine: use --device cpu"
        try:
            _add(index, np.float32)
        except Exception as error:  # noqa: BLE001
            said = re.search(r"Failed to get a WebGPU (?:adapter|device)[^\n]*", str(error))
            return (
                f"no driver that WebGPU can use ({said[0] if said else first_line(error)}): install the newest driver "
                "of the GPU (on Linux for Vulkan), or use --device cpu"
            )
        has_fp16 = False
        with suppress(Exception):
            _add(index, np.float16)
            has_fp16 = True
    is_software = device.device.type == ort.OrtHardwareDeviceType.CPU
    name = device.device.metadata.get("Description") or f"GPU of {device.device.vendor or 'an unknown maker'}"
    return _Adapter("software" if is_software else name, is_software, has_fp16)


def _add(index: int, kind: type[np.floating[Any]]) -> None:
    """Run an addition on the device, in numbers of this type; raises an exception of ONNX Runtime where it cannot."""
    options = _options(index)
    options.log_severity_level = 4
    graph = _ADDITION % (_TYPES[kind], _TYPES[kind])
    session = ort.InferenceSession(graph, options, enable_fallback=0)
    session.disable_fallback()
    session.run(None, {"x": np.ones(1, kind)})


def _options(index: int) -> ort.SessionOptions:
    options, devices = ort.SessionOptions(), _devices()
    number = {"adapterIndex": str(index)} if index else {}
    options.add_provider_for_devices([devices[min(index, len(devices) - 1)]], number)
    return options


@cache
def _devices() -> list[Any]:
    """What the plugin lists, once it is registered."""
    import onnxruntime_ep_webgpu as plugin  # noqa: PLC0415 - an extra

    ort.register_execution_provider_library("webgpu", plugin.get_library_path())
    return [own for own in ort.get_ep_devices() if own.ep_name == plugin.get_ep_name()]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep from stderr what the plugin writes there where there is no driver; the message has it, in one line."""
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
