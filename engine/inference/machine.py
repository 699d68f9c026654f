"""The machine that this process runs on: processor, cores, memory, kind of host, CUDA devices and their driver.

Nothing here names a host or a user.
"""

import platform
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from .device import Device, cpu_threads
from .driver import cuda_memory, cuda_name, cuda_version

_PROC, _DMI = Path("/proc"), Path("/sys/class/dmi/id")


@cache
def machine() -> dict[str, Any]:
    """System, kind of host, processor, cores for this process, memory in GiB; what the system does not tell is missing.

    The kind of host is what its maker calls it, such as `Google Google Compute Engine` or `LENOVO 20XW`.
    """
    found = {
        "system": f"{platform.system()} {platform.machine()}",
        "host": host_kind(),
        "processor": cpu_model(),
        "cores": cpu_threads(),
        "memory GiB": memory_gib(),
    }
    return {key: value for key, value in found.items() if value is not None}


@cache
def hardware(device: Device) -> dict[str, Any]:
    """What a device is: the processor of `cpu`; the name, memory in GiB and driver of a CUDA device."""
    if device.kind == "cpu":
        processor = machine().get("processor")
        return {"hardware": processor} if processor else {}
    memory = cuda_memory(device.index)
    found = {
        "hardware": cuda_name(device.index),
        "memory GiB": round(memory / 2**30, 1) if memory else None,
        "driver": _nvidia_driver(),
        "CUDA": cuda_version(),
    }
    return {key: value for key, value in found.items() if value is not None}


def cpu_information(proc: Path = _PROC) -> dict[str, str]:
    """The entries of the first core in /proc/cpuinfo; empty where there is none."""
    try:
        lines = (proc / "cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}


def cpu_model() -> str:
    """The processor's name, such as `AMD EPYC 9B45`; the name of the architecture where there is no other."""
    if name := cpu_information().get("model name"):
        return name
    if platform.system() == "Darwin":
        with suppress(OSError, subprocess.SubprocessError):
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return platform.processor() or platform.machine()


def memory_gib(proc: Path = _PROC) -> float | None:
    """Memory of the machine in GiB; None where the system does not tell."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemTotal")]
    return round(float(kilobytes[0]) / 2**20, 1) if kilobytes else None


def host_kind(dmi: Path = _DMI) -> str | None:
    """Maker and product of the machine, physical or virtual; None where the system does not tell."""
    words = []
    for name in ("sys_vendor", "product_name"):
        try:
            words.append((dmi / name).read_text(errors="replace").strip())
        except OSError:
            continue
    return " ".join(filter(None, words)) or None


def _nvidia_driver() -> str | None:
    """Version of NVIDIA's driver; None if the driver's library for it is missing."""
    import pynvml  # noqa: PLC0415 - takes long to import

    try:
        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return None
    return version.decode() if isinstance(version, bytes) else str(version)
