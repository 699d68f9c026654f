"""How what the machines of a Ray cluster have is divided among workers."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..printable import counted


@dataclass(frozen=True)
class Node:
    """What a machine of the cluster has, in Ray's count: whole CPUs and GPUs, or as many as it was started with."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class WorkerPlan:
    """What one worker gets."""

    cpus: float
    gpus: float

    @property
    def threads(self) -> int:
        """CPU threads: one for each CPU, at least one."""
        return max(1, int(self.cpus))


def planned(
    nodes: Sequence[Node],
    *,
    workers: int | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
    needs_gpus: bool = False,
) -> list[WorkerPlan]:
    """Divide what the machines have among workers.

    Args:
        nodes: The machines.
        workers: How many workers; by default as many as there is room for.
        cpus: CPUs of a worker; by default its machine's, divided among the workers there.
        gpus: GPUs of a worker; by default 1 where the cluster has any.
        needs_gpus: Whether a cluster without GPUs is refused.

    Returns:
        One plan for each worker, machine after machine.

    Raises:
        InputError: The cluster has too little.
    """
    have = f"{_count(sum(node.cpus for node in nodes), 'CPU')} and {_count(sum(node.gpus for node in nodes), 'GPU')}"
    own_gpus = (1.0 if any(node.gpus for node in nodes) else 0.0) if gpus is None else float(gpus)
    if needs_gpus and not own_gpus:
        raise InputError(f"--device cuda: the Ray cluster has {have}; use --device cpu")
    rooms = [_room(node, cpus, own_gpus) for node in nodes]
    if workers is not None and workers > sum(rooms) and cpus is None and not own_gpus:
        rooms = _smaller_rooms(nodes, workers)
    if workers is not None:
        rooms = _spread(rooms, workers)
    if (found := sum(rooms)) < max(workers or 1, 1):
        wanted = [
            f"--workers {workers}" if workers else "",
            f"--cpus-per-worker {cpus:g}" if cpus else "",
            f"--gpus-per-worker {own_gpus:g}" if own_gpus else "",
        ]
        asked = " ".join(filter(None, wanted)) or "--ray"
        room = counted(found, "worker")
        raise InputError(f"{asked}: the Ray cluster has {have} on {_count(len(nodes), 'node')}, room for {room}")
    return [
        WorkerPlan(float(cpus) if cpus else _share(node.cpus, room), own_gpus)
        for node, room in zip(nodes, rooms, strict=True)
        for _ in range(room)
    ]


def _room(node: Node, cpus: float | None, gpus: float) -> int:
    """How many workers a machine can have."""
    by_cpu = int(node.cpus / cpus + 1e-9) if cpus else None
    if gpus:
        by_gpu = int(node.gpus / gpus + 1e-9)
        return by_gpu if by_cpu is None else min(by_gpu, by_cpu)
    return min(1, int(node.cpus)) if by_cpu is None else by_cpu


def _smaller_rooms(nodes: Sequence[Node], workers: int) -> list[int]:
    """Room for at least so many workers that have whole CPUs, as many as possible each."""
    most = int(max((node.cpus for node in nodes), default=0))
    for each in range(most, 0, -1):
        rooms = [_room(node, each, 0.0) for node in nodes]
        if sum(rooms) >= workers:
            return rooms
    return [_room(node, 1, 0.0) for node in nodes]


def _spread(rooms: Sequence[int], workers: int) -> list[int]:
    """Room for so many workers at most, spread over the machines."""
    taken = [0] * len(rooms)
    for _ in range(workers):
        free = [number for number, room in enumerate(rooms) if taken[number] < room]
        if not free:
            break
        taken[min(free, key=lambda number: taken[number])] += 1
    return taken


def _share(cpus: float, workers: int) -> float:
    """CPUs of each of several workers of a machine: whole ones, or a fraction if there are too few."""
    return float(cpus // workers) if cpus >= workers else cpus / workers


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"
