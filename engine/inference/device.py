"""Devices on which a model runs: the devices that `--device` names, and the cores that each may use.

This module does not open a model, so a wrong choice is refused at once. `session.py` opens sessions on a device.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import onnxruntime as ort

from ..errors import InputError
from .driver import cuda_devices


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

    `cpu,cpu` gives two processes on the CPU; a CUDA device can be given once only, as its memory is divided between
    the sessions of one process.

    Raises:
        InputError: as for `choose_device`; `auto` among several; a CUDA device twice.
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
    """The number of threads for the process of each device.

    Args:
        devices: from `choose_devices`.
        threads: what the user gave, for each process; None if nothing.

    Returns:
        For each device, what the user gave. If the user gave nothing: for a CPU among several devices, its share of the
        cores of this process, at least one; for CUDA None, as its threads do not compute.
    """
    on_cpu = sum(device == CPU for device in devices)
    shares = iter(_shares(cpu_threads(), on_cpu))
    return tuple(threads or (next(shares) if device == CPU else None) for device in devices)


def _shares(cores: int, processes: int) -> list[int]:
    return [max(1, cores // processes + (number < cores % processes)) for number in range(processes)]


def missing_for_cuda() -> str | None:
    """What is missing for CUDA, and what to do about it, in one clause; None if nothing is missing."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return "this ONNX Runtime has no CUDA provider: install onnxruntime-gpu in place of onnxruntime"
    if cuda_devices() == 0:
        return "no CUDA device or no NVIDIA driver on this machine: use --device cpu"
    return None


def cpu_threads() -> int:
    """Cores that this process may use: fewer than the machine has, inside a container or a batch job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
