"""The machine that the benchmark ran on, and what a process uses of it: peak memory, cores, threads."""

import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..engine.basics.versions import versions
from ..engine.inference.device import Device, cpu_threads
from ..engine.inference.machine import cpu_information, memory_gib

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


# What libraries read when they are imported: OpenMP, MKL, OpenBLAS, Rust's threads (tokenizers) and Polars.
_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_BUSY = 0.1  # a thread that computes for a tenth of the time counts
_STATUS, _REFERENCES, _TASKS = Path("/proc/self/status"), Path("/proc/self/clear_refs"), Path("/proc/self/task")


def use_threads(count: int) -> None:
    """Let this process use so many cores, whatever its libraries want; before they are imported."""
    for name in _VARIABLES:
        os.environ[name] = str(count)
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:count])


@dataclass(frozen=True)
class Usage:
    """Processor time, since the start or since another reading."""

    seconds: float  # of the process, all cores together
    # thread → its seconds; empty where the operating system does not tell
    by_thread: Mapping[str, float] = field(default_factory=dict)
    cores: float = 0.0  # mean number of cores that were busy; 0 for a first reading
    threads: int | None = None  # threads that were busy for a tenth of the time at least; None where it is not known

    def since(self, before: "Usage", wall: float) -> "Usage":
        spent = self.seconds - before.seconds
        by_thread = {name: own - before.by_thread.get(name, 0.0) for name, own in self.by_thread.items()}
        busy = sum(own > _BUSY * wall for own in by_thread.values()) if by_thread else None
        return Usage(spent, by_thread, spent / wall if wall > 0 else 0.0, busy)


def usage() -> Usage:
    """Processor time of this process until now."""
    by_thread = {}
    try:
        tick = os.sysconf("SC_CLK_TCK")
        for task in _TASKS.iterdir():
            fields = (task / "stat").read_text().rpartition(")")[2].split()  # the name may hold blanks
            by_thread[task.name] = (int(fields[11]) + int(fields[12])) / tick
    except (OSError, ValueError, AttributeError):  # another system, or a thread that has ended meanwhile
        by_thread = {}
    return Usage(time.process_time(), by_thread)


def peak_megabytes() -> float | None:
    """Most memory that this process had since `restart_peak`, or since its start where that is not possible."""
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) * 1024 / 1e6
    except (OSError, StopIteration):
        return _peak_since_start()


def restart_peak() -> None:
    """Count the peak anew from here, from what is in use now (Linux)."""
    try:
        _REFERENCES.write_text("5")
    except OSError:
        return


def _peak_since_start() -> float | None:
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
