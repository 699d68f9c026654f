"""Ray: the parts of a stage are decided by long-lived actors on the machines of a Ray cluster.

    Ray("local")             a cluster of this machine alone, which ends with the run
    Ray("10.0.0.1:6379")     a cluster that runs already; also "auto" and "ray://HOST:PORT"

    ray_cluster   connects to a cluster, or starts one
    ray_plan      divides what the cluster has among workers
    ray_files     sends the model's folder to the machines that do not see it
    ray_worker    an actor: it opens the model once and decides part after part
    ray_pool      gives out the parts and takes them back; an actor that dies loses no part

Only this process writes the run folder, so no shared file system is needed. Ray itself is imported when a run starts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, check_number
from ..printable import counted
from .executors import Say, Workers
from .ray_cluster import DEVICES, Patience, check_address, connected, nodes_of
from .ray_plan import planned
from .stage import ModelOptions, Stage

_MOST_WORKERS = 100_000


@dataclass(frozen=True)
class Ray:
    """Actors of a Ray cluster. A process that is connected to one already uses that one, whatever `address` says.

    Attributes:
        address: `local`, `auto`, `HOST:PORT` or `ray://HOST:PORT`.
        workers: How many actors, each with a model of its own; by default one for each GPU, or one for each machine of
            a cluster without GPUs.
        cpus_per_worker: CPUs of an actor, also a fraction; as many threads run its model. By default the machine's
            CPUs, divided among its actors.
        gpus_per_worker: GPUs of an actor, also a fraction; 0 for the CPU. By default 1 where there are GPUs.
        device: `auto`, `cpu` or `cuda`.
        copy_files: Whether each machine gets its own copy of the model's folder although it sees the folder here: for
            a slow network file system.
        patience: How long to wait for workers.
    """

    address: str = "local"
    workers: int | None = None
    cpus_per_worker: float | None = None
    gpus_per_worker: float | None = None
    device: str = "auto"
    copy_files: bool = False
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        check_address(self.address)
        check_number("--workers", self.workers, 1, _MOST_WORKERS)
        for option, value in (("--cpus-per-worker", self.cpus_per_worker), ("--gpus-per-worker", self.gpus_per_worker)):
            least = "more than 0" if option == "--cpus-per-worker" else "0 or more"
            if value is not None and not (0 <= value <= 1_024 and (value or option == "--gpus-per-worker")):
                raise InputError(f"{option} {value}: give {least}, and at most 1,024")
            if value is not None and value > 1 and value != int(value):
                raise InputError(f"{option} {value}: above 1, Ray takes whole numbers")
        if self.device not in DEVICES:
            raise InputError(f"--device {self.device}: with --ray give {', '.join(DEVICES[:-1])} or {DEVICES[-1]}")
        if self.device == "cpu" and self.gpus_per_worker:
            raise InputError(f"--device cpu: this contradicts --gpus-per-worker {self.gpus_per_worker:g}")
        if self.device == "cuda" and self.gpus_per_worker == 0:
            raise InputError("--device cuda: this contradicts --gpus-per-worker 0")

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: ModelOptions, say: Say) -> Iterator[Workers]:
        """See `Executor`.

        Raises:
            InputError: Ray is not installed, the cluster does not answer or has too little, or an actor cannot open the
                model.
            RuntimeError: An actor failed; the message has its traceback.
        """
        with connected(self.address) as ray:
            from .ray_pool import opened_pool  # noqa: PLC0415 - it needs Ray

            nodes = nodes_of(ray)
            plans = planned(
                nodes,
                workers=self.workers,
                cpus=self.cpus_per_worker or options.threads,
                gpus=0.0 if self.device == "cpu" else self.gpus_per_worker,
                needs_gpus=self.device == "cuda",
            )
            say(f"Ray: {counted(len(nodes), 'node')}, {counted(len(plans), 'worker')}")
            with opened_pool(
                ray, stage, options, plans, say, copy_files=self.copy_files, patience=self.patience
            ) as pool:
                yield pool
