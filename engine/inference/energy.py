"""Energy, if the machine tells: the processor's counters (RAPL), and the driver's (NVML) for CUDA devices.

On Linux, often only the administrator may read the processor's counters. Missing values are not estimated. A counter is
that of a whole processor or device: what other programs use at the same time is in it, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .device import CPU, Device, cuda_bus_address, cuda_devices

_POWERCAP = Path("/sys/class/powercap")


class EnergyMeter:
    """Joules of this machine's processor and CUDA devices since the meter was made.

    The processor's counters start anew every few minutes to hours, so they must be read again from time to time.
    """

    def __init__(self, folder: Path = _POWERCAP) -> None:
        self._folder = folder
        self._last = self._counters()
        self._used: dict[str, float | None] = dict.fromkeys(self._last, 0.0)

    def joules(self) -> dict[str, float]:
        """`cpu`, `cuda:0` … → joules; without the devices whose counters cannot be read, or were reset."""
        now = self._counters()
        for device, before in self._last.items():
            more = _difference(before, now.get(device, {}), _ranges(self._folder) if device == str(CPU) else {})
            used = self._used[device]
            self._used[device] = None if more is None or used is None else used + more
        self._last = {device: now.get(device, {}) for device in self._last}
        return {device: used for device, used in self._used.items() if used is not None}

    def _counters(self) -> dict[str, dict[str, float]]:
        found = {str(CPU): _processor(self._folder)}
        for index in range(cuda_devices()):
            device = Device("cuda", index)
            found[str(device)] = _cuda(device)
        return {device: counters for device, counters in found.items() if counters}


@contextmanager
def energy_used(devices: Sequence[Device] = (CPU,), folder: Path = _POWERCAP) -> Iterator[list[float | None]]:
    """Joules of some devices together while the block ran, in the list at its end; None where they cannot be read."""
    used: list[float | None] = [None]
    meter = EnergyMeter(folder)
    yield used
    joules = meter.joules()
    if all(str(device) in joules for device in devices):
        used[0] = sum(joules[str(device)] for device in devices)


def _difference(before: Mapping[str, float], after: Mapping[str, float], ranges: Mapping[str, float]) -> float | None:
    """Joules between two readings; None if there are none, or a counter without a known range started anew."""
    if not before or before.keys() != after.keys():
        return None
    total = 0.0
    for name in before:
        more = after[name] - before[name]
        if more < 0:  # the counter has reached the end of its range
            more += ranges.get(name, 0.0)
        if more < 0:
            return None
        total += more
    return total


def _processor(folder: Path = _POWERCAP, value: str = "energy_uj") -> dict[str, float]:
    """Counter of each package, in joules; what lies inside a package, like its cores, is part of it."""
    found = {}
    try:
        for zone in sorted(folder.glob("intel-rapl:*")):  # the name of AMD's counters too
            if (zone / "name").read_text().startswith("package"):
                found[zone.name] = float((zone / value).read_text()) / 1e6
    except (OSError, ValueError):
        return {}
    return found


def _ranges(folder: Path) -> dict[str, float]:
    """The value at which the counter of each package starts anew, in joules."""
    return _processor(folder, "max_energy_range_uj")


def _cuda(device: Device) -> dict[str, float]:
    """Counter of a CUDA device, in joules, since its driver was loaded."""
    address = cuda_bus_address(device.index)
    if address is None:
        return {}
    import pynvml  # noqa: PLC0415 - takes long to import

    try:
        pynvml.nvmlInit()
        # CUDA and NVML number devices differently: what they share is the address on the bus.
        millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByPciBusId(address))
    except pynvml.NVMLError:
        return {}
    return {str(device): millijoules / 1e3}
