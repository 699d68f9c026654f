"""The devices that the user names: from the words of `--device` to devices that exist. No model is opened here."""

import re
from collections import Counter
from collections.abc import Sequence

from ..basics.errors import InputError
from ..basics.limits import cpu_threads
from .cpu import CPU, Cpu
from .cuda import Cuda
from .session import Device
from .webgpu import WebGpu

KINDS: dict[str, type[Device]] = {own.kind: own for own in (Cpu, Cuda, WebGpu)}
_PREFERRED = (Cuda, WebGpu)  # by `auto`, in this order
_MOST_DEVICES = 64  # one process for each


def choose_device(wanted: str, *, is_exact: bool = False) -> Device:
    """Turn `auto`, `cpu`, `webgpu` or `cuda:1` into a device that exists; `is_exact`: whose fp32 is the reference."""
    if wanted == "auto":
        found = (kind() for kind in _PREFERRED if kind.missing() is None)
        kept = (device for device in found if not device.is_software)
        return next((device for device in kept if device.is_reference or not is_exact), CPU)
    match = re.fullmatch(r"cpu|(cuda|webgpu)(?::([0-9]{1,4}))?", wanted)
    if match is None:
        raise InputError(f"--device {wanted}: give auto, cpu, cuda, cuda:INDEX, webgpu or webgpu:INDEX")
    kind = KINDS[match[1] or wanted]
    if is_exact:
        refuse_fp32(wanted)
    if missing := kind.missing():
        raise InputError(f"--device {wanted}: {missing}")
    device = kind(int(match[2] or 0))
    if device.index >= (count := kind.count()):
        last = f"{kind.kind}:{count - 1}" if count > 1 else f"{kind.kind}:0 alone"
        raise InputError(f"--device {wanted}: no such device; there are {count}, up to {last}")
    return device


def refuse_fp32(wanted: str) -> None:
    """InputError for a device whose numbers in fp32 are not those of the reference model."""
    kind = KINDS.get(wanted.partition(":")[0])
    if kind is not None and not kind().is_reference:
        reference = kind().reference
        raise InputError(
            f"--device {wanted} --precision fp32: the GPU rounds otherwise than the reference model, which runs on the "
            f"{reference}: give --device {reference}, or no --precision (the {reference} makes close calls again)"
        )


def choose_devices(wanted: str, *, is_exact: bool = False) -> tuple[Device, ...]:
    """Turn words for devices, separated by commas, into devices; `cpu,cpu` gives two processes on the CPU."""
    words = [word.strip() for word in wanted.split(",")]
    if len(words) > 1 and "auto" in words:
        raise InputError(f"--device {wanted}: auto stands for one device; to use several, name each of them")
    if len(words) > _MOST_DEVICES:
        raise InputError(f"--device: {len(words):,} devices; give at most {_MOST_DEVICES}")
    devices = tuple(choose_device(word, is_exact=is_exact) for word in words)
    for device, times in Counter(devices).items():
        if times > 1 and not device.uses_cores:
            raise InputError(f"--device {wanted}: {device} is given {times} times; give it once")
    return devices


def threads_each(devices: Sequence[Device], threads: int | None = None) -> tuple[int | None, ...]:
    """The threads for the process of each device: as given; else a CPU's share of the cores, None for GPUs."""
    cores, processes = cpu_threads(), sum(device.uses_cores for device in devices)
    shares = (max(1, cores // processes + (number < cores % processes)) for number in range(processes))
    return tuple(threads or (next(shares) if device.uses_cores else None) for device in devices)
