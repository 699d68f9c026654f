"""`ng.side_by_side`: the sentences of two runs with both models' answers, by which of the two is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError, choice
from ...inference.again import drawn
from ...library.run import Run
from ...library.sentences import FAILED, TEXTS
from ...library.shown import Shown
from ...views import Column, Table
from .runs import labels, open_alike, refuse_unlike

FOR_PEOPLE = 20  # sentences that a terminal shows


class Right(StrEnum):
    """Which of two models is right."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"
    NEITHER = "neither"
    ALL = "all"


@dataclass(frozen=True, eq=False)
class SideBySide(Shown):
    """Sentences that two models were asked.

    Attributes:
        frame: The sentence and what names it, `right` (both, first, second or neither), and of each model its answer,
            rank and log-probability: `first answer`, `second answer` …
        names: The two runs.
        counts: How many of all sentences there are of each kind of `right`.
        seed: Of the sentences that a terminal shows.
    """

    frame: pl.DataFrame = field(repr=False)
    names: Sequence[str]
    counts: Mapping[str, int]
    seed: int = 0

    def tables(self) -> list[Table]:
        return self._table(self.frame)

    def main_tables(self) -> list[Table]:
        return self._table(drawn(self.frame.lazy(), FOR_PEOPLE, self.seed).collect())

    def remarks(self) -> list[str]:
        named = {"first": f"only {self.names[0]}", "second": f"only {self.names[1]}"}
        kinds = {"both": "both right", **named, "neither": "neither"}
        said = ", ".join(f"{what}: {self.counts.get(kind, 0):,}" for kind, what in kinds.items())
        more = f"; {FOR_PEOPLE} of them at random are shown, --format csv and --json have all"
        return [said + more * (len(self.frame) > FOR_PEOPLE)]

    def document(self) -> Any:
        return {"first": self.names[0], "second": self.names[1], "sentences": self.frame.to_dicts()}

    def _table(self, rows: pl.DataFrame) -> list[Table]:
        if rows.is_empty():
            return []
        known = {name: rows[name].null_count() < len(rows) for name in rows.columns}
        columns = [Column(name, name) for name in ("condition", *TEXTS, "expected") if known.get(name)]
        for side, name in zip(("first", "second"), self.names, strict=True):
            value = "answer" if known[f"{side} answer"] else "logprob"
            columns.append(Column(f"{name}: {value}", f"{side} {value}", decimals=None if value == "answer" else 2))
        return [Table(f"{self.names[0]} and {self.names[1]}", rows, [*columns, Column("right", "right", wrap=False)])]


def side_by_side(first: Run | str | Path, second: Run | str | Path, right: str = "all", *, seed: int = 0) -> SideBySide:
    """The sentences of two runs with both models' answers.

    Args:
        first: A finished run, or its folder.
        second: Another one of the same kind, with the same data and settings.
        right: Which model is right: both, first, second, neither, or all.
        seed: Of the sentences that a terminal shows.

    Raises:
        InputError: The runs cannot be compared, have no sentence in common, or do not say which answers are right.
    """
    kind = choice(Right, "--sentences", right)
    runs = open_alike([first, second])
    refuse_unlike(runs)
    rows = [run.sentence_rows().filter(pl.col(FAILED).is_not_null()) for run in runs]
    columns = rows[0].collect_schema().names()
    keys = [name for name in runs[0].sentence_keys if name in columns]
    answers = ("answer", "rank", "logprob")
    other = rows[1].select(*keys, *(pl.col(name).alias(f"second {name}") for name in (*answers, FAILED)))
    one = rows[0].rename({name: f"first {name}" for name in (*answers, FAILED)})
    both = one.join(other, on=keys, how="inner", maintain_order="left")
    is_right = [~pl.col(f"{side} {FAILED}") for side in ("first", "second")]
    verdict = (
        pl.when(is_right[0] & is_right[1]).then(pl.lit(str(Right.BOTH)))
        .when(is_right[0]).then(pl.lit(str(Right.FIRST)))
        .when(is_right[1]).then(pl.lit(str(Right.SECOND)))
        .otherwise(pl.lit(str(Right.NEITHER)))
    )  # fmt: skip
    named = ["item", *keys, *(name for name in (*TEXTS, "expected") if name in columns)]
    told = [f"{side} {name}" for side in ("first", "second") for name in answers]
    found = both.select(*dict.fromkeys(named), verdict.alias("right"), *told).collect(engine="streaming")
    if found.is_empty():
        raise InputError(
            f"{runs[0].folder} and {runs[1].folder} have no sentence in common that is called right or wrong"
            + (f": {runs[0].how_to_judge}" if runs[0].how_to_judge else "")
        )
    kept = found if kind is Right.ALL else found.filter(right=str(kind))
    return SideBySide(kept, labels(runs), dict(found["right"].value_counts().iter_rows()), seed)
