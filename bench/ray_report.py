"""`negengine bench --ray`: what is measured, and its tables."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from ..engine.inference.device import CPU
from ..engine.views import Column, Table
from .machine import describe
from .ray_cluster import costs_of, extrapolated, measure_cluster
from .ray_speed import ONE_PROCESS, Run, measure
from .shapes import SHAPES, cache_folder, prepare

SECONDS, QUICK_SECONDS = 60.0, 10.0
Say = Callable[[str], None]


def bench_ray(name: str, *, quick: bool, rounds: int | None, cache: Path | None = None, say: Say) -> dict[str, Any]:
    """Measure Ray with one model on this machine, then workers that wait, then simulate more of them.

    Args:
        name: Name of `shapes.SHAPES`, or what `negengine export` takes.
        quick: Whether runs take some seconds and not a minute.
        rounds: How often each executor runs; 3 by default, 1 if quick.
        cache: Where checkpoints and exports made for measuring are kept.
        say: Receives messages, one line each.

    Returns:
        A JSON document.
    """
    measured = prepare(name, cache or cache_folder(), SHAPES)
    seconds = QUICK_SECONDS if quick else SECONDS
    found = measure(measured.exported, seconds=seconds, rounds=rounds or (1 if quick else 3), say=say)
    runs = [Run(**own) for own in found["systems"]]
    real = next(run for run in runs if run.system != ONE_PROCESS)
    waiting = measure_cluster(real, actors=(2, 8) if quick else (2, 8, 32), say=say)
    costs = costs_of(waiting, real)
    return {
        "machine": describe(CPU),
        "command": " ".join(["negengine", *sys.argv[1:]]),
        "model": measured.name,
        **found,
        "waiting": [asdict(run) for run in waiting],
        "costs": asdict(costs),
        "simulated": extrapolated(costs, real.sentences / real.parts),
    }


def ray_tables(found: Mapping[str, Any]) -> list[Table]:
    """The tables of `bench_ray`."""
    return [_real(found), _waiting(found), _simulated(found)]


def _real(found: Mapping[str, Any]) -> Table:
    frame = pl.DataFrame(found["systems"])
    columns = [
        Column("executor", "system", wrap=False),
        Column("sentences/s", "rate", decimals=0),
        Column("parts", "parts"),
        Column("start", "opening", decimals=1, unit="s"),
        Column("waits", "waiting", decimals=1, scale=100, unit="%"),
        Column("own time a part", "own", decimals=1, scale=1000, unit="ms"),
        Column("kB a part", "moved", decimals=1, scale=1e-3, unit="kB"),
    ]
    work = found["systems"][0]
    notes = [
        f"overhead of Ray from the first part to the last: {100 * found['overhead']:.1f} % of the speed of one process",
        "start: until the model is open; Ray and its processes start first",
        "waits: the share of the time in which workers decided nothing",
        "own time: processor time of the process that gives out and writes the parts; in one process the model's, too",
        f"the same bytes from all runs: {'yes' if found['same'] else 'no'}",
    ]
    return Table(f"{found['model']}: {work['sentences']:,} sentences in fp32", frame, columns, notes=notes)


def _waiting(found: Mapping[str, Any]) -> Table:
    rows = [{**own, "parts/s": own["parts"] / own["deciding"]} for own in found["waiting"]]
    columns = [
        Column("workers", "workers"),
        Column("parts", "parts"),
        Column("parts/s", "parts/s", decimals=1),
        Column("waits", "waiting", decimals=1, scale=100, unit="%"),
        Column("own time a part", "own", decimals=2, scale=1000, unit="ms"),
        Column("writing a part", "writing", decimals=2, scale=1000, unit="ms"),
    ]
    notes = [
        "real actors on two nodes of this machine; they wait as long as a model would take, and send as many bytes"
    ]
    return Table("Workers that wait instead of deciding", pl.DataFrame(rows), columns, notes=notes)


def _simulated(found: Mapping[str, Any]) -> Table:
    columns = [
        Column("workers", "workers"),
        Column("parts/s", "parts", decimals=1),
        Column("sentences/s", "sentences", decimals=0),
        Column("workers decide", "working", decimals=1, scale=100, unit="%"),
        Column("first thread", "handling", decimals=1, scale=100, unit="%"),
        Column("second thread", "writing", decimals=1, scale=100, unit="%"),
    ]
    costs = found["costs"]
    most = found["simulated"][0]["most parts"]
    notes = [
        f"a part takes a worker {costs['part']:.2f} s",
        f"a part takes the first thread, which gives out parts, {1000 * costs['handling']:.1f} ms of processor time",
        f"a part takes the second thread, which writes parts, {1000 * costs['writing']:.1f} ms",
        f"the process that gives out the parts is at its limit at {most:,.0f} parts/s",
    ]
    return Table("More workers, simulated", pl.DataFrame(found["simulated"]), columns, notes=notes)
