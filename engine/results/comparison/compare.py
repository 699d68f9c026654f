"""`ng.compare`: finished runs against each other, or what one run has to compare: see `Run.contrast`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.numerals import FRACTION, POINTS
from ...basics.printable import isolated
from ...library.run import Run
from ...library.shown import Shown
from ...requests.contrast import paired_differences
from ...requests.summary import correction_note, disagreements
from ...views import Column, Table
from .estimates import (
    GROUP,
    SHOWN,
    constant_keys,
    differing,
    estimates,
    estimates_tables,
    key_columns,
    labelled,
    other_items,
    outcomes_of,
    texts_of,
)
from .runs import labels, open_alike, other_vocabularies, refuse_unlike

_DETECTABLE = "detectable difference"


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """The comparison of some runs.

    Attributes:
        frame: One row for each test: what is compared, and the columns of `paired_differences`.
        table: The same as a person reads it.
        rates: For runs of several models: the columns of `estimates`; else those of `Contrast.rates`.
        after: For runs of two models: on how many items both have an outcome, such as a right answer, one or neither.
        other: Where the models have other items, a line that says so.
    """

    frame: pl.DataFrame
    table: Table
    rates: pl.DataFrame | None = None
    before: Sequence[Table] = field(default=())
    after: Sequence[Table] = ()
    other: Sequence[str] = ()

    def tables(self) -> list[Table]:
        return [*self.before, self.table, *self.after]

    def document(self) -> Any:
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
    own, clusters = found[0].contrast(found), found[0].clusters
    if own is None and len(found) == 1:
        raise InputError(f"{found[0].folder}: compare needs two runs of {found[0].stage}")
    if own is None:
        return _between_models(found)
    sided = {id(run): run for side in own.sides.values() for run, *_ in side}
    outcomes = {number: outcomes_of(run) for number, run in sided.items()}

    def of_side(run: Run, condition: str, split: str) -> pl.DataFrame:
        return outcomes[id(run)].filter(condition=condition, split=split)

    sides = {key: (of_side(*first), of_side(*second)) for key, (first, second) in own.sides.items()}
    frame = paired_differences(sides, own.keys)
    return Comparison(frame, differences_table(own.title, frame, own.keys, clusters), own.rates, own.before)


def _between_models(runs: Sequence[Run]) -> Comparison:
    refuse_unlike(runs)
    names = labels(runs)
    known = runs[0].by_construction  # without error, so that nothing is tested
    outcomes = {
        name: outcomes_of(run).filter(~pl.col("split").is_in(list(known)))
        for name, run in zip(names, runs, strict=True)
    }
    groups = {name: dict(own.group_by(*GROUP, maintain_order=True)) for name, own in outcomes.items()}
    sides = {
        (first, second, *key): (one[key], other[key])
        for (first, one), (second, other) in combinations(groups.items(), 2)
        for key in one
        if key in other
    }
    frame = paired_differences(sides, ("first", "second", *GROUP))
    if frame.is_empty():
        raise InputError(f"{' and '.join(str(run.folder) for run in runs)} have no item in common")
    every = estimates(outcomes, GROUP, runs[0].drop_of)
    found, other = every.filter(pl.col("column").is_null()), other_items(every)
    before = estimates_tables(found, runs[0].clusters, other)
    title, keys = between(*names[:2]), [*SHOWN]
    if len(runs) > 2:
        title, keys = "Every two models, on the items of both: first − second", ["first", "second", *SHOWN]
    table, notes = differences_table(title, frame, keys, runs[0].clusters), list[str]()
    if without := set(combinations(names, 2)) - set(frame.select("first", "second").iter_rows()):
        pairs = "; ".join(f"{first} and {second}" for first, second in sorted(without))
        notes.append(f"without an item in common: {pairs}")
    if len({run.score for run in runs}) > 1:
        said = ", ".join(f"{name} by {run.score}" for name, run in zip(names, runs, strict=True))
        notes.append(f"which sentence is the more probable one: {said}")
    table = replace(table, notes=[*table.notes, *notes, *other_vocabularies(runs, frame)])
    after = [agreement_table(names, frame)] if len(runs) == 2 and frame["both"].count() else []
    return Comparison(frame, table, found, before, after, other)


def between(first: str, second: str) -> str:
    """The title of a table of the differences of two models."""
    return f"{isolated(first)} − {isolated(second)}, on the items of both runs"


def differences_table(title: str, frame: pl.DataFrame, keys: Sequence[str], clusters: str) -> Table:
    """The table that a person reads; what is the same in all rows stands below it. Clusters: such as `relations`."""
    rate = pl.when(pl.col("unit") == FRACTION)
    shown = labelled(frame).with_columns(decimals=rate.then(1).otherwise(3), scale=rate.then(100).otherwise(1))
    unit = POINTS if set(frame["unit"]) == {FRACTION} else ""
    varying = differing(shown, keys) or [keys[-1]]
    counts = [name for name in ("n", "clusters") if frame[name].n_unique() > 1]
    figures: dict[str, Any] = {"decimals": "decimals", "scale": "scale", "unit": unit, "wrap": False}
    columns = [
        *key_columns(varying, shown),
        *(Column(name, name, wrap=False) for name in counts),
        Column("difference", "difference", low="low", high="high", signed=True, **figures),
        Column(_DETECTABLE, "detectable", **{**figures, "wrap": True}),
        Column("p", "p", significant=2, wrap=False),
        Column("p (Holm)", "p_holm", significant=2, wrap=False),
    ]
    notes = _notes(shown, [key for key in keys if key not in varying], clusters)
    return Table(title, shown, columns, notes=notes, texts=texts_of(shown))


def agreement_table(names: Sequence[str], frame: pl.DataFrame) -> Table:
    """In how many items two models have the same outcome."""
    shown = labelled(frame.drop_nulls("both"))
    varying = differing(shown) or [SHOWN[-1]]
    columns = [
        *key_columns(varying, shown),
        Column("n", "n", wrap=False),
        Column("both", "both"),
        *(Column(f"only {name}", f"only_{side}") for name, side in zip(names, ("first", "second"), strict=True)),
        Column("neither", "neither"),
    ]
    notes = ["`negengine view RUN RUN` shows these items with both answers"]
    title = "How many items count in the rates of both models, one or neither"
    return Table(title, shown, columns, notes=notes, texts=texts_of(shown))


def _notes(frame: pl.DataFrame, constant: Sequence[str], clusters: str) -> list[str]:
    if frame.is_empty():
        return []
    fewest, most = int(frame["clusters"].to_numpy().min()), int(frame["clusters"].to_numpy().max())
    notes = constant_keys(frame, constant)
    n = f"{frame['n'][0]:,} items, " if frame["n"].n_unique() == 1 else ""
    range_ = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    crossed, mixed = frame["crossed"].null_count() < len(frame), frame["unit"].n_unique() > 1
    tests = ", of verbs, and by Student's test for both; the largest one" if crossed else ""
    notes += [
        f"{n}clusters ({clusters}): {range_}",
        *[f"differences of rates: in {POINTS} here, fractions in files; of other numbers: in their own unit"] * mixed,
        f"{_DETECTABLE}: true differences of this size or more are found with 80 % power (5 %, two-sided)",
        correction_note(frame, f"by sign flips of clusters{tests}", ""),
    ]
    if crossed:
        notes.append(f"interval, {_DETECTABLE} and p allow for verbs as clusters too")
    return [*notes, *disagreements(frame)]
