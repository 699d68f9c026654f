"""The sentences of a run that a person asks for: chosen by their columns, drawn at random, in a table or in a file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.atomic import make_place, write_atomically
from ...basics.errors import InputError, did_you_mean
from ...basics.frames import write_frame
from ...basics.printable import counted
from ...library.run import Run
from ...library.sentences import FAILED, FIRST, TEXTS, drawn
from ...library.shown import Shown
from ...runs.record import RUN_FILE
from ...views import Column, Table
from ...views.to_csv import csv_rows
from ...views.to_json import json_lines

FOR_PEOPLE = 20  # sentences of a table where nobody asks for a number
_MOST_LISTED = 12
_SPLITS = "splits"  # several splits in one cell


@dataclass(frozen=True)
class Filter:
    """What the rows must have in one column."""

    column: str
    values: Sequence[str]  # the column must have one of them

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "list[Filter]":
        """The filters of `--where COLUMN=VALUE`; of several values of one column, a row must have one."""
        found: dict[str, list[str]] = {}
        for text in texts:
            column, equals, value = text.partition("=")
            if not equals or not column:
                raise InputError(f"--where {text}: give COLUMN=VALUE, such as gender=f")
            found.setdefault(column, []).append(value)
        return [cls(column, values) for column, values in found.items()]

    @property
    def said(self) -> str:
        return f"--where {self.column}"


def chosen(run: Run, filters: Sequence[Filter] = (), *, failed: bool = False) -> pl.LazyFrame:
    """The sentences of a run that have what is asked for; a column or value that it lacks is an `InputError`."""
    rows = run.sentence_rows()
    schema = rows.collect_schema()
    wanted = [_condition(run, rows, schema, one) for one in filters]
    if failed:
        if not rows.select(pl.col(FAILED).is_not_null().any()).collect().item():
            hint = f": {run.how_to_judge}" if run.how_to_judge else ""
            raise InputError(f"--failed: no sentence of {run.folder} is called right or wrong{hint}")
        wanted.append(pl.col(FAILED))
    return rows.filter(*wanted) if wanted else rows


@dataclass(frozen=True, eq=False)
class Examples(Shown):
    """Some sentences of a run, as a table."""

    run: Run
    rows: pl.DataFrame = field(repr=False)
    total: int  # how many there are to choose from
    seed: int
    failed: bool = False  # only those that the model fails were asked for

    @classmethod
    def draw(cls, run: Run, rows: pl.LazyFrame, sample: int, seed: int, *, failed: bool = False) -> "Examples":
        total = rows.select(pl.len()).collect().item()
        return cls(run, drawn(rows, sample, seed).collect(engine="streaming"), total, seed, failed)

    def tables(self) -> list[Table]:
        """None where there are no sentences. A data set or condition of all rows stands in the title."""
        if self.rows.is_empty():
            return []
        places = [name for name in ("dataset", "condition", "pattern") if name in self.rows.columns]
        same = [name for name in places if self.rows[name].n_unique() == 1]
        columns = [Column(name, name, wrap=name == "dataset") for name in places if name not in same]
        columns += [Column(name, name) for name in TEXTS if name in self.rows.columns]
        columns += [Column("answer", "answer", wrap=False)]
        if self.rows["expected"].null_count() < len(self.rows):
            word = "target" if FIRST in self.rows.columns else "expected"
            ranked = self.rows["rank"].null_count() < len(self.rows)
            columns.append(Column(f"{word} (rank)", "expected", beside="rank") if ranked else Column(word, "expected"))
        judged = not self.failed and self.rows[FAILED].null_count() < len(self.rows)
        columns += [Column(FAILED, FAILED, wrap=False)] if judged else []
        told = [f"{name} {self.rows[name][0]}" for name in same] + ["failed"] * self.failed
        return [Table(", ".join([f"{self.run.model_name}, {self.run.stage}", *told]), self.rows, columns)]

    def remarks(self) -> list[str]:
        if not self.total:
            return ["no sentence of this run has all that is asked for"]
        if len(self.rows) == self.total:
            return [f"all {counted(self.total, 'sentence')}"]
        some = f"{len(self.rows):,} of {self.total:,} sentences"
        return [f"{some}, drawn at random with --seed {self.seed}; -o FILE.csv writes all"]

    def document(self) -> dict[str, Any]:
        return {"run": str(self.run.folder), "sentences": self.rows.to_dicts()}


def _condition(run: Run, rows: pl.LazyFrame, schema: pl.Schema, wanted: Filter) -> pl.Expr:
    column = wanted.column
    if column not in schema:
        hint = did_you_mean(column, schema) or f"Its columns are {', '.join(schema)}"
        raise InputError(f"{wanted.said}: the sentences of {run.folder} have no such column: {hint}".rstrip())
    if schema[column] == pl.Boolean:
        if wrong := [value for value in wanted.values if value not in {"true", "false"}]:
            raise InputError(f"{wanted.said}={wrong[0]}: give true or false")
        return pl.col(column).is_in([value == "true" for value in wanted.values])
    if schema[column].is_numeric():
        return pl.col(column).cast(pl.Float64).is_in([_number(wanted, value) for value in wanted.values])
    words = pl.col(column).str.split("|") if column == _SPLITS else pl.concat_list(column)
    known = rows.select(words.explode().unique(maintain_order=True).drop_nulls()).collect().to_series().to_list()
    for value in wanted.values:
        if value not in known:
            near = did_you_mean(value, known)
            few, more = known[:_MOST_LISTED], ", …" * (len(known) > _MOST_LISTED)
            hint = near if near and more else f"{near}It has {', '.join(few)}{more}"
            raise InputError(f"{wanted.said}={value}: {run.folder} does not have it: {hint}".rstrip())
    if column == _SPLITS:
        return pl.any_horizontal(words.list.contains(value) for value in wanted.values)
    return pl.col(column).is_in(list(wanted.values))


def _number(wanted: Filter, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{wanted.said}={value}: give a number") from None


def write(rows: pl.LazyFrame, path: Path, option: str = "-o") -> int:
    """Write sentences to a file, whole or not at all, batch by batch; returns how many."""
    check_name(path, option)
    total: int = rows.select(pl.len()).collect().item()
    make_place(path)

    def put(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(_PIECES[path.suffix](rows))

    if path.suffix == ".parquet":
        write_frame(path, rows)
    else:
        write_atomically(path, put)
    return total


def check_name(path: Path, option: str = "-o") -> None:
    """A name with another ending, or of a file of a run, is an `InputError`."""
    known = [".parquet", *_PIECES]
    if path.suffix not in known:
        hint = did_you_mean(path.suffix, known)
        raise InputError(f"{option} {path}: {hint}the name must end in {', '.join(known)}")
    if path.exists() and (path.parent / RUN_FILE).exists():
        raise InputError(f"{option} {path}: this file belongs to a run; choose another name")


_PIECES: Mapping[str, Callable[[pl.LazyFrame], Iterator[str]]] = {
    ".csv": csv_rows,
    ".tsv": lambda rows: csv_rows(rows, "\t"),
    ".jsonl": json_lines,
}
