"""`negengine bench --ray`: the same selection in one process and on 1, 2, … workers of Ray, on this machine.

All runs use all cores: one worker with all of them, two with half of them each, and so on. So the differences are what
Ray costs. The runs alternate, and the fastest round of each counts, as other programs only make a run slower.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from ..engine.basics.choices import Precision
from ..engine.basics.option import Opening
from ..engine.experiments.negation.select import TRIPLETS_FILE, Selection, Sentences, Settings
from ..engine.inference.device import CPU, cpu_threads
from ..engine.inference.exported import ExportedModel
from ..engine.runs.executors import Executor, ThisProcess
from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.masked_stages import PatternDeciders
from ..engine.runs.progress import Reporter
from ..engine.runs.ray import Ray
from ..engine.runs.stage import Advance, PartResult
from ..engine.text.lexicon import load_lexicon
from ..engine.text.pattern_files import load_patterns
from ..engine.views import Column, Table
from .clocked import BUSY, Clocked
from .machine import describe
from .shapes import SHAPES, cache_folder, prepare

ONE_PROCESS = "one process"
_PARTS_A_CORE = 12
_FIRST = 4  # pairs, for a first estimate of the speed
Say = Callable[[str], None]


class ClockedSelection(Selection):
    """A selection; each part counts the seconds of its decision."""

    def decide(self, model: PatternDeciders, number: int, prepared: Sentences | None, advance: Advance) -> PartResult:
        began = time.perf_counter()
        result = super().decide(model, number, prepared, advance)
        return replace(result, counts={**result.counts, BUSY: time.perf_counter() - began})


@dataclass(frozen=True)
class Run:
    """One executor, measured."""

    system: str
    workers: int  # processes that decide
    sentences: int
    parts: int
    opening: float  # seconds until the first part could be decided
    deciding: float  # seconds from then until the last part was written
    rate: float  # sentences a second while parts were decided
    own: float  # seconds of processor time of the process that gives out the parts, for each part
    writing: float  # seconds to write a part
    waiting: float  # the share of the time in which workers decided nothing
    moved: float  # bytes of a part


def measure(exported: ExportedModel, *, seconds: float, rounds: int, say: Say) -> dict[str, Any]:
    """Compare one process with Ray; a run in one process decides for about so many seconds.

    `systems`: the fastest `Run` of each executor; `overhead`: the share by which the fastest Ray run is slower than one
    process; `same`: whether all runs wrote the same bytes.
    """
    cores = cpu_threads()
    counts = [n for n in range(1, cores + 1) if cores % n == 0 and n in {1, 2, 4, 8, cores}]
    executors: dict[str, tuple[int, Callable[[], Executor]]] = {ONE_PROCESS: (1, lambda: ThisProcess(CPU))}
    for n in counts:
        executors[_name(n)] = n, lambda n=n: Ray("local", workers=n, device="cpu")  # type: ignore[misc]
    with TemporaryDirectory() as temporary:
        stage = _stage(exported, seconds, cores, Path(temporary), say)
        runs: dict[str, list[Run]] = {name: [] for name in executors}
        results: set[bytes] = set()
        for number in range(rounds):
            for name, (workers, executor) in executors.items():
                folder = Path(temporary) / f"{number} {name}"
                found = _run(stage, folder, name, workers, executor())
                say(f"round {number + 1} of {rounds}: {name}: {found.rate:,.0f} sentences/s")
                runs[name].append(found)
                results.add((folder / TRIPLETS_FILE).read_bytes())
    best = [max(own, key=lambda run: run.rate) for own in runs.values()]
    fastest = max(run.rate for run in best[1:])
    return {
        "systems": [asdict(run) for run in best],
        "rates": {name: [run.rate for run in own] for name, own in runs.items()},
        "overhead": 1 - fastest / best[0].rate,
        "same": len(results) == 1,
        "model bytes": sum(path.stat().st_size for path in exported.folder.iterdir() if path.is_file()),
    }


def _name(workers: int) -> str:
    return f"Ray, {workers} worker{'s' if workers > 1 else ''}"


def _stage(exported: ExportedModel, seconds: float, cores: int, folder: Path, say: Say) -> ClockedSelection:
    """A selection that takes about so long in one process."""
    first = _planned(exported, _FIRST, 1)
    found = _run(first, folder / "first", ONE_PROCESS, 1, ThisProcess(CPU))
    each = first.verbs[0].grid.verbs
    pairs = max(
        _FIRST, min(round(found.rate * seconds / each), len(first.lexicon.names) * len(first.lexicon.professions))
    )
    per_part = max(1, math.ceil(pairs / (_PARTS_A_CORE * cores)))
    stage = _planned(exported, pairs, per_part)
    say(f"{pairs * each:,} sentences in {len(stage.sizes):,} parts")
    return stage


def _planned(exported: ExportedModel, pairs: int, pairs_per_part: int) -> ClockedSelection:
    plan = Selection.plan(exported, load_lexicon(), load_patterns(), Settings(pairs=pairs))
    own = {field.name: getattr(plan, field.name) for field in fields(Selection)}
    return ClockedSelection(**{**own, "verbs": (replace(plan.verbs[0], pairs_per_part=pairs_per_part),)})


def _run(stage: ClockedSelection, folder: Path, name: str, workers: int, executor: Executor) -> Run:
    clocked = Clocked(executor)
    options = Opening(precision=Precision.FP32)
    run_stage(stage, folder, Execution(clocked, options, reporter=Reporter(silent=True)))
    return summary(clocked, name, workers, sum(stage.sizes))


def summary(clocked: Clocked, name: str, workers: int, sentences: int) -> Run:
    """What a clocked executor took, for each part where that makes sense."""
    parts = max(clocked.parts, 1)
    return Run(
        system=name,
        workers=workers,
        sentences=sentences,
        parts=clocked.parts,
        opening=clocked.opening,
        deciding=clocked.deciding,
        rate=sentences / clocked.deciding,
        own=clocked.own / parts,
        writing=clocked.writing / parts,
        waiting=max(0.0, 1 - clocked.busy / (workers * clocked.deciding)),
        moved=clocked.moved / parts,
    )


SECONDS, QUICK_SECONDS = 60.0, 10.0


def bench_ray(name: str, *, quick: bool, rounds: int | None, cache: Path | None = None, say: Say) -> dict[str, Any]:
    """Measure Ray with one model on this machine: a name of `shapes.SHAPES`, or what `negengine export` takes."""
    measured = prepare(name, cache or cache_folder(), SHAPES)
    seconds = QUICK_SECONDS if quick else SECONDS
    found = measure(measured.exported, seconds=seconds, rounds=rounds or (1 if quick else 3), say=say)
    return {
        "machine": describe(CPU),
        "command": " ".join(["negengine", *sys.argv[1:]]),
        "model": measured.name,
        **found,
    }


def ray_tables(found: Mapping[str, Any]) -> list[Table]:
    """The table of `bench_ray`."""
    frame = pl.DataFrame(found["systems"])
    columns = [
        Column("executor", "system", wrap=False),
        Column("sentences/s", "rate", decimals=0),
        Column("parts", "parts"),
        Column("start", "opening", decimals=1, unit="s"),
        Column("waits", "waiting", decimals=1, scale=100, unit="%"),
        Column("own time a part", "own", decimals=1, scale=1000, unit="ms"),
        Column("writing a part", "writing", decimals=1, scale=1000, unit="ms"),
        Column("kB a part", "moved", decimals=1, scale=1e-3, unit="kB"),
    ]
    work, ray = found["systems"][0], found["systems"][-1]
    most = 1 / max(ray["own"], ray["writing"])
    notes = [
        f"overhead of Ray from the first part to the last: {100 * found['overhead']:.1f} % of the speed of one process",
        "start: until the model is open; Ray and its processes start first",
        "waits: the share of the time in which workers decided nothing",
        "own time: processor time of the process that gives out and writes the parts; in one process the model's, too",
        f"the process that gives out the parts is at its limit at about {most:,.0f} parts/s, whatever the workers",
        f"the same bytes from all runs: {'yes' if found['same'] else 'no'}",
    ]
    return [Table(f"{found['model']}: {work['sentences']:,} sentences in fp32", frame, columns, notes=notes)]
