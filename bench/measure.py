"""Honest timing: all ways on the same sentences in the same minutes, medians of rounds, and their answers compared."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .peers import Peer
from .workload import Workload

_ENERGY = Path("/sys/class/powercap/intel-rapl:0/energy_uj")


@dataclass(frozen=True)
class Timing:
    """What was measured of one way.

    Attributes:
        sentences: how many there were.
        seconds: wall time of each round.
        agreement: share of the sentences with the same top-1 as the reference.
        megabytes: how far memory rose above what it was before, at most; None where the system does not tell.
        joules: energy of the processor's package in the median round; None where it cannot be read.
    """

    sentences: int
    seconds: tuple[float, ...]
    agreement: float
    megabytes: float | None
    joules: float | None

    @property
    def rate(self) -> float:
        """Sentences a second, in the median round."""
        return self.sentences / float(np.median(self.seconds))


def alternate(
    peers: Sequence[Peer], works: Mapping[str, Workload], rounds: int, say: Callable[[str], None] = lambda _: None
) -> dict[str, Timing]:
    """Run all ways in turn, round by round, after a warm-up; the order is turned round each time.

    Args:
        peers: the ways; the first one is the reference for agreement.
        works: job → its sentences; those of a slower job are the first ones of the others.
        rounds: how often each is timed.
        say: told what is going on.
    """
    answers: dict[str, NDArray[np.int32]] = {}
    seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    memory: dict[str, list[float | None]] = {peer.name: [] for peer in peers}
    energy: dict[str, list[float | None]] = {peer.name: [] for peer in peers}
    for peer in peers:
        peer.run(works[peer.job].head(_WARM_UP))
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for peer in peers if number % 2 == 0 else reversed(peers):
            with memory_rise() as risen, energy_used() as joules:
                started = time.perf_counter()
                answers[peer.name] = peer.run(works[peer.job])
                seconds[peer.name].append(time.perf_counter() - started)
            memory[peer.name].append(risen[0])
            energy[peer.name].append(joules[0])
    reference = answers[peers[0].name]
    return {
        peer.name: Timing(
            sentences=len(works[peer.job]),
            seconds=tuple(seconds[peer.name]),
            agreement=float(np.mean(answers[peer.name] == reference[: len(answers[peer.name])])),
            megabytes=_largest(memory[peer.name]),
            joules=_median(energy[peer.name]),
        )
        for peer in peers
    }


def fastest(variants: Sequence[Peer], work: Workload) -> Peer:
    """Of one way with several batch sizes, the one that is fastest on a few sentences."""

    def seconds(peer: Peer) -> float:
        peer.run(work.head(_WARM_UP // 4))
        started = time.perf_counter()
        peer.run(work)
        return time.perf_counter() - started

    return min(variants, key=seconds)


_WARM_UP = 64


@contextmanager
def memory_rise() -> Iterator[list[float | None]]:
    """Megabytes that this process rose by at most while the block ran, put into the list at its end (Linux)."""
    risen: list[float | None] = [None]
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        reset.write_text("5")  # the peak is counted anew from here
        before = _status(status, "VmRSS")
    except OSError:
        yield risen
        return
    yield risen
    risen[0] = max(0.0, (_status(status, "VmHWM") - before) / 1024)


def _status(path: Path, key: str) -> float:
    line = next(line for line in path.read_text().splitlines() if line.startswith(key))
    return float(line.split()[1])


@contextmanager
def energy_used() -> Iterator[list[float | None]]:
    """Joules of the processor's package while the block ran, put into the list at its end, where RAPL can be read."""
    used: list[float | None] = [None]
    before = _microjoules()
    yield used
    after = _microjoules()
    if before is not None and after is not None and after >= before:  # the counter starts anew now and then
        used[0] = (after - before) / 1e6


def _microjoules() -> float | None:
    try:
        return float(_ENERGY.read_text())
    except (OSError, ValueError):
        return None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
