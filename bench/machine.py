"""The machine that the benchmark ran on."""

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..engine.inference.device import Device, cpu_threads

_PACKAGES = ("negengine", "onnxruntime-gpu", "onnxruntime", "torch", "transformers", "optimum-onnx", "numpy", "polars")
_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16", "asimddp", "i8mm", "sve")


def describe(device: Device) -> dict[str, Any]:
    """Date, processor, cores, memory, device and versions."""
    cpu = _cpu()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu.get("model name", platform.processor() or "unknown"),
        "cpu flags": [flag for flag in _FLAGS if flag in cpu.get("flags", cpu.get("Features", "")).split()],
        "cores": cpu_threads(),
        "memory GiB": _memory(),
        "device": str(device),
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _cpu() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}


def _memory() -> float | None:
    try:
        line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    except (OSError, StopIteration):
        return None
    return round(float(line.split()[1]) / 2**20, 1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
