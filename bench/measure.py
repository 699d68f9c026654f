"""Fair timing: all systems get the same sentences in the same minutes. Times are medians; answers are compared."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..engine.inference.device import CPU, Device
from ..engine.inference.energy import energy_used
from .baselines import System
from .workload import Workload

WARM_UP = 64  # sentences


@dataclass(frozen=True)
class Timing:
    """What was measured of one system.

    Attributes:
        sentences: how many there were.
        seconds: wall time of each round.
        agreement: share of the sentences with the same top-1 as the reference.
        decisions: share with the same decision, whether the top-1 is the expected verb: all that mixed precision
            promises.
        megabytes: how far memory rose above what it was before, at most; None where the system does not tell.
        joules: energy of the processor or the CUDA device in the median round; None where it cannot be read.
    """

    sentences: int
    seconds: tuple[float, ...]
    agreement: float
    decisions: float
    megabytes: float | None
    joules: float | None

    @property
    def rate(self) -> float:
        """Sentences per second, in the median round."""
        return self.sentences / float(np.median(self.seconds))


def alternate(
    systems: Sequence[System],
    works: Mapping[str, Workload],
    rounds: int,
    say: Callable[[str], None] = lambda _: None,
    device: Device = CPU,
    *,
    warm_up: int = WARM_UP,
) -> dict[str, Timing]:
    """Run all systems in turn, round by round, after a warm-up; the order is turned round each time.

    Args:
        systems: the systems; the first one is the reference for agreement.
        works: job → its sentences; those of a slower job are the first ones of the others.
        rounds: how often each is timed.
        say: receives messages.
        device: whose energy is measured.
        warm_up: sentences that each system runs before it is timed.
    """
    answers: dict[str, NDArray[np.int32]] = {}
    seconds: dict[str, list[float]] = {system.name: [] for system in systems}
    memory: dict[str, list[float | None]] = {system.name: [] for system in systems}
    energy: dict[str, list[float | None]] = {system.name: [] for system in systems}
    for system in systems:
        system.run(works[system.job].head(warm_up))
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for system in systems if number % 2 == 0 else reversed(systems):
            with memory_rise() as risen, energy_used([device]) as joules:
                started = time.perf_counter()
                answers[system.name] = system.run(works[system.job])
                seconds[system.name].append(time.perf_counter() - started)
            memory[system.name].append(risen[0])
            energy[system.name].append(joules[0])
    reference = answers[systems[0].name]
    return {
        system.name: Timing(
            sentences=len(works[system.job]),
            seconds=tuple(seconds[system.name]),
            agreement=float(np.mean(answers[system.name] == reference[: len(answers[system.name])])),
            decisions=_same_decisions(answers[system.name], reference, works[system.job].sentences.expected),
            megabytes=_largest(memory[system.name]),
            joules=_median(energy[system.name]),
        )
        for system in systems
    }


def _same_decisions(answers: NDArray[np.int32], reference: NDArray[np.int32], expected: NDArray[np.int32]) -> float:
    return float(np.mean((answers == expected) == (reference[: len(answers)] == expected)))


def fastest(variants: Sequence[System], work: Workload, warm_up: int = WARM_UP // 4) -> System:
    """Of one system with several batch sizes, the one that is fastest on a few sentences."""
    if len(variants) == 1:
        return variants[0]

    def seconds(system: System) -> float:
        system.run(work.head(warm_up))
        started = time.perf_counter()
        system.run(work)
        return time.perf_counter() - started

    return min(variants, key=seconds)


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


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
