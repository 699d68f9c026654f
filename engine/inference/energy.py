"""The energy that the machine's devices use, also for other programs."""

from pathlib import Path

from .device import kinds

_POWERCAP = Path("/sys/class/powercap")
PROCESSOR = "cpu"  # its name among the devices whose energy is read


class EnergyMeter:
    """Joules of processor and devices since it was made; to be read often, as counters start anew within hours."""

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
        counting = (kind for kind in kinds().values() if kind.counts_energy)
        for device in (kind(index) for kind in counting for index in range(kind.count())):
            if (joules := device.joules()) is not None:
                found[str(device)] = {str(device): joules}
        return {device: counters for device, counters in found.items() if counters}


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
