"""Ray: the parts of a stage are decided by long-lived actors on the machines of a Ray cluster.

    Ray("local")             a cluster of this machine alone, which ends with the run
    Ray("10.0.0.1:6379")     a cluster that runs already; also "auto" and "ray://HOST:PORT"

Only this process writes the run folder, so no shared file system is needed. Ray itself is imported when a run starts.
"""

import logging
import os
import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..basics.errors import InputError, check_number, first_line
from ..basics.option import Opening
from ..basics.printable import counted
from ..inference.device import cpu_threads
from .executors import Say, Workers
from .stage import Stage

_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^\s/:]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
_SECONDS_TO_ANSWER = 5.0
_OBJECT_STORE = 512 * 2**20  # bytes, of a local cluster; finished parts pass through it
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no reports to Ray's makers
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds."""

    others: float = 10.0  # for workers that still open their model, and for the last parts of slow or lost ones
    nobody: float = 600.0  # until a first worker has opened its model; then the run ends
    silent: float = 3600.0  # until any worker answers; then the run ends


@dataclass(frozen=True)
class Ray:
    """Actors of a Ray cluster. A process that is connected to one already uses that one, whatever `address` says."""

    address: str = "local"  # `local`, `auto`, `HOST:PORT` or `ray://HOST:PORT`
    # how many actors, each with a model of its own; by default one for each GPU, or one for each machine of a cluster
    # without GPUs
    workers: int | None = None
    # CPUs of an actor, also a fraction; as many threads run its model. By default the machine's CPUs, divided among
    # its actors
    cpus_per_worker: float | None = None
    # GPUs of an actor, also a fraction; 0 for the CPU. By default 1 where there are GPUs
    gpus_per_worker: float | None = None
    device: str = "auto"  # `auto`, `cpu` or `cuda`
    # whether each machine gets its own copy of the model's folder although it sees the folder here: for a slow
    # network file system
    copy_files: bool = False
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        _place(self.address)
        check_number("--workers", self.workers, 1, 100_000)
        for option, value in (("--cpus-per-worker", self.cpus_per_worker), ("--gpus-per-worker", self.gpus_per_worker)):
            least = "more than 0" if option == "--cpus-per-worker" else "0 or more"
            if value is not None and not (0 <= value <= 1_024 and (value or option == "--gpus-per-worker")):
                raise InputError(f"{option} {value}: give {least}, and at most 1,024")
            if value is not None and value > 1 and value != int(value):
                raise InputError(f"{option} {value}: above 1, Ray takes whole numbers")
        if self.device not in {"auto", "cpu", "cuda"}:
            raise InputError(f"--device {self.device}: with --ray give auto, cpu or cuda")
        if (self.device == "cpu" and self.gpus_per_worker) or (self.device == "cuda" and self.gpus_per_worker == 0):
            raise InputError(f"--device {self.device}: this contradicts --gpus-per-worker {self.gpus_per_worker:g}")

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> Iterator[Workers]:
        with connected(self.address) as ray:
            from .ray_pool import opened_pool  # noqa: PLC0415 - it needs Ray

            alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            nodes = [Resources(float(own.get("CPU", 0)), float(own.get("GPU", 0))) for own in alive]
            plans = planned(
                nodes,
                workers=self.workers,
                cpus=self.cpus_per_worker or options.threads,
                gpus=0.0 if self.device == "cpu" else self.gpus_per_worker,
                needs_gpus=self.device == "cuda",
            )
            say(f"Ray: {counted(len(nodes), 'node')}, {counted(len(plans), 'worker')}")
            with opened_pool(stage, options, plans, say, self.copy_files, self.patience) as pool:
                yield pool


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs that a machine has, in Ray's count, or that a worker gets."""

    cpus: float
    gpus: float

    @property
    def threads(self) -> int:
        return max(1, int(self.cpus))

    def room(self, cpus: float | None, gpus: float) -> int:
        """How many workers a machine can have; without GPUs and a number of CPUs, one."""
        by_cpu = int(self.cpus / cpus + 1e-9) if cpus else None
        by_gpu = int(self.gpus / gpus + 1e-9) if gpus else None
        return min((own for own in (by_cpu, by_gpu) if own is not None), default=min(1, int(self.cpus)))


