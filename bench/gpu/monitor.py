"""What a device does while a block runs: a GPU's utilisation, memory and power, and the host's processor time."""

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...engine.inference.device import CPU, Device, cuda_bus_address
from ...engine.inference.machine import energy_used

_EVERY = 0.2  # seconds
Sample = tuple[float, float, float]  # utilisation in percent, bytes in use, watts


@contextmanager
def watched(device: Device) -> Iterator[dict[str, Any]]:
    """Put what was seen into the dictionary at the end of the block. What the machine does not tell is None."""
    seen: dict[str, Any] = {}
    samples, ended, read = [], threading.Event(), _reader(device)

    def sample() -> None:
        while read is not None and not ended.wait(_EVERY):
            samples.append(read())

    sampler, before, began = threading.Thread(target=sample, daemon=True), _processor_seconds(), time.perf_counter()
    with energy_used([device]) as joules:
        sampler.start()
        try:
            yield seen
        finally:
            seconds = time.perf_counter() - began
            ended.set()
            sampler.join()
    seen["seconds"] = seconds
    # processor time of this process and its children, for each second of wall time
    seen["host, cores"] = (_processor_seconds() - before) / seconds
    seen["J"] = joules[0]
    figures: dict[str, Callable[[list[float]], float]]
    figures = {"utilisation %": statistics.mean, "GB": max, "W": statistics.mean}
    for index, (name, take) in enumerate(figures.items()):
        values = [row[index] for row in samples]
        seen[name] = take(values) if values else None


def _reader(device: Device) -> Callable[[], Sample] | None:
    """Reads the state of a CUDA device; None for the CPU, and where the driver hides it."""
    if device == CPU:
        return None
    import pynvml  # noqa: PLC0415 - takes long to import

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cuda_bus_address(device.index))

        def read() -> Sample:
            used = pynvml.nvmlDeviceGetMemoryInfo(handle).used / 1e9
            watts = pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3
            return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu), used, watts

        read()
    except pynvml.NVMLError:
        return None
    return read


def _processor_seconds() -> float:
    return sum(os.times()[:4])
