"""A simulated cluster: real actors of Ray on this machine, as many as its memory allows, that wait instead of deciding.

The process that gives out the parts, the messages, the files: all of that is real. The workers share the cores with it
here, so what it costs is taken as processor time. Beyond, `ray_simulation` goes on with these costs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.progress import Reporter
from ..engine.runs.ray import Ray
from .clocked import Clocked
from .clocked_stages import Waiting
from .ray_simulation import Costs, saturation, simulate
from .ray_speed import Run, summary

ACTORS = (2, 8, 32)
WORKERS = (1, 10, 100, 1_000, 10_000, 100_000)
_PARTS_A_WORKER = 40
_NODES = 2
_BYTES_OF_A_WORKER = 250e6
Say = Callable[[str], None]


def measure_cluster(real: Run, *, actors: Sequence[int] = ACTORS, say: Say) -> list[Run]:
    """Runs with waiting workers, on a cluster of several nodes on this machine.

    Args:
        real: A run of the real model: how long its parts take, and how large they are.
        actors: How many workers; a number for which the memory is too small is skipped.
        say: Receives messages, one line each.
    """
    found = []
    room = _free_memory() / _BYTES_OF_A_WORKER
    for count in (own for own in actors if own <= room):
        # As if each worker had the machine of the measurement for itself, only quicker: so thousands of parts pass.
        seconds = min(real.part_seconds, 0.02 * count)
        waiting = Waiting(seconds, real.part_spread, int(real.moved), _PARTS_A_WORKER * count, 1)
        with _cluster(count) as address, TemporaryDirectory() as temporary:
            clocked = Clocked(Ray(address, workers=count, cpus_per_worker=1.0, device="cpu"))
            run_stage(waiting, Path(temporary) / "run", Execution(clocked, reporter=Reporter(silent=True)))
        run = summary(clocked, f"{count} waiting workers", count, waiting.parts)
        say(f"{run.system}: {run.parts / run.deciding:,.0f} parts/s")
        found.append(run)
    return found


def costs_of(waiting: Sequence[Run], real: Run) -> Costs:
    """What a part costs the process that gives it out: from the run with the most workers."""
    largest = max(waiting, key=lambda run: run.workers)
    handling = max(largest.own - largest.writing / 2, 1e-4)  # writing is half waiting for the disk
    return Costs(real.part_seconds, real.part_spread, handling, largest.writing)


def extrapolated(costs: Costs, sentences: float, *, workers: Sequence[int] = WORKERS) -> list[dict[str, Any]]:
    """The simulation for numbers of workers.

    Args:
        costs: Measured times.
        sentences: Of a part.
        workers: The numbers.

    Returns:
        For each number what `simulate` gives, and sentences a second.
    """
    rows = []
    for count in workers:
        found = simulate(count, costs, parts_each=30 if count <= 10_000 else 4)
        rows.append({**asdict(found), "sentences": found.parts * sentences, "most parts": saturation(costs)})
    return rows


@contextmanager
def _cluster(workers: int) -> Iterator[str]:
    """A Ray cluster of some nodes on this machine, whose CPUs are only numbers; its address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - an extra

    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(_NODES):
            cluster.add_node(num_cpus=-(-workers // _NODES))
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def _free_memory() -> float:
    """Bytes that programs can still get."""
    import psutil  # noqa: PLC0415 - belongs to an extra

    return float(psutil.virtual_memory().available)
