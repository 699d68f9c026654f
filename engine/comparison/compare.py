"""`ng.compare`: compare finished runs, or the patterns of one run.

    one run of the main job              its patterns, on the same triplets
    several that differ in the target    Tables 8 and 9 of the paper: one column for each --coreference
    two runs of one kind by two models   every metric on the items that both have

Tests are exact (McNemar) for outcomes that are right or wrong and Wilcoxon's for numbers, adjusted with Holm's method
over all tests of one comparison. They take items as independent. Triplets of one [NAME, PROF] pair are not, so a p of
the main job is a lower bound: the intervals of `negation.rates` allow for pairs, these tests do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..choices import Coreference
from ..errors import InputError
from ..library.open import open_run
from ..library.run import Run, Shown
from ..negation.published import published
from ..negation.runs import ScoresRun, SelectionRun
from ..negation.select import Selection
from ..probes.summary import paired
from ..runs.record import differences, read_run
from ..statistics import holm
from ..tables import Column, Table

_GROUP = ("dataset", "condition", "split", "metric")
_SUBJECTS = {
    Coreference.SAME_NAME: "same name",
    Coreference.SAME_GENDER: "other name, same gender",
    Coreference.OTHER_GENDER: "other name, other gender",
    Coreference.PRONOUN: "pronoun",
}
_PERCENTAGE_POINTS = "percentage points"


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """The comparison of some runs.

    Attributes:
        frame: One row for each test: what is compared, n, difference, unit, p, p_holm; or, for runs that differ in the
            target, the columns of rates.parquet with coreference and selected before them.
        table: The same as a person reads it.
    """

    frame: pl.DataFrame
    table: Table

    def tables(self) -> list[Table]:
        """The one table."""
        return [self.table]

    def document(self) -> list[dict[str, Any]]:
        """See `Shown`."""
        return self.frame.to_dicts()


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
    if len(scored) == len(found) and _differ_in_target(scored):
        return _by_coreference(scored)
    if len(found) > 2:
        raise InputError("give two runs of two models, or runs of one model that differ in --coreference")
    return _between_models(*found)


def _between_patterns(run: Run) -> Comparison:
    """The scored patterns of a run in pairs, on the same triplets."""
    if not isinstance(run, ScoresRun):
        raise InputError(f"{run.folder}: compare needs two runs of {run.stage}; one run is enough for `score` only")
    outcomes = _outcomes(run)
    names = [pattern.name for pattern in run.selection.patterns.scored]
    by_pattern = {name: outcomes.filter(pl.col("split") == name) for name in names}
    sides = {pair: (by_pattern[pair[0]], by_pattern[pair[1]]) for pair in combinations(by_pattern, 2)}
    title = f"Patterns on the same triplets: {run.model_name}. Difference of the repetition rates: first − second"
    return _tested(title, sides, ["first", "second"])


def _between_models(first: Run, second: Run) -> Comparison:
    """Two runs, on the items that both have."""
    if unlike := differences(first.conditions, second.conditions, "there"):
        raise InputError(f"{first.folder} and {second.folder} cannot be compared: {unlike}")
    one, other = (dict(_outcomes(run).group_by(*_GROUP, maintain_order=True)) for run in (first, second))
    sides = {key: (one[key], other[key]) for key in one if key in other}
    same = first.model_name == second.model_name
    names = [str(run.folder) if same else run.model_name for run in (first, second)]
    title = f"{names[0]} − {names[1]}, on the items of both runs"
    found = _tested(title, sides, list(_GROUP))
    if found.frame.is_empty():
        raise InputError(f"{first.folder} and {second.folder} have no item in common")
    return found


def _outcomes(run: Run) -> pl.DataFrame:
    """A run's outcomes, each item once in its group: items are joined by their words."""
    outcomes = run.outcomes()
    repeated = outcomes.filter(pl.struct(*_GROUP, "item").is_duplicated())
    if not repeated.is_empty():
        raise InputError(
            f"{run.folder}: the item {repeated['item'][0]!r} occurs more than once; compare joins by items"
        )
    return outcomes


