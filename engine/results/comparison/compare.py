"""`ng.compare`: finished runs against each other, or what one run has to compare.

    what an experiment sets side by side itself   see `Run.contrast`: such as the patterns of one run
    runs of one kind by several models            the table that a paper prints; every metric of every two models, on
                                                  the items that both have

Every difference has an interval and a test that allow for clusters; see `differences`. The tests of all pairs of models
are one family.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...library.run import Contrast, Run
from ...library.shown import Shown
from ...views import Table
from .differences import GROUP, differences_frame, differences_table, outcomes_of, pairs_table
from .estimates import FITTING, PRINTED, estimates, estimates_tables, main_items
from .runs import labels, open_alike, refuse_unlike


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """The comparison of some runs.

    Attributes:
        frame: One row for each test: what is compared, and the columns of `differences_frame`.
        table: The same as a person reads it.
        rates: For runs of several models: the columns of `estimates`; else those of `Contrast.rates`.
        fitting: The tables of `before` for a terminal of 80 columns, where they differ.
    """

    frame: pl.DataFrame
    table: Table
    rates: pl.DataFrame | None = None
    before: Sequence[Table] = field(default=())
    fitting: Sequence[Table] | None = None

    def tables(self) -> list[Table]:
        """The tests; for several runs, the rates or drops before them."""
        return [*self.before, self.table]

    def main_tables(self) -> list[Table]:
        return [*(self.before if self.fitting is None else self.fitting), self.table]

    def document(self) -> Any:
        """The tests of one run's patterns; for several runs, `rates` and `tests`."""
        tests = self.frame.to_dicts()
        return tests if self.rates is None else {"rates": self.rates.to_dicts(), "tests": tests}


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare the patterns of a run, runs of any number of models, or runs of one model that differ in the target.

    Args:
        runs: Finished runs, or their folders.

    Raises:
        InputError: The runs cannot be compared: other kinds, other data, other conditions.
    """
    found = open_alike(runs)
    own = found[0].contrast(found)
    if own is not None:
        return _of_contrast(own, found[0].clusters)
    if len(found) == 1:
        raise InputError(f"{found[0].folder}: compare needs two runs of {found[0].stage}")
    return _between_models(found)


def _of_contrast(own: Contrast, clusters: str) -> Comparison:
    runs = {id(run): run for side in own.sides.values() for run, _ in side}
    outcomes = {number: outcomes_of(run, GROUP) for number, run in runs.items()}

    def of_split(run: Run, split: str) -> pl.DataFrame:
        return outcomes[id(run)].filter(pl.col("split") == split)

    sides = {key: (of_split(*first), of_split(*second)) for key, (first, second) in own.sides.items()}
    frame = differences_frame(sides, own.keys)
    return Comparison(frame, differences_table(own.title, frame, own.keys, clusters), own.rates, own.before)


def _between_models(runs: Sequence[Run]) -> Comparison:
    """The rates of all runs, and the differences of every two on the items that both have."""
    refuse_unlike(runs)
    names = labels(runs)
    outcomes = {name: outcomes_of(run, GROUP) for name, run in zip(names, runs, strict=True)}
    groups = {name: dict(own.group_by(*GROUP, maintain_order=True)) for name, own in outcomes.items()}
    sides = {
        (first, second, *key): (one[key], other[key])
        for (first, one), (second, other) in combinations(groups.items(), 2)
        for key in one
        if key in other
    }
    keys = ("first", "second", *GROUP)
    frame = differences_frame(sides, keys)
    if frame.is_empty():
        raise InputError(f"{' and '.join(str(run.folder) for run in runs)} have no item in common")
    items = {name: main_items(own, runs[0].by_construction) for name, own in outcomes.items()}
    found = estimates(items, GROUP, runs[0].drop_of)
    tables = [estimates_tables(found, runs[0].clusters, most=most) for most in (PRINTED, FITTING)]
    if len(runs) == 2:
        table = differences_table(f"{names[0]} − {names[1]}, on the items of both runs", frame, GROUP, runs[0].clusters)
    else:
        table = pairs_table("Every two models, on the items of both", frame, GROUP, runs[0].clusters)
    without = set(combinations(names, 2)) - set(frame.select("first", "second").iter_rows())
    if without:
        pairs = "; ".join(f"{first} and {second}" for first, second in sorted(without))
        table = replace(table, notes=[*table.notes, f"without an item in common: {pairs}"])
    return Comparison(frame, table, found, *tables)
