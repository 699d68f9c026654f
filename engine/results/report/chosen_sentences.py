"""The sentences of a run that a person asks for: chosen by their columns, in order or drawn at random, in a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.printable import counted
from ...inference.again import drawn
from ...library.run import Run
from ...library.sentences import FAILED, FIRST, TEXTS
from ...library.shown import Shown
from ...views import Column, Table
from .row_filters import filtered, ordered, sorting

_MOST_OWN = 4  # columns of a user's own that stand before the sentences
YES_NO = ("yes", "no")  # a tick would say that something is right
FOR_PEOPLE = 20  # sentences of a table where nobody asks for a number


def chosen(run: Run, where: Sequence[str] = (), *, failed: bool = False, sort: str | None = None) -> pl.LazyFrame:
    """The sentences of a run that have what is asked for; a column or value that it lacks is an `InputError`."""
    pairs = run.pair_rows()
    every = run.for_people(run.sentence_rows() if pairs is None else pairs)
    rows = filtered(every, where, run.folder)
    if failed:
        judged = every.select(pl.col(FAILED).is_not_null().any())
        if not judged.collect().item():
            hint = f": {run.how_to_judge}" if run.how_to_judge else ""
            raise InputError(f"--failed: no sentence of {run.folder} is called right or wrong{hint}")
        rows = rows.filter(pl.col(FAILED))
    return rows if sort is None else ordered(rows, sort, run.folder)


def first_columns(run: Run) -> list[str]:
    """The user's own columns that stand before the sentences: all, or of many those that have the groups."""
    own = list(run.own_columns.values())
    groups = [name for name in own if name in run.groupings]
    return own if len(own) <= _MOST_OWN else (groups or own)[:_MOST_OWN]


@dataclass(frozen=True, eq=False)
class Examples(Shown):
    """Some sentences of a run, as a table."""

    run: Run
    rows: pl.DataFrame = field(repr=False)
    total: int  # how many there are to choose from
    seed: int
    failed: bool = False  # only those that the model fails were asked for
    sort: str | None = None  # by which column; they are drawn at random without one

    @classmethod
    def draw(
        cls, run: Run, rows: pl.LazyFrame, sample: int, seed: int, *, failed: bool = False, sort: str | None = None
    ) -> "Examples":
        """A sample of the rows; of sorted ones, the first."""
        total = rows.select(pl.len()).collect().item()
        some = drawn(rows, sample, seed) if sort is None else rows.head(sample)
        return cls(run, some.collect(engine="streaming"), total, seed, failed, sort)

    def tables(self) -> list[Table]:
        """None where there are no sentences. A data set or condition of all rows stands in the title."""
        if self.rows.is_empty():
            return []
        own = first_columns(self.run)
        places = [name for name in ("dataset", "condition", "pattern", *own) if name in self.rows.columns]
        places = [name for name in dict.fromkeys(places) if self.rows[name].null_count() < len(self.rows)]
        same = [name for name in places if self.rows[name].n_unique() == 1]
        columns = [Column(name, name, wrap=name in {"dataset", *own}) for name in places if name not in same]
        if is_pair := self.run.pair_rows() is not None:
            columns += [Column(name, name) for name in ("good", "bad")]
            columns += [Column("difference", "difference", decimals=2, signed=True, wrap=False)]
            columns += [Column("logprob of good (bad)", "good_logprob", beside="bad_logprob", decimals=2)]
        else:
            columns += [Column(name, name) for name in TEXTS if name in self.rows.columns]
            columns += [Column("answer", "answer", wrap=False)]
        if not is_pair and self.rows["expected"].null_count() < len(self.rows):
            word = "target" if FIRST in self.rows.columns else "expected"
            ranked = self.rows["rank"].null_count() < len(self.rows)
            columns.append(Column(f"{word} (rank)", "expected", beside="rank") if ranked else Column(word, "expected"))
        sorted_by, _ = sorting(self.sort or "", self.rows.columns)
        known = [name for name in ("logprob", sorted_by) if name in self.rows.columns]
        shown = {name for column in columns for name in (column.value, column.beside)}
        for name in dict.fromkeys(known):
            if name not in shown and self.rows[name].null_count() < len(self.rows):
                columns.append(Column(name, name, decimals=2 if self.rows[name].dtype.is_float() else None))
        judged = not self.failed and self.rows[FAILED].null_count() < len(self.rows)
        columns += [Column(FAILED, FAILED, truths=YES_NO, wrap=False)] if judged else []
        told = [f"{name} {self.rows[name][0]}" for name in same] + ["failed"] * self.failed
        return [Table(", ".join([f"{self.run.model_name}, {self.run.stage}", *told]), self.rows, columns)]

    def remarks(self) -> list[str]:
        what = "sentence" if self.run.pair_rows() is None else "pair"
        if not self.total:
            return [f"no {what} of this run has all that is asked for"]
        if len(self.rows) == self.total:
            return [f"{'all ' if self.total > 1 else ''}{counted(self.total, what)}"]
        some = f"{len(self.rows):,} of {self.total:,} {what}s"
        how = f"drawn at random with --seed {self.seed}" if self.sort is None else f"the first with --sort {self.sort}"
        return [f"{some}, {how}; -o FILE.csv writes all"]

    def document(self) -> dict[str, Any]:
        return {"run": str(self.run.folder), "sentences": self.rows.to_dicts()}
