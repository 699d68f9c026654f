"""`make torture`: disturb runs in every way, resume them, and compare with undisturbed ones."""

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from . import faults, table
from .cases import cases
from .jobs import Found, Injector, Wanted, in_jobs, say
from .kinds import KINDS
from .ray_cluster import RAY
from .ray_cluster import rows as ray_rows
from .trial import in_fork
from .world import World, build_world

_SHORT_MINUTES, _LONG_MINUTES = 1.8, 60.0
_FAILED = 1


def main() -> int:
    """Run the kinds of faults that were asked for, print the table; returns the exit status."""
    options = _options()
    until = _began() + 60 * options.minutes
    base = Path(os.environ["NEGENGINE_TORTURE_FOLDER"]) if "NEGENGINE_TORTURE_FOLDER" in os.environ else None
    if base is None:
        base = Path(tempfile.mkdtemp(prefix="negengine-torture-", dir=options.folder or _fast_folder()))
        os.environ["NEGENGINE_TORTURE_FOLDER"] = str(base)
    try:
        injector = faults.load(base)
        found = _torture(options, base, injector, until)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    rows, planted = found.rows, found.planted
    known = sum(planted.values())
    check = f"{known} of {len(planted)} planted bugs were found" if planted else "no bugs were planted"
    lines = [table.plain(rows), *(f"- {text}" for text in table.findings(rows)), table.bound(rows)]
    lines += [f"not found: {bug}" for bug, was_found in planted.items() if not was_found]
    print("\n".join(filter(None, [*lines, check])))
    print(table.totals(rows))
    return 0 if table.is_clean(rows) and known == len(planted) else _FAILED


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("make torture", description=__doc__)
    parser.add_argument("--short", action="store_true", help="two minutes; otherwise an hour")
    parser.add_argument("--minutes", type=float, help="how long in all")
    kinds = [*KINDS, RAY]
    parser.add_argument(
        "--only", metavar="KIND", action="append", choices=kinds, help="a kind of fault; may be given again"
    )
    parser.add_argument("--skip", metavar="KIND", action="append", default=[], choices=kinds, help="not this kind")
    parser.add_argument("--case", action="append", help="a command of the table, such as 'score fp32'; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn (default 0)")
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes that test at the same time"
    )
    parser.add_argument(
        "--folder", type=Path, help="where to work (default: a file system in memory, or the temporary folder)"
    )
    parser.add_argument("--faults", type=int, metavar="N", help="at most N faults for each row")
    parser.add_argument("--world", type=Path, help="a folder with the inputs of an earlier call, or for them")
    options = parser.parse_args()
    if options.minutes is None:
        options.minutes = _SHORT_MINUTES if options.short else _LONG_MINUTES
    options.short = options.short or options.minutes < 10
    return options


def _began() -> float:
    """When this process began, in seconds of `time.monotonic`; it starts again with the library of faults."""
    os.environ.setdefault("NEGENGINE_TORTURE_BEGAN", str(time.monotonic()))
    return float(os.environ["NEGENGINE_TORTURE_BEGAN"])


def _fast_folder() -> Path | None:
    """A large file system in memory, if there is one: power cuts are simulated, so no disk has to be waited for."""
    memory = Path("/dev/shm")  # noqa: S108
    with suppress(OSError):
        if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30:
            return memory
    return None


def _torture(options: argparse.Namespace, base: Path, injector: Injector, until: float) -> Found:
    """The rows of the table, and whether each planted bug was found."""
    root = base / "root"
    world = _world(root / "world", options.world)
    usual = [*KINDS, *([] if options.short else [RAY])]
    wanted = Wanted(
        kinds=[kind for kind in options.only or usual if kind not in options.skip],
        cases=[case for case in cases(world) if not options.case or case.name in options.case],
        until=until,
        seed=options.seed,
        short=options.short,
        most=options.faults,
        plants=not options.only,
    )
    on_ray = min(600.0, 10 * options.minutes) if RAY in wanted.kinds else 0.0
    wanted = replace(wanted, until=until - on_ray)
    found = Found()
    if set(wanted.kinds) != {RAY}:
        say(f"disturbing runs for {max(0.0, wanted.until - time.monotonic()) / 60:.1f} min")
        found = in_jobs(wanted, world, options.jobs, base, injector)
    if RAY in wanted.kinds:
        say("disturbing runs on a Ray cluster")
        found.rows.extend(ray_rows(world.folder, on_ray / 60, options.seed))
    return found


def _world(folder: Path, kept: Path | None) -> World:
    """The inputs: built, or those of an earlier call."""
    if kept is not None and kept.exists():
        shutil.copytree(kept, folder)
        return World(folder)
    say("building a tiny model and its export")
    in_fork(lambda: build_world(folder) and None)
    if kept is not None:
        shutil.copytree(folder, kept)
    return World(folder)


if __name__ == "__main__":
    sys.exit(main())
