"""Facts about the CUDA devices of this process, from NVIDIA's driver.

This module calls the C library of the driver, not NVML (nvidia-ml-py). NVML lists the devices of the whole
machine: it ignores CUDA_VISIBLE_DEVICES, orders devices by their bus and not as CUDA_DEVICE_ORDER says, counts a GPU
that is divided into MIG instances as one, and is missing in containers that are given `compute` alone. Only the driver
knows which device ONNX Runtime's `cuda:0` is.
"""

import ctypes
import os
from typing import Any

_LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_BUS_ADDRESS_LENGTH = 32
_NAME_LENGTH = 256


def cuda_devices() -> int:
    """Number of CUDA devices that this process may use; 0 without a driver."""
    count = ctypes.c_int(0)
    driver = _driver()
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def cuda_memory(index: int) -> int | None:
    """Bytes of a CUDA device's memory; None if the driver does not report it."""
    driver, total = _driver(), ctypes.c_size_t(0)
    if driver is None or (device := _device(driver, index)) is None:
        return None
    if driver.cuDeviceTotalMem_v2(ctypes.byref(total), device) != 0:
        return None
    return total.value or None


def cuda_bus_address(index: int) -> str | None:
    """Address of a CUDA device on the PCI bus, by which NVML finds it; None if the driver does not report it."""
    driver, address = _driver(), ctypes.create_string_buffer(_BUS_ADDRESS_LENGTH)
    if driver is None or (device := _device(driver, index)) is None:
        return None
    if driver.cuDeviceGetPCIBusId(address, _BUS_ADDRESS_LENGTH, device) != 0:
        return None
    return address.value.decode()


def cuda_name(index: int) -> str | None:
    """Name of a CUDA device, such as `NVIDIA H200`; None if the driver does not report it."""
    driver, name = _driver(), ctypes.create_string_buffer(_NAME_LENGTH)
    if driver is None or (device := _device(driver, index)) is None:
        return None
    if driver.cuDeviceGetName(name, _NAME_LENGTH, device) != 0:
        return None
    return name.value.decode(errors="replace")


def cuda_driver_version() -> int | None:
    """The newest version of CUDA that the driver supports, such as 13000 for 13.0; None without a driver."""
    driver, version = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value or None


def _driver() -> Any:
    """The driver's library, initialised; None if it is missing or does not start."""
    try:
        driver = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def _device(driver: Any, index: int) -> Any:
    """The driver's handle of a device; None if there is no such device."""
    device = ctypes.c_int(0)
    return device if driver.cuDeviceGet(ctypes.byref(device), index) == 0 else None
