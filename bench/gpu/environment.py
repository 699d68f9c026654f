"""The machine, the device and its driver, and the versions of all libraries that take part."""

from typing import Any

import onnxruntime as ort
import torch

from ...engine.inference.device import CPU, Device
from ...engine.inference.driver import cuda_bus_address, cuda_devices, cuda_memory, cuda_name, cuda_version
from ..machine import describe
from .setting import Found, Setting


def environment(setting: Setting) -> Found:
    """What the figures were measured on."""
    return {
        **describe(setting.device),
        "onnxruntime providers": ort.get_available_providers(),
        "torch": {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "sees": _seen_by_torch()},
        "cuda devices": cuda_devices(),
        "cuda": None if setting.device == CPU else _cuda(setting.device),
    }


def _seen_by_torch() -> list[str]:
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _cuda(device: Device) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": cuda_name(device.index),
        "GiB": None if (memory := cuda_memory(device.index)) is None else memory / 2**30,
        "newest CUDA of the driver": cuda_version(),
    }
    import pynvml  # noqa: PLC0415 - takes long to import

    try:
        pynvml.nvmlInit()
        found["driver"] = pynvml.nvmlSystemGetDriverVersion()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cuda_bus_address(device.index))
        found["watts at most"] = pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1e3
        found["MHz at most"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
    except pynvml.NVMLError as error:  # in a container, some of it may be hidden
        found["hidden"] = str(error)
    return found
