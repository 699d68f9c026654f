"""The processor in bf16, and Intel's GPUs, by ONNX Runtime's OpenVINO plugin. ONNX Runtime itself has no bf16 on x86.

The plugin takes the fp32 graph whole; a hint makes its products bf16. It lists no device on other makers' processors.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import onnxruntime as ort

from ...basics.versions import requirement
from ..batches import CORES, Runner
from ..exported import BF16, ExportedModel
from ..machine import instruction_sets, machine
from ..plugin import PluginDevice
from ..session import Device, open_session
from .cpu import CPU

_BRINGS = "; with it, this processor's AMX decides about 1.3 times as fast"


class OpenVino(PluginDevice):
    """A device that the plugin lists: the processor first, then GPUs."""

    kind: ClassVar[str] = "openvino"
    package: ClassVar[str] = "onnxruntime_ep_openvino"
    label: ClassVar[str] = "OpenVINO"
    extra: ClassVar[str] = requirement("openvino")
    preference: ClassVar[int | None] = 3
    batch_tokens: ClassVar[int] = 1024  # twice the CPU's: bf16 has half the bytes
    fewest_tokens: ClassVar[int] = 512  # AMX takes 1.4 times as long for a token of a batch of 272 as of 1,088
    rows: ClassVar[int] = 128
    together: ClassVar[int] = 8  # as the CPU

    @classmethod
    def missing(cls) -> str | None:
        found = super().missing()
        is_named = found is not None and cls.extra in found and has_amx()
        return f"{found}{_BRINGS}" if is_named else found

    @classmethod
    def listed(cls) -> Sequence[Any]:
        kinds = ort.OrtHardwareDeviceType
        order = {kinds.CPU: 0, kinds.GPU: 1}
        known = [own for own in super().listed() if own.device.type in order]
        return sorted(known, key=lambda own: order[own.device.type])

    @classmethod
    def settings(cls, index: int, streams: int = 1) -> Mapping[str, str]:
        if cls.is_processor(index):
            hint = "bf16" if cls.has_bf16(index) else "f32"
            own = {"INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": str(streams), "INFERENCE_NUM_THREADS": str(streams)}
            own |= {"ENABLE_CPU_PINNING": "NO"}  # else each session takes the first cores, and others stay idle
            own |= {"SNIPPETS_MODE": "DISABLE"}  # its generated kernel of attention is 3 times as slow on few tokens
            return {"load_config": json.dumps({"CPU": own})}
        return {"load_config": json.dumps({"GPU": {"INFERENCE_PRECISION_HINT": "f16"}})}

    @classmethod
    def is_processor(cls, index: int) -> bool:
        return any(own.device.type == ort.OrtHardwareDeviceType.CPU for own in cls.listed()[index : index + 1])

    @classmethod
    def has_bf16(cls, index: int) -> bool:
        """Whether the hint bf16 makes products faster: by AMX."""
        if not cls.is_processor(index):
            return False
        return "BF16" in str(cls.listed()[index].ep_metadata.get("OPTIMIZATION_CAPABILITIES")).split() and has_amx()

    @property
    def uses_cores(self) -> bool:
        return self.is_processor(self.index)

    @property
    def is_software(self) -> bool:  # without AMX, the processor is used only where it is named
        return self.uses_cores and not self.has_bf16(self.index)

    @property
    def beside(self) -> Device | None:
        return CPU if self.uses_cores else None

    def hardware(self) -> dict[str, Any]:
        if not self.uses_cores:
            return super().hardware()
        known = {"hardware": machine().get("processor"), "numbers": "bf16" if self.has_bf16(self.index) else "fp32"}
        return {key: value for key, value in known.items() if value}

    def low_precision(self, exported: ExportedModel) -> Path | None:
        return exported.graph if self.uses_cores else super().low_precision(exported)

    def low_precision_speed(self) -> float:
        # 3.98 and 3.53 times fp32 with AMX (mini and roberta-base's shape); without it 0.8 to 0.9
        return 3.5 if self.has_bf16(self.index) else 1.0

    def precision(self, graph: Path) -> str:
        return BF16 if self.has_bf16(self.index) else super().precision(graph)

    def session(self, graph: Path, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
        return self._streams(graph, 1, options) if self.uses_cores else super().session(graph, options)

    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:
        if not self.uses_cores:
            return super().runner(graph, batch_tokens, at_a_time)
        # A stream of one session for each core: they share the weights, which is faster than sessions of their own.
        return Runner(self._streams(graph, at_a_time), at_a_time, CORES)

    def _streams(self, graph: Path, n: int, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
        return open_session(graph, self._options(self.index, options, streams=n))  # what it leaves, these cores compute


DEVICE = OpenVino


def has_amx() -> bool:
    """Whether the processor has tiles for products in bf16."""
    return "amx_bf16" in instruction_sets()
