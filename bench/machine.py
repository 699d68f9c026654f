"""The machine that the benchmark ran on, and what a process uses of it: peak memory and cores."""

import os
import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..engine.basics.versions import versions
from ..engine.inference.machine import instruction_sets, machine
from ..engine.inference.session import Device

_PACKAGES = (
    *("negengine", "onnxruntime-gpu", "onnxruntime", "onnxruntime-ep-webgpu", "torch", "transformers"),
    *("optimum-onnx-naf", "openvino", "nncf", "numpy", "polars"),
)
_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimddp", "i8mm", "sve")
# What libraries read when they are imported: OpenMP, MKL, OpenBLAS, Rust's threads (tokenizers) and Polars.
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS")
_STATUS, _REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def describe(device: Device) -> dict[str, Any]:
    """Date, processor, cores, memory, device and versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        **machine(),
        "instruction sets": sorted(instruction_sets().intersection(_FLAGS)),
        "device": str(device),
        "python": platform.python_version(),
        "versions": versions(_PACKAGES),
    }


def has_bf16() -> bool:
    """Whether the processor has products in bf16; in software they are many times slower than fp32."""
    return bool(instruction_sets() & {"avx512_bf16", "amx_bf16", "bf16"})  # the last one is Arm's


def use_threads(count: int) -> None:
    """Let this process use so many cores, whatever its libraries want; before they are imported."""
    for name in _VARIABLES:
        os.environ[name] = str(count)
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:count])


def peak_megabytes() -> float | None:
    """Most memory that this process had since `restart_peak`, or since its start where that is not possible."""
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) * 1024 / 1e6
    except (OSError, StopIteration):
        try:
            import resource  # noqa: PLC0415 - not on Windows
        except ImportError:
            return None
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def restart_peak() -> None:
    """Count the peak anew from here, from what is in use now (Linux)."""
    with suppress(OSError):
        _REFERENCES.write_text("5")
