"""The devices that the user names: from the words of `--device` to devices that exist. No model is opened here.

Another package names a kind of device by an entry point of the group `negengine.devices`; its value is the class.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from ..basics.errors import InputError
from ..basics.limits import cpu_threads
from . import devices
from .devices.cpu import CPU
from .session import Device

GROUP = "negengine.devices"
_MOST_DEVICES = 64  # one process for each


@cache
def kinds() -> Mapping[str, type[Device]]:
    """Name → class of all kinds: a file each in `devices/`, then those of other packages by name."""
    names = sorted(name for _, name, _ in iter_modules(devices.__path__))
    found: dict[str, type[Device]] = {
        own.kind: own for own in (import_module(f"{devices.__name__}.{name}").DEVICE for name in names)
    }
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        own = entry.load()
        if not (isinstance(own, type) and issubclass(own, Device) and own.kind == entry.name) or entry.name in found:
            raise InputError(f"the entry point {entry.name} of {GROUP} ({entry.value}) is not a new kind of device")
        found[own.kind] = own
    return found


def words_for_devices() -> str:
    """What `--device` takes."""
    named = (name if own.is_single else f"{name}, {name}:INDEX" for name, own in kinds().items())
    return ", ".join(["auto", *named])


def choose_device(wanted: str, *, is_exact: bool = False) -> Device:
    """Turn `auto`, `cpu` or `cuda:1` into a device that exists; `is_exact`: whose fp32 is the reference."""
    if wanted == "auto":
        preferred = sorted((own.preference, name) for name, own in kinds().items() if own.preference is not None)
        found = (kinds()[name]() for _, name in preferred if kinds()[name].missing() is None)
        kept = (device for device in found if not device.is_software)
        return next((device for device in kept if device.is_reference or not is_exact), CPU)
    name, colon, index = wanted.partition(":")
    kind = kinds().get(name)
    if kind is None or (colon and (kind.is_single or not re.fullmatch("[0-9]{1,4}", index))):
        raise InputError(f"--device {wanted}: give {words_for_devices()}")
    if is_exact:
        refuse_fp32(wanted)
    if missing := kind.missing():
        raise InputError(f"--device {wanted}: {missing}")
    device = kind(int(index or 0))
    if device.index >= (count := kind.count()):
        last = f"{kind.kind}:{count - 1}" if count > 1 else f"{kind.kind}:0 alone"
        raise InputError(f"--device {wanted}: no such device; there are {count}, up to {last}")
    return device


def refuse_fp32(wanted: str) -> None:
    """InputError for a device whose numbers in fp32 are not those of the reference model."""
    kind = kinds().get(wanted.partition(":")[0])
    if kind is not None and not kind().is_reference:
        reference = kind().reference
        raise InputError(
            f"--device {wanted} --precision fp32: the device rounds otherwise than the reference model, which runs on "
            f"the {reference}: give --device {reference}, or no --precision (the {reference} makes close calls again)"
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
