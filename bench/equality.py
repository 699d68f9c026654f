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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from . import recording


@dataclass(frozen=True)
class Change:
    """A difference that a fix makes on purpose."""

    files: str  # which files of a recording change, as a glob pattern, such as `runs/*/rates.parquet.tsv`
    reason: str  # Why, with the number of the defect
    columns: tuple[str, ...] = ()  # if given, only these columns of a table change, come or go
    lines: str | None = None  # if given, only the lines in which this regular expression is found change, come or go

    def leave_out(self, text: str) -> str:
        if self.lines is not None:
            return "\n".join(line for line in text.splitlines() if not re.search(self.lines, line))
        if not self.columns or not text:
            return ""
        rows = [line.split("\t") for line in text.splitlines()]
        kept = [i for i, column in enumerate(rows[0]) if column.rpartition(":")[0] not in self.columns]
        return "\n".join("\t".join(row[i] for i in kept) for row in rows)


EXPECTED: tuple[Change, ...] = ()  # what the fixes since the last release change on purpose

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
    """Compare two recordings file by file; the exit status is 1 if a file differs that is not expected to."""
    lines, different = report(before, after, EXPECTED)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(different)


def report(before: Path, after: Path, expected: Sequence[Change]) -> tuple[list[str], bool]:
    """What there is to say of each file, the totals last; and whether a file differs that is not expected to."""
    one, other = read(before), read(after)
    lines, counts = [], {"equal": 0, "changed on purpose": 0, "different": 0}
    for name in sorted(one | other):
        changes = [change for change in expected if fnmatch(name, change.files)]
        verdict, details = judge(one.get(name), other.get(name), changes)
        counts[verdict] += 1
        lines += [f"{name}: {verdict}", *(f"    {line}" for line in details)]
    totals = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return [*lines, f"{len(one | other)} files, {totals}"], counts["different"] > 0


def read(folder: Path) -> dict[str, str]:
    """The texts of a recording by their paths in it. Raises typer.BadParameter if there are none."""
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.*")}
    if not texts:
        raise typer.BadParameter(f"{folder} holds no files; give the folder of a recording")
    return texts


def judge(before: str | None, after: str | None, changes: Sequence[Change]) -> tuple[str, list[str]]:
    """`equal`, `changed on purpose` or `different`, and lines that say how or why; None where one lacks the file."""
    if before == after:
        return "equal", []
    one, other = before or "", after or ""
    for change in changes:
        one, other = change.leave_out(one), change.leave_out(other)
    if changes and one == other:
        return "changed on purpose", [change.reason for change in changes]
    if before is None or after is None:
        return "different", [f"only in the recording {'before' if after is None else 'after'}"]
    return "different", list(differences(one, other))


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
