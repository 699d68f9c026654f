"""`make mutation`: how many small changes of the code do the tests notice?

Mutants are drawn by a seed, in turn from each group, until the time is over. So the sample of each group is random, and
its score has an interval. A mutant is killed if a test fails, or if one takes far longer than it does on the code as it
is. The tests that run the changed line come first. A mutant has survived if all tests of its group have passed.
"""

import argparse
import datetime as dt
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue

from negengine.engine.statistics import proportion

from .groups import GROUPS, ROOT, all_tests, tests_of
from .mutants import Mutant, Spot, spots
from .results import Result, Results
from .trials import Collected, Copy, Trial, preload

_TIMES, _GRACE = 5, 20.0  # a test may take so many times as long as on the code as it is, and so many seconds more


def main() -> int:
    """Test mutants and print the survivors and the scores; returns the exit status."""
    options = _options()
    begun = time.monotonic()
    preload()
    modules = {group: GROUPS[group] for group in GROUPS if group in options.group}
    texts = {module: (ROOT / module).read_text("utf-8") for own in modules.values() for module in own}
    population = {group: [spot for name in own for spot in spots(name, texts[name])] for group, own in modules.items()}
    chosen = [
        [
            (group, spot)
            for spot in random.Random(f"{options.seed} {group}").sample(own, len(own))
            if _wanted(spot, options)
        ]
        for group, own in population.items()
    ]
    order = [found for turn in zip_longest(*chosen) for found in turn if found is not None][: options.sample]
    base = Path(tempfile.mkdtemp(prefix="negengine-mutation-")).resolve()
    try:
        results = _test(order, texts, base, options, begun + 60 * options.minutes)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(_table(population, results))
    command = shlex.join(["make", "mutation", *([f"ARGS={shlex.join(sys.argv[1:])}"] if sys.argv[1:] else [])])
    print(f"{dt.datetime.now(dt.UTC).date()}, {command}, {(time.monotonic() - begun) / 60:.0f} minutes")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("make mutation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="for how long mutants are tested (default: 20)")
    parser.add_argument("--sample", type=int, help="how many mutants at most (default: all that the time allows)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS), help="(default: all)")
    parser.add_argument("--only", nargs="+", help="these mutants alone, by path and line: part.py:76")
    parser.add_argument("--log", type=Path, help="a file for results; a second call skips those killed before")
    return parser.parse_args()


def _wanted(spot: Spot, options: argparse.Namespace) -> bool:
    return options.only is None or f"{spot.module}:{spot.start[0]}".endswith(tuple(options.only))


@dataclass
class _Usual:
    """What the tests of all groups do on the code as it is."""

    seconds: dict[str, float] = field(default_factory=dict)  # test → how long it takes
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)  # module → line → the tests that run it

    def limits(self) -> dict[str, float]:
        """Test → how long it may take."""
        return {name: _TIMES * seconds + _GRACE for name, seconds in self.seconds.items()}

    def first(self, tests: list[str], module: str, line: int) -> list[str]:
        """The tests that run a line, the shortest first, then the others."""
        lines = self.lines.get(module, {})
        begin = max((own for own in lines if own <= line), default=0)  # an expression can have several lines
        running = {*lines.get(begin, []), *lines.get(line, [])}
        return sorted(tests, key=lambda name: (name not in running, self.seconds.get(name, 0.0)))


def _test(
    order: list[tuple[str, Spot]], texts: dict[str, str], base: Path, options: argparse.Namespace, until: float
) -> list[Result]:
    groups = tuple(dict.fromkeys(group for group, _ in order))
    files = all_tests(groups)
    results, usual = Results(options.log), _Usual()
    with ThreadPoolExecutor(options.jobs) as pool:

        def collect(number: int) -> tuple[Copy, Collected]:
            copy = Copy(base / str(number), base / "temporary")
            return copy, Collected(copy, files)

        def unchanged(group: str, *, watched: bool) -> None:
            """All tests of a group in their order, and in that of trials: they must not depend on each other."""
            copy, collected = free.get()
            tests = [name for file in all_tests((group,)) for name in collected.tests[file]]
            if not watched:
                tests.sort(key=usual.seconds.__getitem__)
            outcome = collected.run(Trial(tests, watched=GROUPS[group] if watched else ()))
            free.put((copy, collected))
            if outcome.failed is not None:
                raise SystemExit(f"without a change: {outcome.failed}\n{copy.end_of_log()}")
            usual.lines.update(outcome.lines)
            for name, seconds in outcome.seconds.items():
                usual.seconds[name] = max(seconds, usual.seconds.get(name, 0.0))

        def test(found: tuple[str, Spot]) -> Result | None:
            group, spot = found
            if time.monotonic() > until or (mutant := spot.draw(texts[spot.module], options.seed)) is None:
                return None
            if (known := results.killed(mutant)) is not None:
                return known
            copy, collected = free.get()
            begun = time.monotonic()
            failed = _failed(copy, collected, usual, tests_of(group, spot.module), mutant)
            free.put((copy, collected))
            return results.add(Result.of(group, mutant, failed, time.monotonic() - begun))

        free: SimpleQueue[tuple[Copy, Collected]] = SimpleQueue()
        for copy, collected in pool.map(collect, range(options.jobs)):
            if collected.failed is not None:
                raise SystemExit(f"{collected.failed}\n{copy.end_of_log()}")
            free.put((copy, collected))
        for watched in (True, False):
            list(pool.map(lambda group, own=watched: unchanged(group, watched=own), groups))
        print(f"{len(usual.seconds)} tests pass on the code as it is", flush=True)
        tested = [result for result in pool.map(test, order) if result is not None]
        try:  # are the copies still as they should be, and the folders that all trials share?
            list(pool.map(lambda group: unchanged(group, watched=False), groups))
        except SystemExit as error:
            print(f"these results are not valid, as a mutant has left something behind: {error}")
        while not free.empty():
            free.get()[1].close()
    return tested


def _failed(copy: Copy, collected: Collected, usual: _Usual, files: tuple[str, ...], mutant: Mutant) -> str | None:
    """Why the tests of some files do not pass on a mutant; None if they all pass."""
    limits = usual.limits()

    def trial(own: Collected, changed: Mutant | None) -> Trial:
        tests = [name for file in files for name in own.tests[file]]
        return Trial(usual.first(tests, mutant.module, mutant.line), limits, changed)

    with copy.holding(mutant):
        outcome = collected.run(trial(collected, mutant))
        if outcome.in_place:
            return outcome.failed
        imported = Collected(copy, files)
        try:
            return imported.failed or imported.run(trial(imported, None)).failed
        finally:
            imported.close()


def _table(population: dict[str, list[Spot]], results: list[Result]) -> str:
    lines = [f"{'group':<12}{'places':>8}{'tested':>8}{'killed':>8}{'survived':>10}   score (95 % interval)"]
    for group in [*population, "all"]:
        own = [result for result in results if group in {result.group, "all"}]
        places = sum(len(found) for name, found in population.items() if group in {name, "all"})
        killed = sum(result.failed is not None for result in own)
        score = "none"
        if own:
            value, low, high = proportion(killed, len(own))
            score = f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
        lines.append(f"{group:<12}{places:>8}{len(own):>8}{killed:>8}{len(own) - killed:>10}   {score}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