def _tested(
    title: str, sides: Mapping[tuple[Any, ...], tuple[pl.DataFrame, pl.DataFrame]], keys: list[str]
) -> Comparison:
    """Paired tests of outcomes, on the items that both sides have; no row where they have none.

    Rates are compared in percentage points, other numbers in their own unit.
    """
    rows = []
    for key, (first, second) in sides.items():
        both = first.select("item", "value").join(second.select("item", other="value"), on="item", validate="1:1")
        if both.is_empty():
            continue
        values = [both["value"], both["other"]]
        yes_or_no = all(set(value.unique()) <= {0.0, 1.0} for value in values)
        if yes_or_no:
            values = [value.cast(pl.Boolean) for value in values]
        difference, p = paired(values[0], values[1])
        scale, unit = (100, _PERCENTAGE_POINTS) if yes_or_no else (1, "")
        rows.append((*key, len(both), scale * difference, unit, p))
    frame = pl.DataFrame(rows, schema=[*keys, "n", "difference", "unit", "p"], orient="row")
    frame = frame.with_columns(
        p_holm=pl.Series(holm(frame["p"].to_numpy().astype(np.float64)), dtype=pl.Float64),
        decimals=pl.when(pl.col("unit") == "").then(3).otherwise(1),
    )
    columns = [
        *(Column(key, key) for key in keys),
        Column("n", "n", wrap=False),
        Column("difference", "difference", decimals="decimals", signed=True, wrap=False),
        Column("p", "p", significant=2, wrap=False),
        Column("p (Holm)", "p_holm", significant=2, wrap=False),
    ]
    notes = [f"difference: in {_PERCENTAGE_POINTS}, other numbers with three decimals in their own unit"]
    return Comparison(frame.drop("decimals"), Table(title, frame, columns, notes=notes))


def _differ_in_target(runs: Sequence[ScoresRun]) -> bool:
    return len({run.model_name for run in runs}) == 1 and len({run.coreference for run in runs}) == len(runs)


def _words(run: ScoresRun) -> dict[str, Any]:
    """What runs that differ in the target must have in common: lexicon, patterns, which verbs are tried."""
    identity = read_run(run.folder).stages[Selection.name].identity
    return {key: identity[key] for key in ("lexicon sha256", "patterns sha256", "verbs")}


def _by_coreference(runs: Sequence[ScoresRun]) -> Comparison:
    """Drops in the layout of Tables 8 and 9: a column for each target, with the published drops in brackets."""
    ordered = sorted(runs, key=lambda run: list(_SUBJECTS).index(Coreference(run.coreference)))
    for run in ordered[1:]:
        if unlike := differences(_words(ordered[0]), _words(run), "there"):
            raise InputError(f"{ordered[0].folder} and {run.folder} cannot be compared: {unlike}")
    model, paper = ordered[0].model_name, published(ordered[0].model_name)
    rates = pl.concat(
        run.rates.select(
            pl.lit(run.coreference).alias("coreference"),
            pl.lit(run.selection.summary["selected"]).alias("selected"),
            pl.all(),
        )
        for run in ordered
    )
    names = [pattern.name for pattern in ordered[0].selection.patterns.scored]
    frame: dict[str, Any] = {"pattern": ["selected triplets", *names], "decimals": [0, *(1 for _ in names)]}
    columns = [Column("pattern", "pattern")]
    for run in ordered:
        drops = dict(run.rates.select("pattern", "drop").iter_rows())
        theirs = paper.coreference.get(run.coreference) if paper else None
        printed = theirs.drops if theirs else {}
        frame[run.coreference] = [float(run.selection.summary["selected"]), *(drops.get(name) for name in names)]
        frame[f"{run.coreference}_published"] = [
            theirs.triplets if theirs else None,
            *(printed.get(name) for name in names),
        ]
        columns.append(
            Column(
                _SUBJECTS[Coreference(run.coreference)],
                run.coreference,
                beside=f"{run.coreference}_published",
                decimals="decimals",
            )
        )
    published_types = {name: pl.Float64 for name in frame if name.endswith("_published")}
    table = Table(
        title=f"Drop of ACT repetition by what the target is about: {model}",
        frame=pl.DataFrame(frame, schema_overrides=published_types).with_columns(
            section=pl.col("pattern") == "selected triplets"
        ),
        columns=columns,
        section="section",
        notes=[f"in brackets: the paper; {'; '.join(paper.doubts)}"] if paper else [],
    )
    return Comparison(rates, table)
