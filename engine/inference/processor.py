"""The kind of processor on which a model runs: what a measured speed holds for."""

import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from .device import CPU, Device, cpu_threads
from .driver import cuda_name, cuda_version

_CPUINFO = Path("/proc/cpuinfo")
_DECIDING = re.compile(r"(sse4|avx|fma|f16c|amx|vnni|asimd|sve|i8mm|bf16)\w*|sme2?")  # of the flags in /proc/cpuinfo


def processor(device: Device, threads: int | None = None) -> dict[str, Any]:
    """What the speed of a model depends on, beside the model; JSON values that are equal on equal machines.

    Args:
        device: Where the model runs.
        threads: CPU threads; None for one for each core of this process.
    """
    # A virtual machine can hide the model's name, and Arm's cores have numbers alone.
    numbers = ("cpu family", "model", "CPU implementer", "CPU part")
    found = {
        "device": device.kind,
        "processor": cpu_model(),
        "numbers": {name: values[0] for name in numbers if (values := _cpuinfo(name))},
        "onnxruntime": ort.__version__,
    }
    if device == CPU:
        return {**found, "instructions": instruction_sets(), "threads": threads or cpu_threads()}
    return {**found, "gpu": cuda_name(device.index), "driver": cuda_version()}


def cpu_model() -> str:
    """The processor's name, such as `AMD EPYC 9B45`; the name of the architecture where there is no other."""
    if names := _cpuinfo("model name"):
        return names[0]
    if platform.system() == "Darwin":
        with suppress(OSError, subprocess.SubprocessError):
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return platform.processor() or platform.machine()


def instruction_sets() -> list[str]:
    """The processor's instruction sets that kernels choose by, sorted."""
    for name in ("flags", "Features"):  # x86, Arm
        if values := _cpuinfo(name):
            return sorted({flag for flag in values[0].split() if _DECIDING.fullmatch(flag)})
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return sorted({*extensions.get("baseline", ()), *extensions.get("found", ())})


def _cpuinfo(field: str) -> list[str]:
    """The values of a field of /proc/cpuinfo, one for each core; none on other systems."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return re.findall(rf"^{re.escape(field)}\s*: *(.*)$", text, re.MULTILINE)
