"""Columns of the tables of `likelihood` by their purpose: sentences, or minimal pairs in one row or in two.

Two rows are a pair if they share a value, and another column says which of them is good. Others publish accuracies for
the groups of a table, such as those of BLiMP's paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl

from ...requests.items import ALL
from ...text.table import open_table
from ..own_table import NO, PAIR, PLACE_ROW, WANTED, YES, RequestColumns, Told, context, yes_or_no

GOOD, BAD = "good", "bad"
SIDES = (GOOD, BAD)
# What the column `--acceptable` can hold, in lower case, besides yes and no.
_WORDS = (("good", "acceptable", "grammatical"), ("bad", "unacceptable", "ungrammatical"))
OVERALL = "overall"
"""What BLiMP's own file has in a column of groups where a row is about all of them; elsewhere the cell is empty."""


@dataclass(frozen=True)
class Columns(RequestColumns):
    """Columns of a table by their purpose."""

    made: ClassVar[Sequence[str]] = (*RequestColumns.made, "context", "text", "role", "right")

    sentence: str | None = None  # None where a row holds a pair
    good: str | None = None  # the better sentences of pairs; None where a row holds one sentence
    bad: str | None = None  # the other sentences of pairs
    pair: str | None = None  # what the two rows of a pair share; None where rows are not parts of pairs
    acceptable: str | None = None  # whether a row is the good one of its pair
    prefix: str | None = None  # what stands before the texts and is not scored; None where nothing does
    joiner: str | None = None  # what stands between prefix and text; None for the rule of `spelling`

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.sentence,) if self.sentence else (str(self.good), str(self.bad))

    @property
    def optional(self) -> tuple[str, ...]:
        return () if self.prefix is None else (self.prefix,)

    @property
    def has_pairs(self) -> bool:
        return self.sentence is None or self.pair is not None

    @property
    def condition(self) -> str:
        return "pairs" if self.has_pairs else "sentences"

    def requests(self, rows: pl.DataFrame, title: str) -> pl.DataFrame:
        keys = {"context": context(self.prefix), **self.keys(rows, title, self.condition, self.pair)}
        if self.sentence is not None:
            role = pl.lit(None, pl.String) if self.pair is None else self._side()
            return rows.with_columns(text=self.sentence, role=role, right=role == GOOD, **keys)
        sides = [
            rows.with_columns(text=name, role=pl.lit(side), right=pl.lit(side == GOOD), **keys)
            for side, name in zip(SIDES, self.needed, strict=True)
        ]
        return pl.concat(sides).sort(PLACE_ROW, maintain_order=True)

    @property
    def shares_items(self) -> bool:
        return self.pair is not None

    def row_faults(self, rows: pl.DataFrame) -> pl.Series:
        if self.pair is None:
            return super().row_faults(rows)
        words = ", ".join(map("/".join, zip((*_WORDS[0], *YES), (*_WORDS[1], *NO), strict=True)))
        value = pl.col(str(self.acceptable)).cast(pl.String).fill_null("empty")
        reason = (
            pl.when(pl.col(self.pair).is_null())
            .then(pl.lit(f"{self.pair} is empty; the two rows of a pair must share a value"))
            .when(self._side().is_null())
            .then(pl.lit(f"{self.acceptable} is ") + value + f"; one of {words} is needed")
        )
        return rows.select(reason.alias("reason")).to_series()

    def faults(self) -> Mapping[str, pl.Expr]:
        if self.pair is None:
            return {}
        found = {side: (pl.col("role") == side).sum() for side in SIDES}
        two = {f"the pair has two {side} sentences; it needs one of each": n > 1 for side, n in found.items()}
        return two | {f"the pair has no {side} sentence; it needs one of each": n < 1 for side, n in found.items()}

    def _side(self) -> pl.Expr:
        """Which sentence of its pair a row with one sentence is: `good` or `bad`; null where it is not known."""
        is_good = yes_or_no(str(self.acceptable), *_WORDS)
        return pl.when(is_good).then(pl.lit(GOOD)).when(~is_good).then(pl.lit(BAD))

    @property
    def shared(self) -> dict[str, str]:
        known = {self.pair: PAIR, self.acceptable: WANTED}
        return {name: purpose for name, purpose in known.items() if name is not None} | super().shared


def read_published(path: Path, groups: Sequence[str], told: Told) -> dict[str, list[tuple[str | None, str, float]]]:
    """Model → (column, group, accuracy as a fraction), from a table with a column of numbers (or %) for each model.

    The other columns are groups, the finest one first; a row is about the first one that is not empty. It counts only
    if the pairs of a run have all that it is about: the accuracy of a field says nothing of a part of the field.
    """
    table = open_table(path)
    models = [name for name, dtype in table.schema.items() if dtype.is_numeric()]
    names = [name for name in table.columns if name not in models]
    known, finest = set(told.groups.select("column", "group").iter_rows()), names[:1]
    frame = pl.concat([table.read(part).frame for part in range(len(table.parts))])
    whole = [name for name in names if (name, OVERALL) not in known]  # a group can have this name
    rows = frame.with_columns(pl.col(whole).replace({OVERALL: None})).to_dicts()
    found: dict[str, list[tuple[str | None, str, float]]] = {name: [] for name in models}
    for row in rows:
        about = {name: row[name] for name in names if row[name] is not None}
        within = [(name, one[name]) for one in rows if about.items() <= one.items() for name in finest]
        name = next(iter(about), None)
        if name in {None, *groups} and known >= {own for own in within if own[1] is not None}:
            for model in models:
                share = row[model] / (100 if row[model] > 1 else 1)
                found[model].append((name, ALL if name is None else about[name], share))
    return found
