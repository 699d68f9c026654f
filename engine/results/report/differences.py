"""How two runs of the same kind differ: their files byte by byte, their frames column by column, what they ran on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ...printable import counted
from ...runs.record import StageRecord, differences
from ...runs.results import read_document, read_frame
from ...views import Column, Table
from .usage import usage

SAME, OTHER = "same bytes", "different"


@dataclass(frozen=True)
class FileDifference:
    """One file of two runs, or one column of it.

    Attributes:
        file: Its name.
        result: `same bytes`, or what is different.
        column: The column or key that differs; empty for a whole file.
        rows: How many rows differ in this column.
        total: How many rows there are.
        largest: The largest absolute difference of two numbers; None where they are not numbers.
    """

    file: str
    result: str
    column: str = ""
    rows: int | None = None
    total: int | None = None
    largest: float | None = None


def compare_stage(old: StageRecord, new: StageRecord, first: Path, second: Path) -> list[FileDifference]:
    """All final files of a stage.

    Args:
        old: The stage in the first run.
        new: The stage in the second.
        first: The first run's folder.
        second: The second's.

    Raises:
        InputError: A file was changed since its run wrote it.
    """
    found = []
    for name in dict.fromkeys([*old.files, *new.files]):
        if name not in old.files or name not in new.files:
            found.append(FileDifference(name, f"only in {first if name in old.files else second}"))
        elif old.files[name] == new.files[name]:
            found.append(FileDifference(name, SAME))
        elif name.endswith(".parquet"):
            frames = read_frame(first, old, name), read_frame(second, new, name)
            found += compare_frames(name, *frames)
        else:
            documents = read_document(first, old, name), read_document(second, new, name)
            found += [
                FileDifference(name, OTHER, key, largest=_distance(documents[0].get(key), documents[1].get(key)))
                for key in dict.fromkeys([*documents[0], *documents[1]])
                if documents[0].get(key) != documents[1].get(key)
            ]
    return found


def compare_frames(name: str, old: pl.DataFrame, new: pl.DataFrame) -> list[FileDifference]:
    """The columns in which two frames differ, row by row in their order; one line if they have other shapes."""
    if old.columns != new.columns:
        return [FileDifference(name, "other columns")]
    if len(old) != len(new):
        return [FileDifference(name, f"{counted(len(old), 'row')} and {counted(len(new), 'row')}")]
    found = []
    for column in old.columns:
        first, second = old[column], new[column]
        unlike = first.ne_missing(second)
        if not (count := int(unlike.sum())):
            continue
        largest = None
        if first.dtype.is_numeric() and second.dtype.is_numeric():
            distance = (first.cast(pl.Float64) - second.cast(pl.Float64)).abs().max()
            largest = float(distance) if isinstance(distance, int | float) else None
        found.append(FileDifference(name, OTHER, column, count, len(old), largest))
    return found or [FileDifference(name, "same values, other bytes")]


def other_conditions(old: Sequence[StageRecord], new: Sequence[StageRecord]) -> list[str]:
    """What the two ran with and on, where it differs: identity, versions, source, hardware, precision; a line each."""
    lines = []
    for first, second in zip(old, new, strict=True):
        if changed := differences(first.identity, second.identity):
            lines.append(f"identity: {changed}")
    conditions = [_conditions(stages) for stages in (old, new)]
    lines += [
        f"{key}: {conditions[0].get(key, 'unknown')}, now {conditions[1].get(key, 'unknown')}"
        for key in dict.fromkeys([*conditions[0], *conditions[1]])
        if conditions[0].get(key) != conditions[1].get(key)
    ]
    return lines


def _conditions(stages: Sequence[StageRecord]) -> dict[str, str]:
    used = usage(stages)
    found = {name: " and ".join(versions) for name, versions in used.packages.items()}
    workers = [worker for stage in stages for own in stage.sessions for worker in own.workers]
    threads = {str(worker["threads"]) for worker in workers if "threads" in worker}
    found |= {
        "source": " and ".join(used.sources),
        "hardware": " and ".join(used.hardware),
        "system": " and ".join(used.systems),
        "threads": " and ".join(sorted(threads)),
        "precision": " and ".join(used.precisions),
        "tokens in a batch": " and ".join(map(str, used.batch_tokens)),
    }
    return {key: value for key, value in found.items() if value}


def differences_table(found: Sequence[FileDifference]) -> Table:
    """The differences as a table."""
    frame = pl.DataFrame(
        [
            {
                "file": one.file,
                "result": one.result,
                "column": one.column,
                "rows": one.rows,
                "of": one.total,
                "largest_difference": one.largest,
            }
            for one in found
        ],
        schema={
            "file": pl.String,
            "result": pl.String,
            "column": pl.String,
            "rows": pl.Int64,
            "of": pl.Int64,
            "largest_difference": pl.Float64,
        },
    )
    columns = [
        Column("File", "file"),
        Column("Result", "result"),
        Column("Column", "column"),
        Column("Rows", "rows"),
        Column("of", "of"),
        Column("Largest difference", "largest_difference", significant=2),
    ]
    return Table("The run, and the same run again", frame, columns)


def _distance(old: Any, new: Any) -> float | None:
    numbers = [value for value in (old, new) if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == 2:
        return abs(float(numbers[0]) - float(numbers[1]))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        inner = [_distance(old.get(key), new.get(key)) for key in {**old, **new}]
        return max((value for value in inner if value is not None), default=None)
    return None
