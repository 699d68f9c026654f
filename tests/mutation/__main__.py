"""`make mutation`: how many small changes of the code do the tests notice?

Cosmic Ray makes the mutants and runs the tests. They are drawn by a seed, in turn from each group, until the time is
over. It has up to eleven replacements of one operator, and most tests find all or none of them: a place counts once.
"""

import argparse
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path

from cosmic_ray import plugins
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome
from negengine.engine.statistics.intervals import proportion
from parso.python.tree import Name

from .groups import GROUPS, ROOT, tests_of

_PYTEST = "-m pytest -x -q --no-header -p no:cacheprovider -p no:xdist --hypothesis-seed=0"
_TIMES, _GRACE = 5, 20.0  # tests may take so many times as long as on the code as it is, and so many seconds more
# Not `|`, which stands in type hints, nor `is` for `==`: whether they do the same depends on Python alone.
_SKIPPED = re.compile("BitOr|Operator_(?!Is).*_Is(Not)?$")


class RemoveCall(Operator):
    """Leave out a call that stands alone, such as one that writes a file; Cosmic Ray does not have this operator."""

    def mutation_positions(self, node):
        is_alone = node.type in {"atom_expr", "power"} and node.parent.type == "simple_stmt"
        if is_alone and node.children[-1].type == "trailer":
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return Name("pass", node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls):
        return ()


plugins.OPERATOR_PROVIDERS["own"] = {"RemoveCall": RemoveCall}


def main() -> None:
    parser = argparse.ArgumentParser("make mutation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="for how long mutants are tested (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS), help="(default: all)")
    parser.add_argument("--only", nargs="+", default=[""], help="these mutants alone, by path and line: part.py:76")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    os.chdir(ROOT)
    drawn = [[(group, spec) for spec in _sample(group, options)] for group in options.group]
    order = [found for turn in zip_longest(*drawn) for found in turn if found]
    scores = {group: list[bool]() for group in options.group}
    with (
        tempfile.TemporaryDirectory(prefix="negengine-mutation-") as base,
        ProcessPoolExecutor(options.jobs, initializer=_enter_a_copy, initargs=(base,)) as pool,
    ):
        files = dict.fromkeys(tests_of(group, str(spec.module_path)) for group, spec in order)
        limits = dict(zip(files, pool.map(_seconds, files), strict=True))
        print(f"the tests of {len(files)} modules pass on the code as it is", flush=True)
        tasks = [(spec, own := tests_of(group, str(spec.module_path)), limits[own], until) for group, spec in order]
        for (group, spec), diff in zip(order, pool.map(_survives, tasks), strict=True):
            scores[group] += [] if diff is None else [not diff]
            if diff:
                print(f"survived: {spec.module_path}:{spec.start_pos[0]} {spec.operator_name}\n{diff}", flush=True)
    scores["all"] = [killed for own in scores.values() for killed in own]
    for group, killed in scores.items():
        n, value = len(killed), proportion(sum(killed), len(killed)) if killed else [float("nan")] * 3
        score, low, high = (100 * each for each in value)
        print(f"{group:<12}{n:>6} tested{sum(killed):>6} killed   {score:.1f} % ({low:.1f} to {high:.1f})")


def _sample(group: str, options: argparse.Namespace) -> list[MutationSpec]:
    """One mutant of each place of a group's modules, in a random order."""
    with use_db(":memory:", WorkDB.Mode.create) as found:
        init([Path(module) for module in GROUPS[group]], found, {})
        specs = [item.mutations[0] for item in found.work_items]
    places: dict[object, list[MutationSpec]] = {}
    for spec in specs:
        kind = spec.operator_name.partition("_")[0]
        line = f"{spec.module_path}:{spec.start_pos[0]}"
        if not _SKIPPED.search(spec.operator_name) and line.endswith(tuple(options.only)):
            places.setdefault((spec.module_path, spec.start_pos, kind), []).append(spec)
    draw = random.Random(f"{options.seed} {group}")
    chosen = [draw.choice(own) for own in places.values()]
    return draw.sample(chosen, len(chosen))


def _enter_a_copy(base: str) -> None:
    """Work in a copy of what git knows, whose modules are imported in the place of the installed ones."""
    copy = Path(tempfile.mkdtemp(dir=base)).resolve()
    subprocess.run(["git", "checkout-index", "--all", f"--prefix={copy}/"], check=True)
    package = copy / "packages" / "negengine"
    package.mkdir(parents=True)
    for path in (*(copy / name for name in ("engine", "export", "bench")), *(copy / "engine/public").iterdir()):
        (package / path.name).symlink_to(path)
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(package.parent), "OMP_NUM_THREADS": "1"}


def _command(tests: tuple[str, ...]) -> str:
    return shlex.join([sys.executable, *_PYTEST.split(), f"--basetemp={Path('temporary').resolve()}", *tests])


def _seconds(tests: tuple[str, ...]) -> float:
    begun = time.monotonic()
    outcome, said = run_tests(_command(tests), 3_600)
    if outcome is not TestOutcome.SURVIVED:
        raise SystemExit(f"without a change: {said[-4_000:]}")
    return _TIMES * (time.monotonic() - begun) + _GRACE


def _survives(task: tuple[MutationSpec, tuple[str, ...], float, float]) -> str | None:
    """The change that no test notices, or nothing; None if the time is over, or the change cannot be made."""
    spec, tests, seconds, until = task
    source = spec.module_path.read_text("utf-8")
    try:
        compile(mutate_code(source, plugins.get_operator(spec.operator_name)(), spec.occurrence), "mutant", "exec")
    except (SyntaxError, AttributeError):  # of Cosmic Ray, for a dotted name of an exception
        return None
    if time.monotonic() > until:
        return None
    result = mutate_and_test([spec], _command(tests), seconds)
    return "" if result.is_killed else result.diff


if __name__ == "__main__":
    main()
