"""WebGPU devices: the GPU of most laptops, through Metal, D3D12 or Vulkan, by a plugin of ONNX Runtime.

For tests, the variable ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1 allows a Vulkan driver that needs no GPU.
"""

import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar

from ...basics.versions import requirement
from .. import tally
from ..batches import Array, Feeds, Runner
from ..gpu import Filled
from ..plugin import PluginDevice

_CHOOSES_FROM = (0, 5)  # the first version of the plugin that takes the number of a GPU: before, it chose one


class WebGpu(PluginDevice):
    """A GPU that the plugin of ONNX Runtime reaches."""

    kind: ClassVar[str] = "webgpu"
    package: ClassVar[str] = "onnxruntime_ep_webgpu"
    label: ClassVar[str] = "WebGPU"
    extra: ClassVar[str] = requirement("webgpu")
    preference: ClassVar[int | None] = 2
    batch_tokens: ClassVar[int] = 4096  # a laptop's GPU shares the memory of the processor
    # The plugin has kernels of these for floating-point numbers. What it leaves to the CPU has 64-bit integers or truth
    # values, in which relative positions and masks are counted.
    may_stay_on_cpu: ClassVar[Set[str]] = frozenset(
        (
            *("Abs", "Clip", "Expand", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Neg"),
            *("ReduceSum", "Sign", "Transpose", "And", "Or"),
        )
    )
    no_driver: ClassVar[str] = r"Failed to get a WebGPU (?:adapter|device)[^\n]*"
    driver_advice: ClassVar[str] = "install the newest driver of the GPU (on Linux for Vulkan)"

    @classmethod
    def listed(cls) -> Sequence[Any]:
        found = super().listed()
        numbers = re.findall(r"[0-9]+", found[0].ep_metadata.get("version", "0.0")) if found else []
        return found if tuple(map(int, numbers[:2])) >= _CHOOSES_FROM else found[:1]

    @classmethod
    def settings(cls, index: int) -> Mapping[str, str]:
        return {"adapterIndex": str(index)} if index else {}

    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:  # noqa: ARG002
        return _Shaders(self.session(graph), self, batch_tokens, 1)  # one queue: more threads would wait for it


DEVICE = WebGpu


class _Shaders(Filled):
    """A session whose first batch compiles shaders."""

    _is_compiled = False

    def filled(self, outputs: Any, feeds: Feeds, full: int) -> list[Array]:
        if not self._is_compiled:
            tally.say(f"{self._device}: compiling shaders, which can take a minute; later batches are faster")
            self._is_compiled = True
        return super().filled(outputs, feeds, full)
