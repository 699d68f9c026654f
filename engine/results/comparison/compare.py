"""`ng.compare`: compare finished runs, or the patterns of one run.

    one run of the main job              its patterns, on the same triplets
    several that differ in the target    Tables 8 and 9 of the paper, and their patterns on the triplets of both
    runs of one kind by several models   the table that a paper prints; every metric of every two models, on the items
                                         that both have

Every difference has an interval and a test that allow for clusters; see `differences`. The tests of all pairs of models
are one family.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from ...errors import InputError
from ...experiments.negation.runs import ScoresRun
from ...library.run import Run
from ...library.shown import Shown
from ...views import Table
from .differences import GROUP, differences_frame, differences_table, outcomes_of, pairs_table
from .estimates import estimates, main_items
from .models import FITTING, PRINTED, estimates_tables
from .runs import labels, open_scored, refuse_unlike
from .targets import differ_in_target, in_order, target_rates, target_sides, target_table


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """The comparison of some runs.

    Attributes:
        frame: One row for each test: what is compared, and the columns of `differences_frame`.
        table: The same as a person reads it.
        rates: For runs that differ in the target: the columns of rates.parquet with coreference and selected before
            them. For runs of several models: the columns of `estimates`.
        before: Tables that are shown before the tests.
        fitting: The same tables for a terminal of 80 columns, where they differ.
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
        """See `Shown`."""
        return [*(self.before if self.fitting is None else self.fitting), self.table]

    def document(self) -> Any:
        """See `Shown`: the tests of one run's patterns; for several runs, `rates` and `tests`."""
        tests = self.frame.to_dicts()
        return tests if self.rates is None else {"rates": self.rates.to_dicts(), "tests": tests}


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare the patterns of a run, runs of any number of models, or runs of one model that differ in the target.

    Args:
        runs: Finished runs, or their folders.

    Raises:
        InputError: The runs cannot be compared: other kinds, other data, other conditions.
    """
    found = open_scored(runs)
    if len(found) == 1:
        return _between_patterns(found[0])
    scored = [run for run in found if isinstance(run, ScoresRun)]
    if len(scored) == len(found) and differ_in_target(scored):
        return _between_targets(scored)
    return _between_models(found)


def _between_patterns(run: Run) -> Comparison:
    """The scored patterns of a run in pairs, on the same triplets."""
    if not isinstance(run, ScoresRun):
        raise InputError(f"{run.folder}: compare needs two runs of {run.stage}; one run is enough for `score` only")
    outcomes = outcomes_of(run, GROUP)
    names = [pattern.name for pattern in run.selection.patterns.scored]
    by_pattern = {name: outcomes.filter(pl.col("split") == name) for name in names}
    sides = {pair: (by_pattern[pair[0]], by_pattern[pair[1]]) for pair in combinations(by_pattern, 2)}
    keys = ("first", "second")
    frame = differences_frame(sides, keys)
    title = f"Patterns on the same triplets: {run.model_name}. Difference of the repetition rates: first − second"
    return Comparison(frame, differences_table(title, frame, keys, run.clusters))


def _between_targets(runs: Sequence[ScoresRun]) -> Comparison:
    """The drops of runs that differ in the target, and each pattern on the triplets that two of them share."""
    ordered = in_order(runs)
    sides = target_sides([(run, outcomes_of(run, GROUP)) for run in ordered])
    keys = ("pattern", "first", "second")
    frame = differences_frame(sides, keys)
    title = "Targets on the triplets of both runs. Difference of the repetition rates: first − second"
    table = differences_table(title, frame, keys, ordered[0].clusters)
    return Comparison(frame, table, target_rates(ordered), [target_table(ordered)])


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
    found = estimates({name: main_items(own, runs[0].by_construction) for name, own in outcomes.items()}, GROUP)
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
