"""Devices on which a model runs: those that `--device` names, the cores that each may use, facts of NVIDIA's driver.

No model is opened here, so a wrong choice is refused at once. It calls the C library of the driver, not NVML, which
lists the devices of the whole machine: it ignores CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, counts a GPU that is
divided into MIG instances as one, and is missing in containers that are given `compute` alone.
"""

import ctypes
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnxruntime as ort

from ..basics.errors import InputError
from ..basics.limits import cpu_quota


@dataclass(frozen=True)
class Device:
    """`cpu`, or one CUDA device by its index."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"


CPU = Device("cpu")
_MOST_DEVICES = 64  # one process for each


def choose_device(wanted: str) -> Device:
    """Turn `auto`, `cpu`, `cuda` or `cuda:1` into a device that exists. `auto` is the first CUDA device, else the CPU.

    Raises:
        InputError: another word, or a CUDA device that does not exist.
    """
    if wanted == "cpu":
        return CPU
    match = re.fullmatch(r"auto|cuda(?::([0-9]{1,4}))?", wanted)
    if match is None:
        raise InputError(f"--device {wanted}: give auto, cpu, cuda or cuda:INDEX")
    missing = missing_for_cuda()
    if wanted == "auto":
        return CPU if missing else Device("cuda")
    if missing:
        raise InputError(f"--device {wanted}: {missing}")
    device = Device("cuda", int(match[1] or 0))
    if device.index >= (count := cuda_devices()):
        last = f"cuda:{count - 1}" if count > 1 else "cuda:0 alone"
        raise InputError(f"--device {wanted}: no such device; the driver lists {count}, up to {last}")
    return device


def choose_devices(wanted: str) -> tuple[Device, ...]:
    """Turn one or several words for devices, separated by commas, into devices that exist.

    `cpu,cpu` gives two processes on the CPU. A CUDA device can be given once only, as its memory is divided between the
    sessions of one process.

    Raises:
        InputError: As for `choose_device`; `auto` among several; a CUDA device twice.
    """
    words = [word.strip() for word in wanted.split(",")]
    if len(words) > 1 and "auto" in words:
        raise InputError(f"--device {wanted}: auto stands for one device; to use several, name each of them")
    if len(words) > _MOST_DEVICES:
        raise InputError(f"--device: {len(words):,} devices; give at most {_MOST_DEVICES}")
    devices = tuple(choose_device(word) for word in words)
    for device, times in Counter(devices).items():
        if times > 1 and device != CPU:
            raise InputError(f"--device {wanted}: {device} is given {times} times; give it once")
    return devices


def threads_each(devices: Sequence[Device], threads: int | None = None) -> tuple[int | None, ...]:
    """The number of threads for the process of each device: as given; else each CPU's share of this process's cores.

    None for CUDA, as its threads do not compute.
    """
    cores, processes = cpu_threads(), sum(device == CPU for device in devices)
    shares = (max(1, cores // processes + (number < cores % processes)) for number in range(processes))
    return tuple(threads or (next(shares) if device == CPU else None) for device in devices)


def missing_for_cuda() -> str | None:
    """What is missing for CUDA, and what to do about it, in one clause; None if nothing is missing."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return "this ONNX Runtime has no CUDA: pip uninstall onnxruntime, then pip install 'negengine[cuda]'"
    if cuda_devices() == 0:
        return "no CUDA device or no NVIDIA driver on this machine: use --device cpu"
    return None


def cpu_threads() -> int:
    """Cores that this process may use: fewer than the machine has, inside a container or a batch job."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(cores, cpu_quota())))


_LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_LONGEST_TEXT = 256  # bytes of a name or an address


def cuda_devices() -> int:
    """Number of CUDA devices that this process may use; 0 without a driver."""
    count = ctypes.c_int(0)
    driver = _driver()
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def cuda_memory(index: int) -> int | None:
    """Bytes of a CUDA device's memory; None if the driver does not report it."""
    total = ctypes.c_size_t(0)
    return (total.value or None) if _told("cuDeviceTotalMem_v2", index, ctypes.byref(total)) else None


def cuda_bus_address(index: int) -> str | None:
    """Address of a CUDA device on the PCI bus, by which NVML finds it; None if the driver does not report it."""
    return _text("cuDeviceGetPCIBusId", index)


def cuda_name(index: int) -> str | None:
    """Name of a CUDA device, such as `NVIDIA H200`; None if the driver does not report it."""
    return _text("cuDeviceGetName", index)


def cuda_version() -> str | None:
    """The newest version of CUDA that the driver supports, such as `13.0`; None without a driver."""
    driver, version = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def _driver() -> Any:
    """The driver's library, initialised; None if it is missing or does not start."""
    try:
        driver = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def _told(function: str, index: int, *result: Any) -> bool:
    """Whether a function of the driver has written what it knows of a device."""
    driver, device = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return False
    return bool(getattr(driver, function)(*result, device) == 0)


def _text(function: str, index: int) -> str | None:
    text = ctypes.create_string_buffer(_LONGEST_TEXT)
    told = _told(function, index, text, _LONGEST_TEXT)
    return (text.value.decode(errors="replace") or None) if told else None
