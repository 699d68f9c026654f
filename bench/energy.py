"""Energy, where the platform tells: the processor's own counters (RAPL) on the CPU, the driver's (NVML) on CUDA.

On Linux the processor's counters are often readable for the administrator alone; nothing is estimated in their place.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..engine.inference.device import CPU, Device

_POWERCAP = Path("/sys/class/powercap")
_PCI_BUS_ID_LENGTH = 32


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
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        nvml = ctypes.CDLL("nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1")
    except OSError:
        return {}
    # The two libraries number devices differently: what they share is the address on the bus.
    number, address = ctypes.c_int(0), ctypes.create_string_buffer(_PCI_BUS_ID_LENGTH)
    handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong(0)
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(number), device.index)
        or driver.cuDeviceGetPCIBusId(address, _PCI_BUS_ID_LENGTH, number)
        or nvml.nvmlInit_v2()
        or nvml.nvmlDeviceGetHandleByPciBusId_v2(address, ctypes.byref(handle))
        or nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
    )
    return {} if failed else {str(device): millijoules.value / 1e3}
