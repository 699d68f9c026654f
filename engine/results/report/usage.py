"""What runs have used: sums over the sessions of all their stages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...runs.record import Session, StageRecord

_HOUR = 3600.0


@dataclass(frozen=True)
class Usage:
    """What sessions have used; a session counts from its begin to its end."""

    sessions: int
    gpu_hours: float  # of all GPUs together
    core_hours: float  # of all CPU cores together, of those workers that run on the CPU
    hours: float
    sentences: int  # that models have run, with calibration and audit
    tokens: int
    hardware: tuple[str, ...]  # processors and GPUs, with memory and driver
    systems: tuple[str, ...]
    packages: dict[str, tuple[str, ...]]  # those that decide a number, `python` and `negengine` too → versions
    sources: tuple[str, ...]
    precisions: tuple[str, ...]
    batch_tokens: tuple[int, ...]  # largest number of tokens in a batch


def usage(stages: Sequence[StageRecord]) -> Usage:
    """Sums over the sessions of some stages; sessions that only merged or published do not count."""
    sessions = [own for stage in stages for own in stage.sessions if own.workers]
    workers = [worker for own in sessions for worker in own.workers]
    versions: dict[str, list[str]] = {}
    precisions: list[str] = []
    gpu_seconds = core_seconds = 0.0
    for own in sessions:
        precisions += own.precision.values() if isinstance(own.precision, dict) else [own.precision or ""]
        for worker in own.workers:  # one entry may stand for several workers of a cluster, with a share of a GPU
            seconds = (own.seconds or 0.0) * int(worker.get("workers", 1))
            if _is_gpu(worker):
                gpu_seconds += seconds * float(worker.get("GPUs", 1))
            else:
                core_seconds += seconds * int(worker.get("threads") or 1)
        told = {"negengine": own.negengine, "python": own.python, **own.packages}
        for name, version in told.items():
            if version:
                versions.setdefault(name, []).append(version)
    return Usage(
        sessions=len(sessions),
        gpu_hours=gpu_seconds / _HOUR,
        core_hours=core_seconds / _HOUR,
        hours=sum(own.seconds or 0.0 for own in sessions) / _HOUR,
        sentences=sum(own.sentences for own in sessions),
        tokens=sum(own.tokens for own in sessions),
        hardware=_distinct(_hardware(own, worker) for own in sessions for worker in own.workers),
        systems=_distinct(str(own.machine["system"]) for own in sessions if "system" in own.machine),
        packages={name: _distinct(found) for name, found in versions.items()},
        sources=_distinct(own.source for own in sessions if own.source),
        precisions=_distinct(filter(None, precisions)),
        batch_tokens=tuple(dict.fromkeys(int(w["batch tokens"]) for w in workers if w.get("batch tokens"))),
    )


def _is_gpu(worker: dict[str, Any]) -> bool:
    return str(worker.get("device", "cpu")) != "cpu"


def _hardware(session: Session, worker: dict[str, Any]) -> str:
    """Such as `NVIDIA H200 (139.8 GiB, driver 580.95)` or `AMD EPYC (2 cores, 23.5 GiB)`."""
    machine = worker if _is_gpu(worker) else worker.get("machine") or session.machine  # a cluster's worker is elsewhere
    forms = {"cores": "{} cores", "memory GiB": "{} GiB", "driver": "driver {}"}
    told = ", ".join(form.format(machine[key]) for key, form in forms.items() if machine.get(key))
    name = str(worker.get("hardware") or ("GPU" if _is_gpu(worker) else "CPU"))
    return f"{name} ({told})" if told else name


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
