"""Processes that torture at the same time, each its own commands, row after row in turn."""

import gc
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import child, table
from .bench import Bench
from .cases import Case, Prepared, prepare, real_cases
from .child import Children, Ended
from .faults import Injector
from .kinds import KINDS, LOOPS, REAL
from .plants import PLANTS, finds
from .stops import real_commands
from .table import Row
from .world import World

_LINE_EVERY = 30.0  # seconds
_SHORT_SLICE, _SLICE, _LOOP_SLICE = 1.0, 4.0, 12.0  # seconds of a row in one round
_REAL_WEIGHT = 3


@dataclass(frozen=True)
class Wanted:
    """What to torture, and for how long."""

    kinds: Sequence[str]  # names of `KINDS`, and `REAL`
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
    if not shares:
        shares = [[]]
    pids, files = [], [base / f"found-{job}" for job in range(len(shares))]
    for job, (share, path) in enumerate(zip(shares, files, strict=True)):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                scratch = base / f"scratch-{job}"
                scratch.mkdir()
                injector.own_state(scratch)
                path.write_bytes(pickle.dumps(_job(wanted, world, job, share, base, injector)))
                status = 0
            except Exception as error:  # noqa: BLE001 - told in one line; the other jobs go on
                say(f"{type(error).__name__}: {error}")
            finally:
                os._exit(status)
        pids.append(pid)
    try:
        failed = [os.waitpid(pid, 0)[1] for pid in pids]
    except BaseException:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        raise
    found = Found()
    for path, status, share in zip(files, failed, shares, strict=True):
        if status:
            names = ", ".join(case.name for case in share)
            found.rows.append(Row("no fault", names, wrong=1, findings=["a job of the harness failed"]))
            continue
        own: Found = pickle.loads(path.read_bytes())  # noqa: S301 - from a process that was forked here
        found.rows += own.rows
        found.planted |= own.planted
    kinds = [*KINDS, REAL]
    names = [case.name for case in wanted.cases]
    order = {name: place for own in (kinds, names) for place, name in enumerate(own)}
    found.rows.sort(key=lambda row: (order.get(row.kind, -1), order.get(row.case, -1)))
    return found


def _job(wanted: Wanted, world: World, job: int, share: Sequence[Case], base: Path, injector: Injector) -> Found:
    root, scratch = base / "root", base / f"scratch-{job}"
    child.import_everything(with_export=any(case.exports for case in share))
    children = Children(root, scratch, injector)
    work = root / f"work-{job}"
    prepared = _prepared(share, children, work) if set(wanted.kinds) & {*KINDS} else []
    tasks = [(kind, one) for kind in KINDS if kind in wanted.kinds for one in prepared if KINDS[kind].applies(one.case)]
    if REAL in wanted.kinds and job == 0:
        tasks += [(REAL, prepare(case, _run_really, root / "real" / case.name, work)) for case in real_cases(world)]
    gc.freeze()  # so that a forked process does not copy what it only looks at
    bench = Bench(children, work, random.Random(f"{wanted.seed} {job}"), wanted.short)
    found = Found()
    if wanted.plants and job == 0 and prepared:
        for plant in PLANTS:
            if (was := finds(plant, bench, prepared[0], wanted.until)) is not None:
                found.planted[plant.bug] = was
        say(f"{sum(found.planted.values())} of {len(found.planted)} planted bugs were found")
    bench.random.shuffle(tasks)
    found.rows = _rounds(bench, tasks, wanted)
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


def _run_really(arguments: Sequence[str], folder: Path) -> Ended:
    return child.ended(child.real_command(arguments, folder))


def _rounds(bench: Bench, tasks: Sequence[tuple[str, Prepared]], wanted: Wanted) -> list[Row]:
    """Let every row have faults in turn, until the time is over or nothing is left to try.

    Loops over all calls come to an end, so they have most of the time until then.
    """
    rows = [Row(kind, prepared.case.name) for kind, prepared in tasks]
    running = [
        (row, KINDS[kind].weight, KINDS[kind].faults(bench, prepared, row))
        if kind in KINDS
        else (row, _REAL_WEIGHT, real_commands(bench, prepared, row))
        for row, (kind, prepared) in zip(rows, tasks, strict=True)
    ]
    said = time.monotonic()
    seconds = 0.0  # in the first round each row has one fault
    while running and time.monotonic() < wanted.until:
        still = []
        for row, weight, source in running:
            if time.monotonic() >= wanted.until:
                break
            own = seconds if wanted.short or not seconds or row.kind not in LOOPS else _LOOP_SLICE
            if _slice(row, source, min(wanted.until, time.monotonic() + own * weight), wanted.most):
                still.append((row, weight, source))
            if time.monotonic() - said > _LINE_EVERY:
                said = time.monotonic()
                say(f"{table.totals(rows)}; {max(0.0, wanted.until - said) / 60:.1f} min left")
        running = still
        looping = any(row.kind in LOOPS for row, *_ in running)
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
