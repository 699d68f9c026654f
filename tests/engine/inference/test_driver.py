"""The driver says which devices this process may use; here a stand-in for its library says so."""

from types import SimpleNamespace

import pytest
from negengine.engine.inference import device as driver
from negengine.engine.inference.device import cuda_bus_address, cuda_devices, cuda_memory, cuda_name, cuda_version

SUCCESS, NO_DEVICE, INVALID_DEVICE = 0, 100, 101


def driver_with(devices):
    """As libcuda answers on a machine whose visible devices have these (memory, address)."""

    def count(number):
        number._obj.value = len(devices)
        return SUCCESS

    def device(handle, index):
        handle._obj.value = index
        return SUCCESS if index < len(devices) else INVALID_DEVICE

    def memory(total, handle):
        total._obj.value = devices[handle.value][0]
        return SUCCESS

    def address(text, length, handle):
        text.value = devices[handle.value][1].encode()[: length - 1]
        return SUCCESS

    def name(text, length, handle):
        text.value = b"NVIDIA H200"
        return SUCCESS

    def version(number):
        number._obj.value = 13010
        return SUCCESS

    return SimpleNamespace(
        cuInit=lambda _: SUCCESS if devices else NO_DEVICE,
        cuDeviceGetCount=count,
        cuDeviceGet=device,
        cuDeviceTotalMem_v2=memory,
        cuDeviceGetPCIBusId=address,
        cuDeviceGetName=name,
        cuDriverGetVersion=version,
    )


@pytest.fixture
def library(monkeypatch):
    """Have the driver's library answer as one with some devices, or be missing."""

    def install(devices):
        def load(_):
            if devices is None:
                raise OSError("libcuda.so.1: cannot open shared object file")
            return driver_with(devices)

        monkeypatch.setattr(driver.ctypes, "CDLL", load)

    return install


def test_devices_are_those_of_the_driver(library):
    library([(140 << 30, "0000:C1:00.0"), (80 << 30, "0000:01:00.0")])
    assert cuda_devices() == 2
    assert [cuda_memory(0), cuda_memory(1)] == [140 << 30, 80 << 30]
    assert [cuda_bus_address(0), cuda_bus_address(1)] == ["0000:C1:00.0", "0000:01:00.0"]
    assert cuda_name(1) == "NVIDIA H200"
    assert cuda_version() == "13.1"


@pytest.mark.parametrize("devices", [None, []], ids=["no driver", "no visible device"])
def test_without_a_driver_or_with_hidden_devices_there_are_none(devices, library):
    """With an empty CUDA_VISIBLE_DEVICES the driver does not start; NVML would list every device all the same."""
    library(devices)
    assert cuda_devices() == 0
    assert cuda_memory(0) is None
    assert cuda_bus_address(0) is None
    assert cuda_name(0) is None
    assert cuda_version() is None


def test_a_device_beyond_the_last_has_neither_memory_nor_address(library):
    library([(140 << 30, "0000:C1:00.0")])
    assert cuda_memory(1) is None
    assert cuda_bus_address(1) is None