def planned(
    nodes: Sequence[Resources],
    *,
    workers: int | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
    needs_gpus: bool = False,
) -> list[Resources]:
    """Divide what the machines have among workers, machine after machine; raises InputError if they have too little."""
    cores, cards = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    have = f"{cores:g} CPU{'' if cores == 1 else 's'} and {cards:g} GPU{'' if cards == 1 else 's'}"
    own_gpus = float(gpus) if gpus is not None else 1.0 if cards else 0.0
    if needs_gpus and not own_gpus:
        raise InputError(f"--device cuda: the Ray cluster has {have}; use --device cpu")
    rooms = [node.room(cpus, own_gpus) for node in nodes]
    if workers is not None and cpus is None and not own_gpus:
        # More than one for each machine: with as many whole CPUs each as there is room for.
        each = int(max((node.cpus for node in nodes), default=0))
        while sum(rooms) < workers and each:
            rooms = [node.room(each, 0.0) for node in nodes]
            each -= 1
    if sum(rooms) < max(workers or 1, 1):
        wanted = {"--workers": workers, "--cpus-per-worker": cpus, "--gpus-per-worker": own_gpus}
        asked = " ".join(f"{option} {value:g}" for option, value in wanted.items() if value) or "--ray"
        room = counted(sum(rooms), "worker")
        raise InputError(f"{asked}: the Ray cluster has {have} on {counted(len(nodes), 'node')}, room for {room}")
    # The first worker of each machine, then the second of each, and so on.
    places = sorted((turn, number) for number, room in enumerate(rooms) for turn in range(room))[:workers]
    found = []
    for number, taken in sorted(Counter(number for _, number in places).items()):
        own = nodes[number].cpus  # whole ones for each worker, or a fraction if there are too few
        share = float(own // taken) if own >= taken else own / taken
        found += [Resources(float(cpus) if cpus else share, own_gpus)] * taken
    return found


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster; the connection, and a cluster of this machine alone, end with the context.

    Raises InputError if Ray is not installed, or the address does not answer.
    """
    for name, value in _QUIET.items():  # Ray and its processes read them when they start
        os.environ.setdefault(name, value)
    try:
        import ray  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise InputError(f"--ray {address}: this needs Ray: run `pip install 'negengine[ray]'`") from None
    if ray.is_initialized():
        yield ray
        return
    _refuse_silent(address)
    settings: dict[str, Any] = {"configure_logging": False, "logging_level": logging.CRITICAL, "log_to_driver": False}
    if address == "local":
        settings |= {"num_cpus": cpu_threads(), "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
    # What Ray's processes report goes to Ray's log files: Ray would print it on stdout, into the results.
    logger, worker = logging.getLogger("ray"), ray._private.worker  # noqa: SLF001 - there is no public switch
    level, shown, stop = logger.level, getattr(worker, "_worker_logs_enabled", True), signal.getsignal(signal.SIGTERM)
    try:
        try:
            ray.init(address, **settings)
        except Exception as error:  # noqa: BLE001 - Ray raises many kinds, some of gRPC
            raise InputError(f"--ray {address}: Ray cannot connect ({first_line(error)})") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, stop)  # Ray takes it; a batch system's stop must interrupt the run as before
        logger.setLevel(logging.CRITICAL)
        worker._worker_logs_enabled = False  # noqa: SLF001
        yield ray
    finally:
        ray.shutdown()
        logger.setLevel(level)
        worker._worker_logs_enabled = shown  # noqa: SLF001


def _place(address: str) -> tuple[str, int] | None:
    """Host and port of an address; None for `local` and `auto`."""
    if address in {"local", "auto"}:
        return None
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise InputError(f"--ray {address}: give local, auto, HOST:PORT or ray://HOST:PORT")
    return found["host"].strip("[]"), int(found["port"])


def _refuse_silent(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself would wait for minutes."""
    try:
        if (place := _place(address)) is not None:
            socket.create_connection(place, timeout=_SECONDS_TO_ANSWER).close()
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            f"--ray {address}: nothing answers there ({reason}); start Ray there (`ray start --head`), or give another "
            "address"
        ) from None
