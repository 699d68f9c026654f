"""Do two versions of the program give the same results? Record what both print and write, then compare the recordings.

    python -m negengine.bench.equality record before --data DATA --negengine OLD/.venv/bin/negengine
    python -m negengine.bench.equality record after --data DATA
    python -m negengine.bench.equality compare before after

A recording takes about five minutes on two cores, and two minutes more for the exports unless `--models` keeps them.
With the same `--models` for both versions the export is not part of the comparison. Record both versions on one
machine: another processor may round the last digit differently.
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
    """A difference that a fix makes on purpose.

    Attributes:
        files: Which files of a recording change, as a glob pattern, such as `runs/*/rates.parquet.tsv`.
        reason: Why, with the number of the defect.
        columns: If given, only these columns of a table change, come or go.
        lines: If given, only the lines in which this regular expression is found change, come or go.
    """

    files: str
    reason: str
    columns: tuple[str, ...] = ()
    lines: str | None = None

    def leave_out(self, text: str) -> str:
        """The text without what is expected to change."""
        if self.lines is not None:
            return "\n".join(line for line in text.splitlines() if not re.search(self.lines, line))
        if not self.columns or not text:
            return ""
        rows = [line.split("\t") for line in text.splitlines()]
        kept = [i for i, column in enumerate(rows[0]) if column.rpartition(":")[0] not in self.columns]
        return "\n".join("\t".join(row[i] for i in kept) for row in rows)


_GH22_INTERVALS = "19: drops have the interval of a paired difference, never of zero width or beyond 100 points"
_NLI_INTERVALS = (
    "19: relative drops over all pairs allow for clusters; differences have the interval of paired proportions"
)
_PIECES = "22: tokens that continue a word keep their mark"
_SELECTING = "19: the selecting pattern has no interval, as its rate is 100 % by construction"
_VERDICT = "16: a verdict only where the paper gives one, with its uncertainty"
_PLAIN = "19: nested columns became plain ones, which CSV can hold"
_NO_SPREAD = "19: values without any variation have no interval, instead of one of width zero"
_UNITS = (
    "17: differences of rates are percentage points, with unit and direction; two runs of one model have their folders"
)
_NOT_COUNTED = "what does not count is listed below the tables"
_NESTED = (
    "splits",
    "expected",
    "top",
    "top_probability",
    "compared",
    "probability",
    "outside_expected",
    "outside_compared",
)
_NESTED_LAMA = ("splits", "top", "top_logprob", "negated_top", "negated_top_logprob")
_FIRST = tuple(
    f"{side}top{rank}{kind}"
    for side in ("", "negated_")
    for rank in range(1, 6)
    for kind in ("", "_logprob", "_probability")
)
_GOOD = tuple(f"{word}{kind}" for word in ("good", "bad", "bad2") for kind in ("", "_probability"))
EXPECTED: tuple[Change, ...] = (
    Change("runs/gh22*/summary.parquet.tsv", _GH22_INTERVALS, columns=("low", "high")),
    Change("stdout/gh22*.json", _GH22_INTERVALS, lines='"(low|high)"'),
    Change(
        "stdout/gh22*.txt", f"{_GH22_INTERVALS}; words", lines="p [=<]|rank|━|──|drop P|Holm|top-1 is|verb|% interval"
    ),
    Change("runs/gh22-tiny/*", _PIECES),
    Change("stdout/gh22-tiny.*", _PIECES),
    Change("runs/nli*/summary.parquet.tsv", _NLI_INTERVALS, columns=("low", "high")),
    Change("stdout/nli*.json", _NLI_INTERVALS, lines='"(low|high)"'),
    Change("stdout/nli*.txt", "words", lines="pairs were|cut|truncated|paper: "),
    Change("runs/nli*/items.parquet.tsv", "17: pairs have ids, by which runs are compared", columns=("id",)),
    Change("runs/*/rates.parquet.tsv", _SELECTING, columns=("drop_low", "drop_high")),
    Change("stdout/score*.json", f"{_SELECTING}; {_VERDICT}", lines='"drop_(low|high)"|"reading"'),
    Change("stdout/merge-score.json", f"{_SELECTING}; {_VERDICT}", lines='"drop_(low|high)"|"reading"'),
    Change("stdout/compare-coreference.json", _SELECTING, lines='"drop_(low|high)"'),
    Change("stdout/score*.txt", _VERDICT, lines="§3.5|No verdict"),
    Change("stdout/merge-score.txt", _VERDICT, lines="§3.5"),
    Change("runs/cprag/items.parquet.tsv", _PLAIN, columns=(*_NESTED, *_FIRST, *_GOOD)),
    Change("runs/diagnostics*/items.parquet.tsv", _PLAIN, columns=(*_NESTED, *_FIRST, *_GOOD)),
    Change("runs/lama*/items.parquet.tsv", _PLAIN, columns=(*_NESTED_LAMA, *_FIRST)),
    Change("runs/lama*/summary.parquet.tsv", _NO_SPREAD, columns=("low", "high")),
    Change("stdout/lama*.json", _NO_SPREAD, lines='"(low|high)"'),
    Change("stdout/lama-tiny.txt", f"{_PIECES}; {_NOT_COUNTED}", lines=r"\(-|━|──|query|Most probable|facts excluded"),
    Change("stdout/lama*.txt", _NOT_COUNTED, lines="facts excluded"),
    Change("stdout/diagnostics*.txt", _NOT_COUNTED, lines="words that are not one token"),
    Change("stdout/cprag.txt", _NOT_COUNTED, lines="words that are not one token"),
    Change("stdout/compare-[dglnpr]*", _UNITS),
    Change("stdout/*-shard-[12].txt", "words"),
    Change("stdout/data-list.txt", "the folder of the cache has its whole path; words"),
)

PROGRAM = Path(sys.executable).with_name("negengine")
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?")
_SHOWN, _WIDTH = 12, 200  # most lines of a difference, most characters of a line
app = typer.Typer(
    add_completion=False, help="Show that two versions of the program give the same results.", rich_markup_mode=None
)


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
    """What there is to say of each file, the totals last; and whether a file differs that is not expected to.

    Raises:
        typer.BadParameter: A folder holds no files.
    """
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
    """The texts of a recording by their paths in it.

    Raises:
        typer.BadParameter: There are none.
    """
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.*")}
    if not texts:
        raise typer.BadParameter(f"{folder} holds no files; give the folder of a recording")
    return texts


def judge(before: str | None, after: str | None, changes: Sequence[Change]) -> tuple[str, list[str]]:
    """Compare a file of two recordings, None where one has it not.

    Returns:
        `equal`, `changed on purpose` or `different`, and lines that say how or why.
    """
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
