"""Does the model pass, and by how much: the verdict and the drops."""

import polars as pl

from ....statistics import holm
from ....text.pattern import Role
from ....views import Column, Figure, Section, Table, charts
from ..published import published
from ..runs import ScoresRun
from ..tables import rates_table, selection_table

_POINTS = "percentage points"


def verdict(run: ScoresRun, differences: pl.DataFrame) -> Section:
    """The answer in plain words.

    Args:
        run: The run.
        differences: From `patterns.differences`.
    """
    n = int(run.rates["n"].max() or 0)  # type: ignore[arg-type]
    about = (
        f"{run.model_name} was asked for the verb in {n:,} triplets of a name, a profession and a verb, in each of "
        f"{len(run.rates)} patterns. It repeats all these verbs where nothing is negated."
    )
    return Section(
        "Does the model pass the test?",
        [run.reading, about, *([run.same_text] if run.same_text else [])],
        tables=[
            _gaps(run, differences),
            selection_table(run.selection.summary, published(run.model_name, run.selection.patterns)),
        ],
        notes=[
            (
                "A model passes if its drop in every forbidden pattern is above its drop in every control. "
                "In a forbidden pattern the negation rules out that the verb is repeated; in a control the verb stays "
                "natural."
            )
        ],
    )


def drops(run: ScoresRun) -> Section:
    """The drop of each pattern with its interval, beside the published one."""
    paper = published(run.selection.summary["model"], run.selection.patterns)
    table = rates_table(run.rates, run.selection.patterns, run.selection.summary, paper)
    ends = [f"drop_{end}{_two_way(run.rates)}" for end in ("low", "high")]
    clusters = " for which pairs and verbs are clusters" if _two_way(run.rates) else ""
    ours = table.frame.select(
        "pattern", "role", pl.lit(run.model_name).alias("source"), "drop", drop_low=ends[0], drop_high=ends[1]
    )
    theirs = table.frame.select(
        "pattern",
        "role",
        pl.lit("paper").alias("source"),
        pl.col("published").alias("drop"),
        *(pl.lit(None, pl.Float64).alias(name) for name in ("drop_low", "drop_high")),
    )
    shown = pl.concat([ours, theirs]).filter(pl.col("role") != str(Role.SELECTING)).drop_nulls("drop")
    shown = shown.with_columns(pl.format("{}, {}", "pattern", "role").alias("pattern"))
    series = "source" if (shown["source"] == "paper").any() else None
    chart = charts.Points(
        shown, x="drop", y="pattern", low="drop_low", high="drop_high", series=series, title=f"drop ({_POINTS})"
    )
    figure = Figure(
        "drops",
        chart,
        table,
        f"A point for the drop of each pattern: {_listed(ours)}.",
        f"Drop of the repetition rate in each pattern, with 95 % intervals{clusters}."
        + (" The paper prints its drops without intervals." if series else ""),
        joint=True,
    )
    return Section(
        "How much does each pattern lower the repetition of the verb?",
        ["The drop is the share of the triplets whose verb is no longer the first choice (100 − repetition rate)."],
        figures=[figure],
    )


def _two_way(rates: pl.DataFrame) -> str:
    """The end of the names of the intervals that the verdict uses: those for pairs and verbs, if the run has them."""
    suffix = "_two_way"
    known = f"drop_low{suffix}" in rates.columns and rates[f"drop_low{suffix}"].null_count() < len(rates)
    return suffix if known else ""


def _gaps(run: ScoresRun, differences: pl.DataFrame) -> Table:
    """For each forbidden pattern and each control: the difference of their drops on the same triplets."""
    patterns = run.selection.patterns.scored
    forbidden, controls = (
        [pattern.name for pattern in patterns if pattern.role is role] for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    frame = (
        differences.filter(pl.col("first").is_in(controls) & pl.col("second").is_in(forbidden))
        # A drop is 100 - rate, so the difference of drops is the difference of the rates with its sides exchanged.
        .select(forbidden="second", control="first", difference="difference", low="low", high="high", p="p", n="n")
        .sort(pl.col("forbidden").replace_strict(forbidden, range(len(forbidden)), default=None), maintain_order=True)
    )
    return Table(
        "By how much: drop of the forbidden pattern − drop of the control, on the same triplets",
        frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy()), dtype=pl.Float64)),
        [
            Column("forbidden", "forbidden"),
            Column("control", "control"),
            Column("difference", "difference", decimals=1, signed=True, unit=_POINTS),
            Column("95 % interval", low="low", high="high", decimals=1, signed=True, unit=_POINTS),
            Column("p (Holm)", "p_holm", significant=2),
            Column("triplets", "n"),
        ],
        notes=["interval: pairs and verbs are clusters; p: by sign flips of pairs, adjusted with Holm's method"],
    )


def _listed(drops_: pl.DataFrame) -> str:
    rows = drops_.filter(pl.col("role") != str(Role.SELECTING)).drop_nulls("drop")
    return ", ".join(f"{pattern} {drop:.1f}" for pattern, drop in rows.select("pattern", "drop").iter_rows())
