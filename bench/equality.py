"""Do two versions of the program give the same results? Record what both print and write, then compare the recordings.

    python -m negengine.bench.equality record before --data DATA --negengine OLD/.venv/bin/negengine
    python -m negengine.bench.equality record after --data DATA
    python -m negengine.bench.equality compare before after

A recording takes about seven minutes on two cores, and two minutes more for the exports unless `--models` keeps them.
Record both versions on one machine: another processor may round the last digit differently.
"""

import difflib
import re
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from . import recording

PROGRAM = Path(sys.executable).with_name("negengine")
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?")
_SHOWN, _WIDTH = 12, 200  # most lines of a difference, most characters of a line
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def record(
    output: Annotated[Path, typer.Argument(help="The folder to write; a new one.")],
    data: Annotated[Path, typer.Option(exists=True, help="With negated-lama, lm-diagnostics and negation-nli.")],
    negengine: Annotated[Path, typer.Option(exists=True, help="The program.")] = PROGRAM,
    models: Annotated[Path | None, typer.Option(help="Exported models are kept here, and used again.")] = None,
) -> None:
    """Run the commands in a scratch folder and keep what they print and write."""
    if output.exists():
        raise typer.BadParameter(f"{output} exists; give a new folder")
    with TemporaryDirectory() as scratch:
        work, program = Path(scratch).resolve(), negengine.absolute()
        recording.prepare(work, program, data.resolve(), models.resolve() if models else None)
        failed = recording.record(output, work, program, typer.echo)
    typer.echo(f"{output}: {len(recording.COMMANDS)} commands, {failed} failures")
    raise typer.Exit(failed > 0)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="A recording.")],
    after: Annotated[Path, typer.Argument(help="The recording of another version.")],
) -> None:
    """Compare two recordings file by file; the exit status is 1 if a file differs."""
    lines, is_different = report(before, after)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(is_different)


def report(before: Path, after: Path) -> tuple[list[str], bool]:
    """What there is to say of each file, the totals last; and whether a file differs."""
    one, other = read(before), read(after)
    lines, different = [], 0
    for name in sorted(one | other):
        details: list[str] = []
        if name not in one or name not in other:
            details = [f"only in the recording {'before' if name in one else 'after'}"]
        elif one[name] != other[name]:
            details = list(differences(one[name], other[name]))
        different += bool(details)
        lines += [f"{name}: {'different' if details else 'equal'}", *(f"    {line}" for line in details)]
    n = len(one | other)
    return [*lines, f"{n} files, {n - different} equal, {different} different"], different > 0


def read(folder: Path) -> dict[str, str]:
    """The texts of a recording by their paths in it. Raises typer.BadParameter if there are none."""
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.*")}
    if not texts:
        raise typer.BadParameter(f"{folder} holds no files; give the folder of a recording")
    return texts


def differences(before: str, after: str) -> Iterator[str]:
    """How two texts differ: their numbers, the columns if they are tables, the first lines that are not equal."""
    one, other = ([float(number.replace(",", "")) for number in _NUMBER.findall(text)] for text in (before, after))
    if len(one) != len(other):
        yield f"{len(one):,} numbers before, {len(other):,} after"
    elif unequal := [abs(a - b) for a, b in zip(one, other, strict=True) if a != b]:
        yield f"{len(unequal):,} of {len(one):,} numbers differ, by at most {max(unequal):.3g}"
    else:
        yield f"all {len(one):,} numbers are equal; words or layout differ"
    old, new = before.splitlines(), after.splitlines()
    columns = [lines[0].split("\t") if lines and "\t" in lines[0] else [] for lines in (old, new)]
    if columns[0] != columns[1]:
        yield from (f"column {name} is gone" for name in columns[0] if name not in columns[1])
        yield from (f"column {name} is new" for name in columns[1] if name not in columns[0])
    elif columns[0]:
        rows = [(a.split("\t"), b.split("\t")) for a, b in zip(old, new, strict=False)]
        for i, name in enumerate(columns[0]):
            if count := sum(a[i] != b[i] for a, b in rows):
                yield f"column {name}: {count:,} of {len(rows) - 1:,} rows differ"
    start = next(i for i, (a, b) in enumerate(zip_longest(old, new)) if a != b)
    window = slice(start, start + _SHOWN)
    yield f"from line {start + 1}:"
    for line in list(difflib.unified_diff(old[window], new[window], lineterm="", n=0))[2:][:_SHOWN]:
        if not line.startswith("@@"):
            yield line[:_WIDTH]


if __name__ == "__main__":
    app()
