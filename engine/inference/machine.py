"""The machine, without names of host or user; what its kind of processor decides; energy, also of other programs."""

import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..basics.limits import cpu_threads
from .cuda import Cuda

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


def prefers_convolutions() -> bool:
    """Whether ONNX Runtime's 1 × 1 convolutions are faster than its matrix products: with AVX-512, 1.15 times."""
    return "avx512f" in instruction_sets()


def int8_speed() -> float:
    """How many times as fast the int8 model is as fp32, as `auto` expects it; 1 where nothing was measured."""
    found = instruction_sets()
    if found & {"avx512_vnni", "avx_vnni"}:
        return 2.2
    return 1.6 if "avx2" in found else 1.0


_POWERCAP = Path("/sys/class/powercap")
PROCESSOR = "cpu"  # its name among the devices whose energy is read


class EnergyMeter:
    """Joules of processor and CUDA devices since it was made; to be read often, as counters start anew within hours."""

    def __init__(self, folder: Path = _POWERCAP) -> None:
        self._folder = folder
        self._last = self._counters()
        self._used: dict[str, float | None] = dict.fromkeys(self._last, 0.0)

    def joules(self) -> dict[str, float]:
        """`cpu`, `cuda:0` … → joules; without the devices whose counters cannot be read, or were reset."""
        now = self._counters()
        for device, before in self._last.items():
            ranges = _processor(self._folder, "max_energy_range_uj") if device == PROCESSOR else {}
            after, used = now.get(device, {}), self._used[device]
            more = [after.get(name, 0.0) - own for name, own in before.items()]
            # where a counter has reached the end of its range, if that is known
            more = [own + ranges.get(name, 0.0) if own < 0 else own for name, own in zip(before, more, strict=True)]
            is_known = before.keys() == after.keys() and min(more, default=0.0) >= 0
            self._used[device] = used + sum(more) if used is not None and is_known else None
        self._last = {device: now.get(device, {}) for device in self._last}
        return {device: used for device, used in self._used.items() if used is not None}

    def _counters(self) -> dict[str, dict[str, float]]:
        found = {PROCESSOR: _processor(self._folder)}
        for device in map(Cuda, range(Cuda.count())):
            if (joules := device.joules()) is not None:
                found[str(device)] = {str(device): joules}
        return {device: counters for device, counters in found.items() if counters}


@contextmanager
def energy_used(devices: Sequence[object] = (PROCESSOR,), folder: Path = _POWERCAP) -> Iterator[list[float | None]]:
    """Joules of some devices together while the block ran, in the list at its end; None where they cannot be read."""
    used: list[float | None] = [None]
    meter = EnergyMeter(folder)
    yield used
    joules = meter.joules()
    if all(str(device) in joules for device in devices):
        used[0] = sum(joules[str(device)] for device in devices)


def _processor(folder: Path, value: str = "energy_uj") -> dict[str, float]:
    """Counter of each package, in joules, or (`max_energy_range_uj`) the value at which it starts anew."""
    found = {}
    try:
        for zone in sorted(folder.glob("intel-rapl:*")):  # the name of AMD's counters too
            if (zone / "name").read_text().startswith("package"):
                found[zone.name] = float((zone / value).read_text()) / 1e6
    except (OSError, ValueError):
        return {}
    return found
