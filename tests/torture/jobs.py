"""Processes that torture at the same time, each its own commands, row after row in turn."""

import gc
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from . import child, table
from .cases import Case, Prepared, prepare, real_cases
from .child import Children, Program
from .faults import Injector
from .kinds import KINDS
from .plants import PLANTS, finds
from .table import Row
from .trial import Place, Trial, forked
from .world import World

_LINE_EVERY = 30.0  # seconds
_SHORT_SLICE, _SLICE, _LOOP_SLICE = 1.0, 4.0, 12.0  # seconds of a row in one round


@dataclass(frozen=True)
class Wanted:
    """What to torture, and for how long."""

    kinds: Sequence[str]  # names of `KINDS`
    cases: Sequence[Case]  # the commands
    until: float  # when the time is over, in seconds of `time.monotonic`
    seed: int  # of everything that is drawn
    short: bool  # whether there are two minutes for everything
    most: int | None  # faults of a row; None for any number
    plants: bool  # whether bugs are planted as well


@dataclass
class Found:
    """What a job has found."""

    rows: list[Row] = field(default_factory=list)  # of the table
    planted: dict[str, bool] = field(default_factory=dict)  # bug → whether it was found


def in_jobs(wanted: Wanted, world: World, jobs: int, base: Path, injector: Injector) -> Found:
    """Torture in some processes, and an export in a further one: it needs PyTorch, which makes forks slow."""
    runs = [case for case in wanted.cases if not case.exports]
    shares = [runs[job::jobs] for job in range(min(jobs, len(runs)))]
    shares += [[case] for case in wanted.cases if case.exports]
    waits = [
        forked(partial(_job, wanted, world, job, share, base, injector)) for job, share in enumerate(shares or [[]])
    ]
    found = Found()
    for wait, share in zip(waits, shares or [[]], strict=True):
        try:
            own = wait()
        except ChildProcessError:
            names = ", ".join(case.name for case in share)
            own = Found([Row("no fault", names, wrong=1, findings=["a job of the harness failed"])])
        found.rows += own.rows
        found.planted |= own.planted
    order = {
        name: place for own in (list(KINDS), [case.name for case in wanted.cases]) for place, name in enumerate(own)
    }
    found.rows.sort(key=lambda row: (order.get(row.kind, -1), order.get(row.case, -1)))
    return found


def _job(wanted: Wanted, world: World, job: int, share: Sequence[Case], base: Path, injector: Injector) -> Found:
    root, scratch = base / "root", base / f"scratch-{job}"
    scratch.mkdir()
    injector.own_state(scratch)
    child.import_everything(with_export=any(case.exports for case in share))
    children, program = Children(root, scratch, injector), Program(root, scratch, injector)
    place = Place(children, root / f"work-{job}", random.Random(f"{wanted.seed} {job}"), wanted.short)
    kinds = {kind: KINDS[kind] for kind in KINDS if kind in wanted.kinds}
    forks = any(not entry.installed for entry in kinds.values())
    prepared = _prepared(share, children, place.work) if forks else []
    installed = []
    if job == 0 and any(entry.installed for entry in kinds.values()):
        installed = [prepare(case, program.run, root / "real" / case.name, place.work) for case in real_cases(world)]
    trials = [
        Trial(Place(program, place.work, place.random) if entry.installed else place, one, Row(kind, one.case.name))
        for kind, entry in kinds.items()
        for one in (installed if entry.installed else prepared)
        if entry.applies(one.case)
    ]
    gc.freeze()  # so that a forked process does not copy what it only looks at
    found = Found()
    runs = [one for one in prepared if not one.case.exports]
    if wanted.plants and job == 0 and runs:
        for plant in PLANTS:
            if (was := finds(plant, place, runs[0], wanted.until)) is not None:
                found.planted[plant.bug] = was
        say(f"{sum(found.planted.values())} of {len(found.planted)} planted bugs were found")
    place.random.shuffle(trials)
    found.rows = _rounds(trials, wanted)
    return found


def _prepared(cases: Sequence[Case], children: Children, work: Path) -> list[Prepared]:
    """The cases run undisturbed; what they import late is imported here."""
    children.learning = True
    found = []
    for case in cases:
        found.append(prepare(case, children.run, children.root / "cases" / case.name, work))
        children.learn_imports()
    children.learning = False
    return found


def _rounds(trials: Sequence[Trial], wanted: Wanted) -> list[Row]:
    """Let every row have faults in turn, until the time is over or nothing is left to try.

    Loops over all calls come to an end, so they have most of the time until then.
    """
    rows = [trial.row for trial in trials]
    running = [(trial.row, KINDS[trial.row.kind], KINDS[trial.row.kind].faults(trial)) for trial in trials]
    said = time.monotonic()
    seconds = 0.0  # in the first round each row has one fault
    while running and time.monotonic() < wanted.until:
        still = []
        for row, entry, source in running:
            if time.monotonic() >= wanted.until:
                break
            own = seconds if wanted.short or not seconds or not entry.ends else _LOOP_SLICE
            if _slice(row, source, min(wanted.until, time.monotonic() + own * entry.weight), wanted.most):
                still.append((row, entry, source))
            if time.monotonic() - said > _LINE_EVERY:
                said = time.monotonic()
                say(f"{table.totals(rows)}; {max(0.0, wanted.until - said) / 60:.1f} min left")
        running = still
        looping = any(entry.ends for _, entry, _ in running)
        seconds = _SHORT_SLICE if wanted.short or looping else _SLICE
    return rows


def _slice(row: Row, source: Iterator[None], latest: float, most: int | None) -> bool:
    """Let a row have at least one fault; whether it can have more."""
    while most is None or row.faults < most:
        try:
            next(source)
        except StopIteration:
            return False
        except Exception as error:  # noqa: BLE001 - the other rows go on
            row.wrong += 1
            row.findings.append(f"the harness failed: {type(error).__name__}: {error}")
            return False
        if time.monotonic() >= latest:
            return True
    return False


def say(text: str) -> None:
    """One line on stderr."""
    print(f"torture: {text}", file=sys.stderr, flush=True)
