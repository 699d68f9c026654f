"""`negengine bench --ray`: the same selection in one process and on 1, 2, … workers of Ray, on this machine.

All runs use all cores, so the differences are what Ray costs. They alternate, and the fastest round of each counts.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from ..engine.basics.choices import Precision
from ..engine.basics.limits import cpu_threads
from ..engine.basics.option import Opening
from ..engine.basics.printable import counted
from ..engine.experiments.negation.select import TRIPLETS_FILE, Selection, Settings
from ..engine.inference.cpu import CPU
from ..engine.inference.exported import ExportedModel
from ..engine.runs.executors import Executor, Finish, ThisProcess, Workers
from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.part import EncodedPart
from ..engine.runs.progress import Reporter
from ..engine.runs.ray import Ray
from ..engine.runs.stage import Advance, Choices, PartResult, Stage
from ..engine.text.lexicon import load_lexicon
from ..engine.text.pattern_files import load_patterns
from ..engine.views import Column, Table
from .machine import describe
from .rounds import Say
from .shapes import cache_folder, prepare

ONE_PROCESS = "one process"
BUSY = "seconds of deciding"  # the count of a part by which a clocked stage says how long its decision took
_PARTS_A_CORE = 12
_FIRST = 4  # pairs, for a first estimate of the speed
SECONDS, QUICK_SECONDS = 60.0, 10.0


@dataclass(eq=False)
class Clocked:
    """Another executor, and what it took."""

    inner: Executor  # the executor that works
    opening: float = 0.0  # seconds until the workers had opened the model
    deciding: float = 0.0  # seconds until all parts were decided and written
    own: float = 0.0  # seconds of processor time of this process meanwhile
    writing: float = 0.0  # seconds that this process wrote parts
    busy: float = 0.0  # seconds that workers decided
    parts: int = 0  # number of parts
    moved: int = 0  # bytes of the parts

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> Iterator[Workers]:
        started = time.perf_counter()
        with self.inner.start(stage, options, say) as workers:
            self.opening += time.perf_counter() - started
            yield _ClockedWorkers(workers, self)


@dataclass(frozen=True, eq=False)
class _ClockedWorkers:
    workers: Workers
    clocked: Clocked

    @property
    def descriptions(self) -> Sequence[Mapping[str, Any]]:
        return self.workers.descriptions

    def choose(self, say: Say) -> Choices:
        return self.workers.choose(say)

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        clocked = self.clocked

        def timed(number: int, part: EncodedPart) -> None:
            began = time.perf_counter()
            finish(number, part)
            clocked.writing += time.perf_counter() - began
            clocked.parts += 1
            clocked.moved += len(part.content)
            clocked.busy += float(part.marker.counts.get(BUSY, 0.0))

        began, own = time.perf_counter(), time.process_time()
        self.workers.run(numbers, choices, timed, advance)
        clocked.deciding += time.perf_counter() - began
        clocked.own += time.process_time() - own


class ClockedSelection(Selection):
    """A selection; each part counts the seconds of its decision."""

    def decide(self, *arguments: Any) -> PartResult:
        began = time.perf_counter()
        result = super().decide(*arguments)
        return replace(result, counts={**result.counts, BUSY: time.perf_counter() - began})

    @classmethod
    def of(cls, exported: ExportedModel, pairs: int, pairs_per_part: int) -> "ClockedSelection":
        plan = cls.plan(exported, load_lexicon(), load_patterns(), Settings(pairs=pairs))
        assert isinstance(plan, ClockedSelection)  # noqa: S101 - `plan` makes what it belongs to
        return replace(plan, verbs=(replace(plan.verbs[0], pairs_per_part=pairs_per_part),))


def run_clocked(stage: Stage[Any, Any], folder: Path, name: str, workers: int, executor: Executor) -> dict[str, Any]:
    """What one executor took, which has so many processes that decide."""
    clocked, sentences = Clocked(executor), sum(stage.sizes)
    options = Opening(precision=Precision.FP32)
    run_stage(stage, folder, Execution(clocked, options, reporter=Reporter(silent=True)))
    parts = max(clocked.parts, 1)
    return {
        "system": name,
        "workers": workers,
        "sentences": sentences,
        "parts": clocked.parts,
        "opening": clocked.opening,  # seconds until the first part could be decided
        "deciding": clocked.deciding,  # seconds from then until the last part was written
        "rate": sentences / clocked.deciding,  # sentences a second while parts were decided
        "own": clocked.own / parts,  # seconds of processor time of the process that gives out the parts, for each part
        "writing": clocked.writing / parts,  # seconds to write a part
        "waiting": max(0.0, 1 - clocked.busy / (workers * clocked.deciding)),  # the share in which workers did nothing
        "moved": clocked.moved / parts,  # bytes of a part
    }


def bench_ray(name: str, *, quick: bool, rounds: int | None, cache: Path | None = None, say: Say) -> dict[str, Any]:
    """Compare one process with Ray: with a name of `shapes.SHAPES`, or what `negengine export` takes.

    `systems`: the fastest run of each executor (`run_clocked`); `overhead`: the share by which the fastest Ray run is
    slower than one process; `same`: whether all runs wrote the same bytes.
    """
    exported, cores = prepare(name, cache or cache_folder()).exported, cpu_threads()
    rounds = rounds or (1 if quick else 3)
    executors: dict[str, tuple[int, Callable[[], Executor]]] = {ONE_PROCESS: (1, lambda: ThisProcess(CPU))}
    for n in sorted({n for n in (1, 2, 4, 8, cores) if cores % n == 0}):
        executors[f"Ray, {counted(n, 'worker')}"] = n, partial(Ray, "local", workers=n, device="cpu")
    with TemporaryDirectory() as temporary:
        first = ClockedSelection.of(exported, _FIRST, 1)  # for a selection that takes about so long in one process
        rate = run_clocked(first, Path(temporary) / "first", ONE_PROCESS, 1, ThisProcess(CPU))["rate"]
        each, seconds = first.verbs[0].grid.verbs, QUICK_SECONDS if quick else SECONDS
        pairs = max(_FIRST, min(round(rate * seconds / each), first.lexicon.n_pairs))
        stage = ClockedSelection.of(exported, pairs, max(1, math.ceil(pairs / (_PARTS_A_CORE * cores))))
        say(f"{pairs * each:,} sentences in {len(stage.sizes):,} parts")
        runs: dict[str, list[dict[str, Any]]] = {executor: [] for executor in executors}
        results: set[bytes] = set()
        for number in range(rounds):
            for own, (workers, executor) in executors.items():
                folder = Path(temporary) / f"{number} {own}"
                found = run_clocked(stage, folder, own, workers, executor())
                say(f"round {number + 1} of {rounds}: {own}: {found['rate']:,.0f} sentences/s")
                runs[own].append(found)
                results.add((folder / TRIPLETS_FILE).read_bytes())
    best = [max(own, key=lambda run: run["rate"]) for own in runs.values()]
    fastest = max(run["rate"] for run in best[1:])
    return {
        "machine": describe(CPU),
        "command": " ".join(["negengine", *sys.argv[1:]]),
        "model": name,
        "systems": best,
        "rates": {executor: [run["rate"] for run in own] for executor, own in runs.items()},
        "overhead": 1 - fastest / best[0]["rate"],
        "same": len(results) == 1,
        "model bytes": sum(path.stat().st_size for path in exported.folder.iterdir() if path.is_file()),
    }


def ray_table(found: Mapping[str, Any]) -> Table:
    """The table of `bench_ray`."""
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
    title = f"{found['model']}: {work['sentences']:,} sentences in fp32"
    return Table(title, pl.DataFrame(found["systems"]), columns, notes=notes)
