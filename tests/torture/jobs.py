"""Rows of the table, worked at in turn by some processes at the same time."""

import argparse
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import Iterator

from . import table
from .bench import Bench
from .cases import Prepared
from .child import Children
from .kinds import KINDS, REAL
from .stops import real_commands
from .table import Row

_LINE_EVERY = 30.0  # seconds
_SHORT_SLICE, _SLICE = 1.0, 5.0  # seconds of a row in one round
_REAL_WEIGHT = 3

Task = tuple[str, Prepared]


def tasks_of(kinds: list[str], prepared: list[Prepared], real: list[Prepared]) -> list[Task]:
    """The rows of the table."""
    found = [(kind, one) for kind in KINDS if kind in kinds for one in prepared if KINDS[kind].applies(one.case)]
    return [*found, *((REAL, one) for one in real)]


def in_jobs(options: argparse.Namespace, tasks: list[Task], children: Children, until: float) -> list[Row]:
    """All rows, each in one of some processes that work at the same time."""
    jobs = max(1, min(options.jobs, len(tasks)))
    order = random.Random(options.seed).sample(range(len(tasks)), len(tasks))
    pids, files = [], [children.scratch / f"rows-{job}" for job in range(jobs)]
    for job, path in enumerate(files):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                children.injector.own_state()
                draws = random.Random(f"{options.seed} {job}")
                bench = Bench(children, children.root / f"work-{job}", draws, options.short)
                own = {number: tasks[number] for number in order[job::jobs]}
                path.write_bytes(pickle.dumps(rounds(bench, own, until, options.faults)))
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    try:
        for pid in pids:
            os.waitpid(pid, 0)
    except BaseException:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        raise
    found: dict[int, Row] = {}
    for path in files:
        found |= pickle.loads(path.read_bytes())  # noqa: S301 - from a process that was forked here
    return [found[number] for number in sorted(found)]


def rounds(bench: Bench, tasks: dict[int, Task], until: float, most: int | None) -> dict[int, Row]:
    """Let every row have faults in turn, until the time is over or nothing is left to try.

    Args:
        bench: Where.
        tasks: The rows, by their place in the table.
        until: When the time is over, in seconds of `time.monotonic`.
        most: Faults of a row.
    """
    rows = {number: Row(kind, prepared.case.name) for number, (kind, prepared) in tasks.items()}
    running = {number: _faults(bench, task, rows[number]) for number, task in tasks.items()}
    said = time.monotonic()
    seconds = 0.0  # in the first round each row has one fault
    while running and time.monotonic() < until:
        for number in list(running):
            kind = tasks[number][0]
            latest = time.monotonic() + seconds * (KINDS[kind].weight if kind in KINDS else _REAL_WEIGHT)
            while _next(running[number], rows[number]) and (most is None or rows[number].faults < most):
                if time.monotonic() >= min(latest, until):
                    break
            else:
                del running[number]
            if time.monotonic() - said > _LINE_EVERY:
                said = time.monotonic()
                left = max(0.0, until - said) / 60
                say(f"{table.totals(list(rows.values()))}; {len(running)} rows go on, {left:.1f} min left")
            if time.monotonic() >= until:
                break
        seconds = _SHORT_SLICE if bench.short else _SLICE
    return rows


def _next(faults: Iterator[None], row: Row) -> bool:
    """Let the next fault happen; False if there is none."""
    try:
        next(faults)
    except StopIteration:
        return False
    except Exception as error:  # noqa: BLE001 - the other rows go on
        row.wrong += 1
        row.findings.append(f"the harness failed: {type(error).__name__}: {error}")
        return False
    return True


def _faults(bench: Bench, task: Task, row: Row) -> Iterator[None]:
    kind, prepared = task
    yield from KINDS[kind].faults(bench, prepared, row) if kind in KINDS else real_commands(bench, prepared, row)


def say(text: str) -> None:
    """One line on stderr."""
    print(f"torture: {text}", file=sys.stderr, flush=True)
