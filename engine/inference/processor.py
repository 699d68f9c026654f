"""What the kind of processor decides: which fp32 graph runs, and what `auto` expects of int8.

A rule by instruction set, not a stopwatch: every machine of a kind chooses alike, however busy it is. BENCHMARKS.md
("Kernels of other processors") has the measurements behind it.
"""

from functools import cache

import numpy as np

from .device import CPU, Device
from .machine import cpu_information

_NUMPY_GROUPS = {  # NumPy's names for groups of instruction sets → those that count here, by their Linux names
    "x86_v3": ("avx2",),
    "x86_v4": ("avx2", "avx512f"),
    "avx512_clx": ("avx512_vnni",),
    "avx512_icl": ("avx512_vnni",),
    "avx512_spr": ("avx512_vnni",),
}


@cache
def instruction_sets() -> frozenset[str]:
    """The processor's instruction sets, by their names in Linux; of other systems those that NumPy finds."""
    for name in ("flags", "Features"):  # x86, Arm
        if flags := cpu_information().get(name):
            return frozenset(flags.split())
    # NumPy leaves out what is empty: "found" on a CPU that has nothing beyond what NumPy was compiled for.
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    found = [str(own).lower() for own in (*extensions.get("baseline", ()), *extensions.get("found", ()))]
    return frozenset(word for own in found for word in (own, *_NUMPY_GROUPS.get(own, ())))


def prefers_convolutions() -> bool:
    """Whether ONNX Runtime's 1 × 1 convolutions are faster than its matrix products: 1.15 times with AVX-512.

    With AVX2 alone, convolutions reach 0.97 of the speed of products.
    """
    return "avx512f" in instruction_sets()


def low_precision_speed(device: Device) -> float:
    """How many times as fast the low-precision model is as fp32, as `auto` expects it.

    1 where nothing was measured, as on Arm: there `auto` takes fp32. A GPU moves half the bytes in fp16.
    """
    if device != CPU:
        return 2.0
    found = instruction_sets()
    if found & {"avx512_vnni", "avx_vnni"}:
        return 2.2
    return 1.6 if "avx2" in found else 1.0
