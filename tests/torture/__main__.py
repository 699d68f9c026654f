"""`make torture`: disturb runs in every way, resume them, and compare with undisturbed ones."""

import argparse
import gc
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from negengine.engine.basics import atomic
from negengine.engine.cli import main as program
from negengine.engine.runs import folder

from . import faults
from .cases import Case, Prepared, build_world, cases, prepare
from .child import Children, in_fork, make_parts_small
from .faults import Injector
from .kinds import KINDS, Kind
from .trial import Place, Row, Trial, say

_SHORT_MINUTES, _LONG_MINUTES = 1.8, 60.0
Found = tuple[list[Row], dict[str, bool]]  # the rows of the table, and whether each planted bug was found


def main() -> int:
    options = _options()
    base = faults.load()
    try:
        rows, planted = _torture(options, base, Injector())
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print("fault | command | faults | survived | rows lost or doubled | wrong | note")
    for row in rows:
        print(row.kind, row.case, row.faults, row.survived, row.rows, row.wrong, row.note, sep=" | ")
    for row in [row for row in rows if row.findings]:
        print(f"- {row.kind}, {row.case}: {row.findings[0]}" + f" (and {len(row.findings) - 1} more)")
    n, is_clean = sum(row.faults for row in rows), not any(row.rows or row.wrong for row in rows)
    if is_clean and n:
        print(
            f"No failure in {n:,} faults bounds the chance of damage by one at {300 / n:.2g} % (95 %, one-sided: 3/N)"
        )
    for bug in [bug for bug, was_found in planted.items() if not was_found]:
        print(f"not found: {bug}")
    known = sum(planted.values())
    print(f"{known} of {len(planted)} planted bugs were found" if planted else "no bugs were planted")
    print(_totals(rows))
    return 0 if is_clean and n and known == len(planted) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("make torture", description=__doc__)
    add = parser.add_argument
    add("--short", action="store_true", help="two minutes; otherwise an hour")
    add("--minutes", type=float, help="how long in all")
    add("--only", metavar="KIND", action="append", choices=[*KINDS], help="a kind of fault; may be given again")
    add("--case", action="append", help="a command of the table, such as 'score fp32'; may be repeated")
    add("--seed", type=int, default=0, help="of everything that is drawn (default 0)")
    add("--faults", type=int, metavar="N", help="at most N faults for each row")
    options = parser.parse_args()
    options.minutes = options.minutes or (_SHORT_MINUTES if options.short else _LONG_MINUTES)
    options.kinds = options.only or [*KINDS]
    return options


def _torture(options: argparse.Namespace, base: Path, injector: Injector) -> Found:
    world = base / "root" / "world"
    say("building a tiny model and its export")
    in_fork(partial(build_world, world))()
    options.until = time.monotonic() + 60 * options.minutes
    wanted = [case for case in cases(world) if not options.case or case.name in options.case]
    runs, exports = ([case for case in wanted if case.exports is kind] for kind in (False, True))
    shares = [runs[::2], runs[1::2], exports]  # of the processes that test at the same time
    kinds = [kind for kind in KINDS if kind in options.kinds]
    rows, planted = list[Row](), dict[str, bool]()
    jobs = [partial(_job, options, base, world, number, share, injector) for number, share in enumerate(shares)]
    waits = [in_fork(job) for number, job in enumerate(jobs) if kinds and (not number or shares[number])]
    for wait in waits:
        try:
            found, own = wait()
        except EOFError:
            found, own = [Row("no fault", "a job", wrong=1, findings=["a job of the harness failed"])], {}
        rows, planted = rows + found, planted | own
    order = [*kinds, *(case.name for case in wanted)]
    rows.sort(key=lambda row: [order.index(name) if name in order else -1 for name in (row.kind, row.case)])
    return rows, planted


