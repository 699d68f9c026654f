"""The machine that the benchmark ran on."""

import platform
from datetime import UTC, datetime
from typing import Any

from ..engine.inference.device import Device, cpu_threads
from ..engine.inference.machine import cpu_information, memory_gib
from ..engine.versions import versions

_PACKAGES = (
    "negengine",
    "onnxruntime-gpu",
    "onnxruntime",
    "torch",
    "transformers",
    "optimum-onnx",
    "openvino",
    "nncf",
    "numpy",
    "polars",
)
_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimddp", "i8mm", "sve")


def describe(device: Device) -> dict[str, Any]:
    """Date, processor, cores, memory, device and versions."""
    cpu = cpu_information()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu.get("model name", platform.processor() or "unknown"),
        "cpu flags": [flag for flag in _FLAGS if flag in cpu.get("flags", cpu.get("Features", "")).split()],
        "cores": cpu_threads(),
        "memory GiB": memory_gib(),
        "device": str(device),
        "python": platform.python_version(),
        "versions": versions(_PACKAGES),
    }
