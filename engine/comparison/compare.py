"""`ng.compare`: compare finished runs, or the patterns of one run.

    one run of the main job              its patterns, on the same triplets
    several that differ in the target    Tables 8 and 9 of the paper, and their patterns on the triplets of both
    two runs of one kind by two models   every metric on the items that both have

Every difference has an interval and a test that allow for clusters; see `differences`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import InputError
from ..library.open import open_run
from ..library.run import Run, Shown
from ..negation.runs import ScoresRun, SelectionRun
from ..runs.record import differences
from ..tables import Table
from .differences import differences_frame, differences_table, outcomes_of
from .targets import differ_in_target, in_order, target_rates, target_sides, target_table

_GROUP = ("dataset", "condition", "split", "metric")


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """The comparison of some runs.

    Attributes:
        frame: One row for each test: what is compared, and the columns of `differences_frame`.
        table: The same as a person reads it.
        rates: For runs that differ in the target: the columns of rates.parquet with coreference and selected before
            them.
        before: Tables that are shown before the tests.
    """

    frame: pl.DataFrame
    table: Table
    rates: pl.DataFrame | None = None
    before: Sequence[Table] = field(default=())

    def tables(self) -> list[Table]:
        """The tests; for runs that differ in the target, the drops before them."""
        return [*self.before, self.table]

    def document(self) -> Any:
        """See `Shown`: the tests; for runs that differ in the target, `rates` and `tests`."""
        tests = self.frame.to_dicts()
        return tests if self.rates is None else {"rates": self.rates.to_dicts(), "tests": tests}


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare the patterns of a run, runs of two models, or runs of one model that differ in the target.

    Args:
        runs: Finished runs, or their folders.

    Raises:
        InputError: The runs cannot be compared: other kinds, other data, other conditions.
    """
    found = [run if isinstance(run, Run) else open_run(run) for run in runs]
    if not found:
        raise InputError("no runs given; compare takes one or more run folders")
    if selected := next((run for run in found if isinstance(run, SelectionRun)), None):
        raise InputError(f"{selected.folder} is selected, not scored: run `negengine score {selected.folder}` first")
    if len({run.stage for run in found}) > 1:
        raise InputError(f"runs of different kinds: {', '.join(f'{run.folder} ({run.stage})' for run in found)}")
    if len(found) == 1:
        return _between_patterns(found[0])
    scored = [run for run in found if isinstance(run, ScoresRun)]
    if len(scored) == len(found) and differ_in_target(scored):
        return _between_targets(scored)
    if len(found) > 2:
        raise InputError("give two runs of two models, or runs of one model that differ in --coreference")
    return _between_models(*found)


def _between_patterns(run: Run) -> Comparison:
    """The scored patterns of a run in pairs, on the same triplets."""
    if not isinstance(run, ScoresRun):
        raise InputError(f"{run.folder}: compare needs two runs of {run.stage}; one run is enough for `score` only")
    outcomes = outcomes_of(run, _GROUP)
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
    sides = target_sides([(run, outcomes_of(run, _GROUP)) for run in ordered])
    keys = ("pattern", "first", "second")
    frame = differences_frame(sides, keys)
    title = "Targets on the triplets of both runs. Difference of the repetition rates: first − second"
    table = differences_table(title, frame, keys, ordered[0].clusters)
    return Comparison(frame, table, target_rates(ordered), [target_table(ordered)])


def _between_models(first: Run, second: Run) -> Comparison:
    """Two runs, on the items that both have."""
    if unlike := differences(first.conditions, second.conditions, "there"):
        raise InputError(f"{first.folder} and {second.folder} cannot be compared: {unlike}")
    one, other = (dict(outcomes_of(run, _GROUP).group_by(*_GROUP, maintain_order=True)) for run in (first, second))
    frame = differences_frame({key: (one[key], other[key]) for key in one if key in other}, _GROUP)
    if frame.is_empty():
        raise InputError(f"{first.folder} and {second.folder} have no item in common")
    same = first.model_name == second.model_name
    names = [str(run.folder) if same else run.model_name for run in (first, second)]
    title = f"{names[0]} − {names[1]}, on the items of both runs"
    return Comparison(frame, differences_table(title, frame, _GROUP, first.clusters))
