"""`make mutation`: how many small changes of the code do the tests notice?

Mutants are drawn by a seed, in turn from each group, until the time is over. So the sample of each group is random, and
its score has an interval. A mutant is killed if a test fails, or if its tests take far longer than on the code as it
is. A mutant has survived if all tests of its module and its group have passed.
"""

import argparse
import datetime as dt
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue

from negengine.engine.statistics.intervals import proportion

from .groups import GROUPS, ROOT, tests_of
from .mutants import Mutant, Spot, spots

_TIMES, _GRACE = 5, 20.0  # tests may take so many times as long as on the code as it is, and so many seconds more
_PASSED = 0


def main() -> int:
    """Test mutants and print the survivors and the scores; returns the exit status."""
    options = _options()
    begun = time.monotonic()
    groups = {group: GROUPS[group] for group in options.group}
    texts = {module: (ROOT / module).read_text("utf-8") for own in groups.values() for module in own}
    places = {group: [spot for name in own for spot in spots(name, texts[name])] for group, own in groups.items()}
    drawn = [
        [
            (group, spot)
            for spot in random.Random(f"{options.seed} {group}").sample(own, len(own))
            if options.wants(spot)
        ]
        for group, own in places.items()
    ]
    order = [found for turn in zip_longest(*drawn) for found in turn if found is not None][: options.sample]
    with tempfile.TemporaryDirectory(prefix="negengine-mutation-") as base:
        results = _test(order, texts, Path(base).resolve(), options, begun + 60 * options.minutes)
    print(_table(places, results))
    command = shlex.join(["make", "mutation", *([f"ARGS={shlex.join(sys.argv[1:])}"] if sys.argv[1:] else [])])
    print(f"{dt.datetime.now(dt.UTC).date()}, {command}, {(time.monotonic() - begun) / 60:.0f} minutes")
    return 0


class _Options(argparse.Namespace):
    minutes: float
    sample: int | None
    seed: int
    jobs: int
    group: list[str]
    only: list[str] | None

    def wants(self, spot: Spot) -> bool:
        return self.only is None or f"{spot.module}:{spot.start[0]}".endswith(tuple(self.only))


def _options() -> _Options:
    parser = argparse.ArgumentParser("make mutation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="for how long mutants are tested (default: 20)")
    parser.add_argument("--sample", type=int, help="how many mutants at most (default: all that the time allows)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS), help="(default: all)")
    parser.add_argument("--only", nargs="+", help="these mutants alone, by path and line: part.py:76")
    return parser.parse_args(namespace=_Options())


@dataclass(frozen=True)
class Result:
    """A mutant of a group, and whether a test has noticed it."""

    group: str
    mutant: Mutant
    killed: bool


class Copy:
    """A copy of the repository, whose modules are imported in the place of the installed ones."""

    def __init__(self, folder: Path) -> None:
        self.root, self.packages, self.log = folder / "repository", folder / "packages", folder / "log"
        self.temporary = folder / "temporary"  # what many tests share is made there once
        listed = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
        for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / name)
        package = self.packages / "negengine"
        package.mkdir(parents=True)
        for path in (*map(self.root.joinpath, ("engine", "export", "bench")), *(self.root / "engine/public").iterdir()):
            (package / path.name).symlink_to(path)

    def passes(self, tests: Sequence[str], seconds: float | None = None) -> bool:
        """Whether all tests of some files pass, in time."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.packages),
            "PYTHONDONTWRITEBYTECODE": "1",  # by their times, two mutants of one size and second would be the same
            "OMP_NUM_THREADS": "1",
        }
        quick = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
        command = [sys.executable, "-m", "pytest", *quick, f"--basetemp={self.temporary}", *tests]
        with self.log.open("w") as log:
            try:
                done = subprocess.run(
                    command, cwd=self.root, env=environment, stdout=log, stderr=log, timeout=seconds, check=False
                )
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == _PASSED

    def kills(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
        """Whether the tests notice a mutant."""
        path = self.root / mutant.module
        original = path.read_bytes()
        path.write_text(mutant.source, "utf-8")
        try:
            return not self.passes(tests, seconds)
        finally:
            path.write_bytes(original)


def _test(
    order: Sequence[tuple[str, Spot]], texts: dict[str, str], base: Path, options: _Options, until: float
) -> list[Result]:
    free: SimpleQueue[Copy] = SimpleQueue()
    for number in range(options.jobs):
        free.put(Copy(base / str(number)))
    limits: dict[tuple[str, ...], float] = {}  # files of tests → seconds that a mutant has

    def unchanged(tests: tuple[str, ...]) -> None:
        copy, begun = free.get(), time.monotonic()
        if not copy.passes(tests):
            raise SystemExit(f"without a change: {copy.log.read_text('utf-8', 'replace')[-4_000:]}")
        limits[tests] = _TIMES * (time.monotonic() - begun) + _GRACE
        free.put(copy)

    def test(found: tuple[str, Spot]) -> Result | None:
        group, spot = found
        if time.monotonic() > until or (mutant := spot.draw(texts[spot.module], options.seed)) is None:
            return None
        copy, tests = free.get(), tests_of(group, spot.module)
        result = Result(group, mutant, copy.kills(mutant, tests, limits[tests]))
        free.put(copy)
        if not result.killed:
            told = f"{mutant.module}:{mutant.line} {mutant.operator}"
            print(f"survived: {told}\n  - {mutant.before}\n  + {mutant.after}", flush=True)
        return result

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(unchanged, dict.fromkeys(tests_of(group, spot.module) for group, spot in order)))
        print(f"the tests of {len(limits)} modules pass on the code as it is", flush=True)
        return [result for result in pool.map(test, order) if result is not None]


def _table(places: dict[str, list[Spot]], results: Sequence[Result]) -> str:
    lines = [f"{'group':<12}{'places':>8}{'tested':>8}{'killed':>8}{'survived':>10}   score (95 % interval)"]
    for group in [*places, "all"]:
        own = [result.killed for result in results if group in {result.group, "all"}]
        n, killed = sum(len(found) for name, found in places.items() if group in {name, "all"}), sum(own)
        score = "none"
        if own:
            value, low, high = proportion(killed, len(own))
            score = f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
        lines.append(f"{group:<12}{n:>8}{len(own):>8}{killed:>8}{len(own) - killed:>10}   {score}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