def _job(
    options: argparse.Namespace, base: Path, world: Path, number: int, share: Sequence[Case], injector: Injector
) -> Found:
    """Disturb some commands; the first job has the planted bugs, too."""
    root, scratch = base / "root", base / f"scratch-{number}"
    scratch.mkdir()
    injector.own_state(scratch)
    make_parts_small()
    draw, work = random.Random(f"{options.seed} {number}"), root / f"work-{number}" / "run"
    kinds, planted = {name: kind for name, kind in KINDS.items() if name in options.kinds}, dict[str, bool]()
    children = Children(root, scratch, injector)
    place, prepared = Place(children, work, draw), [prepare(case, children, root / case.name, work) for case in share]
    trials = [
        Trial(place, one, Row(name, one.case.name))
        for name, kind in kinds.items()
        for one in prepared
        if kind.applies(one.case)
    ]
    for plant in PLANTS if number == 0 and prepared and not options.only else ():
        if (was_found := finds(plant, place, prepared[0], options.until)) is not None:
            planted[plant.bug] = was_found
    gc.freeze()  # so that a forked process does not copy what it only looks at
    draw.shuffle(trials)
    # Every row has faults in turn, until the time is over or nothing is left to try.
    running = [(trial.row, KINDS[trial.row.kind], KINDS[trial.row.kind].tries(trial)) for trial in trials]
    seconds = 0.0  # in the first round each row has one fault
    while running and time.monotonic() < options.until:
        still = list[tuple[Row, Kind, Iterator[None]]]()
        for row, kind, tries in running:
            if time.monotonic() >= options.until:
                break
            if _slice(row, tries, time.monotonic() + seconds * kind.weight, options):
                still.append((row, kind, tries))
        running, seconds = still, 1.0
        say(f"{_totals([trial.row for trial in trials])}; {(options.until - time.monotonic()) / 60:.1f} min left")
    return [trial.row for trial in trials], planted


def _slice(row: Row, tries: Iterator[None], latest: float, options: argparse.Namespace) -> bool:
    """Let a row have at least one fault; whether it can have more."""
    while options.faults is None or row.faults < options.faults:
        try:
            next(tries)
        except StopIteration:
            return False
        except Exception as error:  # noqa: BLE001 - the other rows go on
            row.wrong += 1
            row.findings.append(f"the harness failed: {type(error).__name__}: {error}")
            return False
        if time.monotonic() >= min(latest, options.until):
            return True
    return False


def _totals(rows: Sequence[Row]) -> str:
    names = ("faults", "survived", "rows", "wrong")
    faults, survived, lost, wrong = (sum(getattr(row, name) for row in rows) for name in names)
    return f"{faults:,} faults, {survived:,} survived, {lost:,} rows lost or doubled, {wrong:,} wrong"


@dataclass(frozen=True)
class Plant:
    """A bug that is planted, as a table without failures says nothing otherwise; and the fault that must find it."""

    bug: str
    put: Callable[[], object]  # changes the engine in this process
    found_by: str  # a kind of fault
    loses_rows: bool = False  # whether rows must be counted as lost or doubled


def finds(plant: Plant, place: Place, prepared: Prepared, until: float) -> bool | None:
    """Whether the harness finds a planted bug in a few faults; None if the time is over before that."""

    def tried() -> bool | None:
        plant.put()
        row = Row("planted", prepared.case.name)
        for _ in KINDS[plant.found_by].tries(Trial(place, prepared, row)):
            if row.wrong and (row.rows or not plant.loses_rows):
                return True
            if row.faults >= 200:
                break
            if time.monotonic() > until:
                return None
        return False

    return in_fork(tried)()


def _doubled_rows() -> None:
    import polars as pl

    put_together = folder.put_together

    def doubled(*arguments: Any) -> Any:
        whole = put_together(*arguments)
        return replace(whole, rows=pl.concat([whole.rows, whole.rows.head(2)]))

    folder.put_together = doubled


PLANTS = (
    Plant("files are renamed unflushed", partial(setattr, atomic, "_flush", lambda path: None), "power-cut"),
    Plant(
        "a refused run ends with 0",
        lambda: setattr(program, "run", lambda run=program.run: run() and 0),
        "error-lasting",
    ),
    Plant("an error of the disk is a traceback", partial(setattr, atomic, "unwritable", None), "error-once"),
    Plant("a run has two rows twice", _doubled_rows, "kill-calls", loses_rows=True),
)


if __name__ == "__main__":
    sys.exit(main())
