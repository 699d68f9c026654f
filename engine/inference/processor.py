"""The kind of processor on which a model runs: what a measured speed holds for."""

import re
from typing import Any

import numpy as np
import onnxruntime as ort

from .device import CPU, Device
from .driver import cuda_name, cuda_version
from .machine import cpu_information, cpu_model

_DECIDING = re.compile(r"(sse4|avx|fma|f16c|amx|vnni|asimd|sve|i8mm|bf16)\w*|sme2?")  # of the flags in /proc/cpuinfo


def processor(device: Device) -> dict[str, Any]:
    """What the speed of a model depends on, beside the model; JSON values that are equal on equal machines.

    Args:
        device: Where the model runs.
    """
    # A virtual machine can hide the model's name, and Arm's cores have numbers alone.
    numbers = ("cpu family", "model", "CPU implementer", "CPU part")
    cpu = cpu_information()
    found = {
        "device": device.kind,
        "processor": cpu_model(),
        "numbers": {name: cpu[name] for name in numbers if name in cpu},
        "onnxruntime": ort.__version__,
    }
    if device == CPU:
        return {**found, "instructions": instruction_sets()}
    return {**found, "gpu": cuda_name(device.index), "driver": cuda_version()}


def instruction_sets() -> list[str]:
    """The processor's instruction sets that kernels choose by, sorted."""
    for name in ("flags", "Features"):  # x86, Arm
        if flags := cpu_information().get(name):
            return sorted({flag for flag in flags.split() if _DECIDING.fullmatch(flag)})
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return sorted({*extensions.get("baseline", ()), *extensions.get("found", ())})
