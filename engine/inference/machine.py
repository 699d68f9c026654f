"""The machine, without names of host or user; and what its kind of processor decides."""

import platform
import re
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..basics.limits import cpu_threads

_PROC, _DMI = Path("/proc"), Path("/sys/class/dmi/id")


@cache
def machine() -> dict[str, Any]:
    """System, kind of host, processor, cores for this process, memory in GiB; what is not told is missing."""
    processor = cpu_information().get("model name") or platform.processor() or platform.machine()
    if platform.system() == "Darwin":
        with suppress(OSError, subprocess.SubprocessError):
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            processor = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    found = {
        "system": f"{platform.system()} {platform.machine()}",
        "host": host_kind(),
        "processor": processor,
        "cores": cpu_threads(),
        "memory GiB": memory_gib(),
    }
    return {key: value for key, value in found.items() if value is not None}


def cpu_information(proc: Path = _PROC) -> dict[str, str]:
    """The entries of the first core in /proc/cpuinfo; empty where there is none."""
    lines = reversed(_read(proc / "cpuinfo").splitlines())
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def memory_gib(proc: Path = _PROC) -> float | None:
    """Memory of the machine in GiB; None where the system does not tell."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read(proc / "meminfo"), re.MULTILINE)
    return round(int(found[1]) / 2**20, 1) if found else None


def host_kind(dmi: Path = _DMI) -> str | None:
    """Maker and product of the machine, such as `LENOVO 20XW`; None where the system does not tell."""
    words = [_read(dmi / name).strip() for name in ("sys_vendor", "product_name")]
    return " ".join(filter(None, words)) or None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# NumPy's names for groups of instruction sets → those that count here, by their Linux names
_NUMPY_GROUPS: dict[str, tuple[str, ...]] = {"x86_v3": ("avx2",), "x86_v4": ("avx2", "avx512f")}
_NUMPY_GROUPS |= dict.fromkeys(("avx512_clx", "avx512_icl", "avx512_spr"), ("avx512_vnni",))


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


MOST_INT8_SPEED = 2.2  # with VNNI


def prefers_convolutions() -> bool:
    """Whether ONNX Runtime's 1 × 1 convolutions are faster than its matrix products: with AVX-512, 1.15 times."""
    return "avx512f" in instruction_sets()


def int8_speed() -> float:
    """How many times as fast the int8 model is as fp32, as `auto` expects it; 1 where nothing was measured."""
    found = instruction_sets()
    if found & {"avx512_vnni", "avx_vnni"}:
        return MOST_INT8_SPEED
    return 1.6 if "avx2" in found else 1.0
