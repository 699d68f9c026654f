"""Runs on a Ray cluster, disturbed: workers, machines and the process that gives out the parts are killed.

The cluster has three machines with one CPU each; they are simulated on this one, by `ray.cluster_utils.Cluster`. A run
must have the bytes of an undisturbed run in one process.
"""

import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil

from .cases import prepare, real_cases
from .child import Program, Started
from .faults import Injector
from .trial import Place, Row, Run, Trial

RAY = "ray"
_NODES = 3
# Kind → what a command that met it may end with
_ENDS = {"ray-worker": (), "ray-node": (), "ray-driver": (-signal.SIGKILL,), "ray-interrupt": (130,)}


class Cluster:
    """The cluster, which gets a new machine for each one that is killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as Simulated

        self.made = Simulated(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes: list[Any] = []

    def grow(self) -> None:
        while len(self.nodes) < _NODES:
            self.nodes.append(self.made.add_node(num_cpus=1))

    def kill(self, kind: str, started: Started, draw: random.Random) -> None:
        """Kill a worker or a machine; or kill or interrupt the command."""
        node = draw.choice(self.nodes)
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        if kind == "ray-worker":
            workers = [one for one in raylet.children() if " ".join(one.cmdline()).startswith("ray::Worker")]
            (draw.choice(workers) if workers else raylet).kill()
        elif kind == "ray-node":
            raylet.kill()
        else:
            os.kill(started.pid, signal.SIGKILL if kind == "ray-driver" else signal.SIGINT)
        if not raylet.is_running() or raylet.status() == psutil.STATUS_ZOMBIE:
            self.nodes.remove(node)
            with suppress(Exception):  # what of it has ended already
                self.made.remove_node(node, allow_graceful=False)


def rows(world: Path, base: Path, minutes: float, seed: int, injector: Injector) -> list[Row]:
    """Disturb runs for some minutes; the rows of the table."""
    scratch, draw = base / "scratch-ray", random.Random(seed)
    scratch.mkdir()
    injector.own_state(scratch)
    place = Place(Program(base / "root", scratch, injector), base / "root" / "work-ray" / "run", draw)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("LD_PRELOAD")  # Ray's processes and the library of faults do not go together
    cluster, trials = Cluster(), []
    try:
        for case in real_cases(world):
            alone = prepare(case, place.children, base / "root" / "ray" / case.name, place.work)
            arguments = (*case.arguments, "--ray", cluster.made.address)
            on_ray = replace(alone, case=replace(case, arguments=arguments, name=f"{case.name} on Ray"))
            trials += [Trial(place, on_ray, Row(kind, on_ray.case.name)) for kind in _ENDS]
        until = time.monotonic() + 60 * minutes
        for trial in cycle(trials):
            _disturb(trial, cluster)
            if time.monotonic() >= until:
                break
    finally:
        cluster.made.shutdown()
    return [trial.row for trial in trials]


def _disturb(trial: Trial, cluster: Cluster) -> None:
    kind, parts = trial.row.kind, sum("/part-" in name and name.endswith(".json") for name in trial.prepared.expected)

    def strike(trial: Trial, started: Started) -> None:
        if trial.wait_for_parts(started, trial.random.randrange(parts)):
            with suppress(ProcessLookupError):
                cluster.kill(kind, started, trial.random)

    cluster.grow()
    trial.row.note = f"{_NODES} nodes, {parts} parts"
    trial.attempt(kind, Run(strike=strike, ends=_ENDS[kind]))
