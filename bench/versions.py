"""Two versions of the program on the same selection and scoring, in turn: is the new one as fast as the old one?

    python -m negengine.bench.versions OLD/.venv/bin/negengine NEW/.venv/bin/negengine models/mini --pairs 200

Each round runs every command once with each program, in alternating order, each in a new run folder. The ratio is new
to old, the median over the rounds with the smallest and the largest: below 1 the new program is faster. Processor time
is told beside wall time, as it suffers less from what else the machine does.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import polars as pl
import typer

from ..engine.basics.errors import InputError
from ..engine.views import Column, Table
from ..engine.views.formats import render

RESULTS = {"select": "triplets.parquet", "score": "scores.parquet"}


@dataclass(frozen=True)
class Took:
    """What one command took, in seconds."""

    command: str
    wall: float
    processor: float  # of all cores, with the command's own processes


def both(programs: Sequence[Path], arguments: Sequence[str], rounds: int, work: Path) -> list[tuple[list[Took], ...]]:
    """What the commands took with both programs, by round. Raises InputError if one fails, or the results differ."""
    found: list[tuple[list[Took], ...]] = []
    for number in range(rounds):
        one, other = (0, 1) if number % 2 == 0 else (1, 0)
        folders = [work / f"{number}-{which}" for which in range(2)]
        took = {which: _commands(programs[which], arguments, folders[which]) for which in (one, other)}
        for name in RESULTS.values():
            if not pl.read_parquet(folders[0] / name).equals(pl.read_parquet(folders[1] / name)):
                raise InputError(f"{programs[0]} and {programs[1]} give different {name}")
        found.append((took[0], took[1]))
    return found


def _commands(program: Path, arguments: Sequence[str], run: Path) -> list[Took]:
    select = ["select", *arguments, "-o", str(run)]
    score = ["score", str(run), *arguments[arguments.index("--precision") :]]
    return [_timed(program, words) for words in (select, score)]


def _timed(program: Path, words: Sequence[str]) -> Took:
    before, began = os.times(), time.perf_counter()
    done = subprocess.run([str(program), *words], capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise InputError(f"{program} {' '.join(words)}: {done.stderr.strip().rpartition(chr(10))[2]}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(words[0], wall, used)


def table(rounds: Sequence[tuple[list[Took], ...]]) -> Table:
    """A row for each command and kind of time: both medians, and the ratio with its range over the rounds."""
    rows = []
    for number, command in enumerate(RESULTS):
        for kind in ("wall", "processor"):
            old, new = ([getattr(one[which][number], kind) for one in rounds] for which in range(2))
            ratios = [after / before for before, after in zip(old, new, strict=True)]
            rows.append((command, kind, median(old), median(new), median(ratios), min(ratios), max(ratios)))
    keys = ("command", "time", "old", "new", "ratio", "smallest", "largest")
    frame = pl.DataFrame(rows, schema=keys, orient="row")
    numbers = [Column(key, key, decimals=2 if key in {"old", "new"} else 3) for key in keys[2:]]
    columns = [Column("command", "command"), Column("time", "time"), *numbers]
    return Table(f"Old and new, {len(rounds)} rounds: seconds", frame, columns)


def main(
    old: Annotated[Path, typer.Argument(exists=True, help="The old program.")],
    new: Annotated[Path, typer.Argument(exists=True, help="The new program.")],
    model: Annotated[Path, typer.Argument(exists=True, help="An export that both take.")],
    pairs: Annotated[int, typer.Option(min=1, help="[NAME, PROF] pairs of the selection.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, help="How often each command is timed.")] = 5,
    precision: Annotated[str, typer.Option(help="fp32 or mixed.")] = "fp32",
) -> None:
    """Time the selection and the scoring of one model with two programs."""
    arguments = [str(model.absolute()), "--pairs", str(pairs), "--precision", precision]
    with TemporaryDirectory() as work:
        typer.echo(render([table(both((old, new), arguments, rounds, Path(work)))]))


if __name__ == "__main__":
    typer.run(main)
