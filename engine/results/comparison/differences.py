"""Outcomes of two sides, item by item: their difference with its interval, and a test, for each group of items.

Items that share a cluster are not independent: the triplets of a pair, the facts of a relation. The interval and the
test are for clusters (`negengine.engine.statistics.differences`). p is adjusted with Holm's method over all tests of
one table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from ...basics.errors import InputError
from ...basics.printable import counted
from ...experiments.summary import paired
from ...library.run import Run
from ...statistics.differences import crossed_interval
from ...statistics.p_values import SMALLEST_P, holm, smallest_p
from ...views import Column, Table

GROUP = ("dataset", "condition", "split", "metric")
"""The columns of outcomes that make a group: what one figure of a table is about."""
Sides = Mapping[tuple[Any, ...], tuple[pl.DataFrame, pl.DataFrame]]
_PERCENTAGE_POINTS = "percentage points"
_FIGURES = {
    "n": pl.Int64,
    "clusters": pl.Int64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "low_two_way": pl.Float64,
    "high_two_way": pl.Float64,
    "unit": pl.String,
    "detectable": pl.Float64,
    "p": pl.Float64,
}


def outcomes_of(run: Run, group: Sequence[str]) -> pl.DataFrame:
    """A run's outcomes, each item once in its group: items are joined by their words.

    An item without a cluster is a cluster of its own. An item that occurs twice in its group is an `InputError`.
    """
    outcomes = run.outcomes()
    repeated = outcomes.filter(pl.struct(*group, "item").is_duplicated())
    if not repeated.is_empty():
        raise InputError(
            f"{run.folder}: the item {repeated['item'][0]!r} occurs more than once; compare joins by items"
        )
    for name in ("cluster", "crossed"):
        if name not in outcomes.columns:
            outcomes = outcomes.with_columns(pl.lit(None, pl.String).alias(name))
    return outcomes.with_columns(pl.col("cluster").fill_null(pl.col("item")))


def differences_frame(sides: Sides, keys: Sequence[str]) -> pl.DataFrame:
    """A row for each two sides with common items.

    Columns: the keys, n, clusters, difference (first - second), its 95 % interval (low, high), that with both kinds of
    clusters (low_two_way, high_two_way; null where there is one kind), unit (percentage points where all outcomes are 0
    or 1), detectable (the smallest true difference that is found with a power of 80 %), p, p_holm, tests (the number of
    tests that p_holm is corrected for).
    """
    rows = []
    for key, (first, second) in sides.items():
        other = second.select("item", other="value")
        both = first.select("item", "value", "cluster", "crossed").join(other, on="item", validate="1:1")
        if not both.is_empty():
            rows.append((*key, *_difference(both)))
    frame = pl.DataFrame(rows, schema={**dict.fromkeys(keys, pl.String), **_FIGURES}, orient="row")
    return frame.with_columns(
        p_holm=pl.Series(holm(frame["p"].to_numpy().astype(np.float64)), dtype=pl.Float64),
        tests=pl.lit(len(frame), pl.Int64),
    )


def _difference(both: pl.DataFrame) -> tuple[int | float | str | None, ...]:
    """One row. Rates are in percentage points, other numbers in their own unit."""
    values = [both["value"], both["other"]]
    yes_or_no = all(set(value.unique()) <= {0.0, 1.0} for value in values)
    if yes_or_no:
        values = [value.cast(pl.Boolean) for value in values]
    found = paired(values[0], values[1], both["cluster"])
    ends: tuple[float | None, ...] = (found.low, found.high, None, None)
    if both["crossed"].null_count() == 0 and found.clusters < found.n:
        numbers = [both[name].rank("dense").to_numpy().astype(np.int64) - 1 for name in ("cluster", "crossed")]
        ends = (*ends[:2], *crossed_interval(values[0].to_numpy(), values[1].to_numpy(), *numbers))
    scale, unit = (100, _PERCENTAGE_POINTS) if yes_or_no else (1, "")
    figures = [None if figure is None else scale * figure for figure in (found.value, *ends, found.detectable)]
    return found.n, found.clusters, *figures[:5], unit, figures[5], found.p


def differences_table(title: str, frame: pl.DataFrame, keys: Sequence[str], clusters: str) -> Table:
    """The table that a person reads; what is the same in all rows stands below it. Clusters: such as `relations`."""
    shown = frame.with_columns(decimals=pl.when(pl.col("unit") == "").then(3).otherwise(1))
    varying = [key for key in keys if frame[key].n_unique() > 1] or list(keys[-1:])
    counts = [name for name in ("n", "clusters") if frame[name].n_unique() > 1]
    figures: dict[str, Any] = {"decimals": "decimals", "wrap": False}
    return Table(
        title,
        shown,
        [
            *(Column(key, key) for key in varying),
            *(Column(name, name, wrap=False) for name in counts),
            Column("difference", "difference", low="low", high="high", signed=True, **figures),
            Column("finds", "detectable", **figures),
            Column("p", "p", significant=2, wrap=False),
            Column("p (Holm)", "p_holm", significant=2, wrap=False),
        ],
        notes=_notes(frame, [key for key in keys if key not in varying], clusters),
    )


def pairs_table(title: str, frame: pl.DataFrame, keys: Sequence[str], clusters: str) -> Table:
    """The differences of every two models: a section for each two; `first` and `second` stand before the keys."""
    table = differences_table(title, frame, keys, clusters)
    pair = "first − second"
    columns = [
        replace(column, wrap=True) if column.value in keys else column
        for column in table.columns
        if column.heading not in {"clusters", "p"}
    ]
    return replace(
        table,
        frame=table.frame.with_columns(pl.format("{} − {}", "first", "second").alias(pair)),
        columns=[Column(pair, pair), *columns],
        section=pair,
        notes=[*table.notes, "p alone is in JSON and CSV"],
    )


def _notes(frame: pl.DataFrame, constant: Sequence[str], clusters: str) -> list[str]:
    if frame.is_empty():
        return []
    first = frame.row(0, named=True)
    fewest, most = int(frame["clusters"].to_numpy().min()), int(frame["clusters"].to_numpy().max())
    notes = [f"all rows: {', '.join(str(first[key]) for key in constant)}"] if constant else []
    n = f"{frame['n'][0]:,} items, " if frame["n"].n_unique() == 1 else ""
    counted = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    smallest = smallest_p(fewest)
    notes += [
        f"{n}clusters: {counted} {clusters}",
        f"difference [95 % interval]: in {_PERCENTAGE_POINTS}, other numbers with three decimals in their own unit",
        "finds: the smallest true difference that this test finds with a power of 80 % (5 %, two-sided)",
        f"p: by sign flips of clusters; p (Holm): corrected for {_tests(first['tests'])}; "
        + (
            f"{fewest} clusters cannot give a p below {smallest:.2g}"
            if smallest > SMALLEST_P
            else f"a p below {SMALLEST_P:.0e} is given as {SMALLEST_P:.0e}"
        ),
    ]
    crossed = frame.drop_nulls("low_two_way")
    if not crossed.is_empty():
        open_ = crossed.filter((pl.col("low_two_way") <= 0) & (pl.col("high_two_way") >= 0))
        notes.append(
            f"with verbs as clusters too, {len(open_)} of {len(crossed)} intervals include 0 "
            "(low_two_way and high_two_way in JSON and CSV)"
        )
    return notes


def _tests(count: int) -> str:
    return counted(count, "test")
