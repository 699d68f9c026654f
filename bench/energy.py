"""Energy, if the platform reports it: the processor's counters (RAPL), or the driver's (NVML) on CUDA.

On Linux, often only the administrator may read the processor's counters. Missing values are not estimated.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pynvml

from ..engine.inference.device import CPU, Device
from ..engine.inference.driver import cuda_bus_address

_POWERCAP = Path("/sys/class/powercap")


@contextmanager
def energy_used(device: Device = CPU) -> Iterator[list[float | None]]:
    """Joules of all processor packages, or of the CUDA device, while the block ran.

    They are put into the list at its end; None where they cannot be read.
    """
    used: list[float | None] = [None]
    before = _counters(device)
    yield used
    used[0] = _difference(before, _counters(device))


def _counters(device: Device) -> dict[str, float]:
    return _processor() if device == CPU else _cuda(device)


def _difference(before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """Joules between two readings; None if there are none, or a counter started anew in between."""
    if not before or before.keys() != after.keys() or any(after[name] < before[name] for name in before):
        return None
    return sum(after[name] - before[name] for name in before)


def _processor(folder: Path = _POWERCAP) -> dict[str, float]:
    """Counter of each package, in joules; what lies inside a package, like its cores, is part of it."""
    found = {}
    try:
        for zone in sorted(folder.glob("intel-rapl:*")):  # the name of AMD's counters too
            if (zone / "name").read_text().startswith("package"):
                found[zone.name] = float((zone / "energy_uj").read_text()) / 1e6
    except (OSError, ValueError):
        return {}
    return found


def _cuda(device: Device) -> dict[str, float]:
    """Counter of a CUDA device, in joules, since its driver was loaded."""
    address = cuda_bus_address(device.index)
    if address is None:
        return {}
    try:
        pynvml.nvmlInit()
        # CUDA and NVML number devices differently: what they share is the address on the bus.
        millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByPciBusId(address))
    except pynvml.NVMLError:
        return {}
    return {str(device): millijoules / 1e3}
