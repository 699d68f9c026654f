"""Runs on a Ray cluster, disturbed: workers, machines and the process that gives out the parts are killed.

The cluster has three machines with one CPU each; they are simulated on this one, by `ray.cluster_utils.Cluster`. A run
must have the bytes of an undisturbed run in one process. It runs in a process of its own: Ray and the library that
makes system calls fail do not go together.
"""

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil

from .cases import Case, real_cases
from .compare import Snapshot, row_difference, snapshot
from .faults import plain_environment
from .table import Row
from .world import World

RAY = "ray"
_NODES = 3
_RESULT = "triplets.parquet"
_PATIENCE = 300.0  # seconds for a command
_INTERRUPTED = 130


def rows(world: Path, minutes: float, seed: int) -> list[Row]:
    """The rows of the table, from a process of its own."""
    command = [sys.executable, "-m", "torture.ray_cluster", str(world), str(minutes), str(seed)]
    ended = subprocess.run(command, env=plain_environment(), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(ended.stdout.splitlines()[-1], type=list[Row])


@dataclass(eq=False)
class Cluster:
    """The cluster, which gets a new machine for each one that is killed."""

    made: Any
    nodes: list[Any]

    def grow(self) -> None:
        while len(self.nodes) < _NODES:
            self.nodes.append(self.made.add_node(num_cpus=1))

    def kill_worker(self, draw: random.Random) -> bool:
        found = [
            worker
            for node in self.nodes
            for worker in psutil.Process(_raylet(node)).children()
            if _name(worker).startswith("ray::Worker")
        ]
        return bool(found) and _kill(draw.choice(found).pid)

    def kill_node(self, draw: random.Random) -> bool:
        node = draw.choice(self.nodes)
        self.nodes.remove(node)
        killed = _kill(_raylet(node))
        with suppress(Exception):  # what of it has ended already
            self.made.remove_node(node, allow_graceful=False)
        return killed


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A Ray cluster on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster as Simulated

    made = Simulated(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        found = Cluster(made, [])
        found.grow()
        yield found
    finally:
        made.shutdown()


@dataclass(eq=False)
class Disturbed:
    """A command on the cluster, and the undisturbed result of the same command in one process."""

    case: Case
    cluster: Cluster
    expected: Snapshot
    parts: int
    folder: Path

    def start(self) -> "subprocess.Popen[str]":
        words = [*_PROGRAM, *self.case.arguments, "--ray", self.cluster.made.address, "-v"]
        return subprocess.Popen(words, cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def reaches(self, process: "subprocess.Popen[str]", parts: int) -> bool:
        while process.poll() is None:
            if sum(1 for _ in self.folder.glob(f"{self.case.result}/parts/*/part-*.json")) >= parts:
                return True
            time.sleep(0.01)
        return False

    def wrong(self, process: "subprocess.Popen[str]", said: str) -> tuple[list[str], int]:
        """What is wrong after the end, and how many rows are lost or doubled."""
        if process.returncode != 0:
            return [f"status {process.returncode}: {said[-300:]}"], 0
        found = snapshot(self.folder / self.case.result)
        different = self.expected.differences(found)
        if not different:
            return [], 0
        rows = row_difference(self.expected.files[_RESULT], found.files.get(_RESULT))
        return [self.expected.shown(found, name) for name in different], rows.lost + rows.doubled


_PROGRAM = (sys.executable, "-m", "negengine.engine.cli")
Fault = Callable[[Cluster, "subprocess.Popen[str]", random.Random], bool]
FAULTS: dict[str, tuple[Fault, tuple[int, ...]]] = {
    "ray-worker": (lambda cluster, _process, draw: cluster.kill_worker(draw), (0,)),
    "ray-node": (lambda cluster, _process, draw: cluster.kill_node(draw), (0,)),
    "ray-driver": (lambda _cluster, process, _draw: _kill(process.pid), (-signal.SIGKILL,)),
    "ray-interrupt": (lambda _cluster, process, _draw: _kill(process.pid, signal.SIGINT), (_INTERRUPTED,)),
}
"""Kind → what it does, and the status of a command that met it."""


def disturb(disturbed: Disturbed, kind: str, row: Row, draw: random.Random) -> None:
    """One fault, the same command again if it ended, and the comparison."""
    fault, ends = FAULTS[kind]
    disturbed.cluster.grow()
    shutil.rmtree(disturbed.folder / disturbed.case.result, ignore_errors=True)
    process = disturbed.start()
    happened = disturbed.reaches(process, draw.randrange(disturbed.parts)) and fault(disturbed.cluster, process, draw)
    _, said = process.communicate(timeout=_PATIENCE)
    if not happened:
        return
    row.faults += 1
    unexpected = [] if process.returncode in {0, *ends} else [f"status {process.returncode}: {said[-300:]}"]
    if process.returncode != 0:
        process = disturbed.start()
        _, said = process.communicate(timeout=_PATIENCE)
    wrong, lost = disturbed.wrong(process, said)
    row.rows += lost
    row.wrong += bool(unexpected or wrong)
    row.survived += not (unexpected or wrong)
    row.findings += [*unexpected, *wrong]


def main(world: str, minutes: str, seed: str) -> None:
    """Disturb runs for some minutes, and print the rows as JSON."""
    until = time.monotonic() + 60 * float(minutes)
    draw, found = random.Random(int(seed)), []
    with tempfile.TemporaryDirectory() as temporary, cluster() as made:
        runs = []
        for case in real_cases(World(Path(world))):
            folder = Path(temporary) / case.name.replace(" ", "-")
            folder.mkdir()
            subprocess.run([*_PROGRAM, *case.arguments, "--threads", "1"], cwd=folder, check=True, capture_output=True)
            expected = snapshot(folder / case.result)
            parts = sum(name.startswith("parts/") and name.endswith(".json") for name in expected.files)
            disturbed = Disturbed(case, made, expected, parts, folder)
            for kind in FAULTS:
                found.append(Row(kind, f"{case.name} on Ray", note=f"{_NODES} nodes, {parts} parts"))
                runs.append((disturbed, kind, found[-1]))
        for turn in itertools.cycle(runs):
            if time.monotonic() >= until:
                break
            disturb(*turn, draw)
    print(msgspec.json.encode(found).decode())


def _kill(pid: int, how: int = signal.SIGKILL) -> bool:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return False
    return True


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
