"""`make mutation`: how many small changes of the code do the tests notice?

Mutants are drawn by a seed, in turn from each group, until the time is over. So the sample of each group is random, and
its score has an interval. A mutant is killed if a test fails, or if its tests take twice as long as those of the group.
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
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue

from negengine.engine.statistics import proportion

from .groups import GROUPS, ROOT, TESTS, own_tests
from .mutants import Mutant, Spot, spots
from .trials import Copy, preload

_TIMES, _GRACE = 2, 20.0  # a trial may take so many times as long as all tests of the group, and so many seconds more


@dataclass(frozen=True)
class _Result:
    group: str
    mutant: Mutant
    killed: bool


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
    base = Path(tempfile.mkdtemp(prefix="negengine-mutation-"))
    try:
        results = _test(order, texts, base, options, begun)
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
    parser.add_argument("--only", help="a part of the module's path, and a line: part.py:76, for one mutant again")
    return parser.parse_args()


def _wanted(spot: Spot, options: argparse.Namespace) -> bool:
    return options.only is None or options.only in f"{spot.module}:{spot.start[0]}"


def _test(
    order: list[tuple[str, Spot]], texts: dict[str, str], base: Path, options: argparse.Namespace, begun: float
) -> list[_Result]:
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(options.jobs):
        copies.put(Copy(base / str(number)))
    usual: dict[str, float] = {}

    def unchanged(group: str) -> None:
        modules = dict.fromkeys(spot.module for found, spot in order if found == group)
        everything = dict.fromkeys(name for module in modules for tests in _tests(group, module) for name in tests)
        copy, started = copies.get(), time.monotonic()
        if not copy.passes(tuple(everything), 1_200):
            raise SystemExit(f"the tests of {group} do not pass without a change:\n{copy.log()}")
        usual[group] = time.monotonic() - started
        copies.put(copy)

    def test(group: str, spot: Spot) -> _Result | None:
        if time.monotonic() - begun > 60 * options.minutes:
            return None
        if (mutant := spot.draw(texts[spot.module], options.seed)) is None:
            return None
        copy = copies.get()
        killed = not all(
            copy.passes(tests, _TIMES * usual[group] + _GRACE, mutant) for tests in _tests(group, spot.module)
        )
        copies.put(copy)
        if not killed:
            place = f"{mutant.module}:{mutant.line} {mutant.operator}"
            print(f"survived: {place}\n  - {mutant.before}\n  + {mutant.after}", flush=True)
        return _Result(group, mutant, killed)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(unchanged, dict.fromkeys(group for group, _ in order)))
        return [result for result in pool.map(lambda found: test(*found), order) if result is not None]


def _tests(group: str, module: str) -> list[tuple[str, ...]]:
    """What a mutant is given to: the module's own tests, then those of its group."""
    return list(dict.fromkeys(filter(None, (own_tests(module), TESTS[group]))))


def _table(population: dict[str, list[Spot]], results: list[_Result]) -> str:
    lines = [f"{'group':<12}{'places':>8}{'tested':>8}{'killed':>8}{'survived':>10}   score (95 % interval)"]
    for group in [*population, "all"]:
        own = [result for result in results if group in {result.group, "all"}]
        places = sum(len(found) for name, found in population.items() if group in {name, "all"})
        killed = sum(result.killed for result in own)
        score = "none"
        if own:
            value, low, high = proportion(killed, len(own))
            score = f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
        lines.append(f"{group:<12}{places:>8}{len(own):>8}{killed:>8}{len(own) - killed:>10}   {score}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
