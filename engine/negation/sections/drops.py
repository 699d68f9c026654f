"""Does the model pass, and by how much: the verdict, the drops, and the patterns against each other."""

import re
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl

from ...figures import Figure, Section, charts
from ...sentences.patterns import Role
from ...statistics import crossed_interval, holm, paired_difference
from ...tables import Column, Table
from ..published import published
from ..rates import PAIR
from ..runs import ScoresRun
from ..tables import rates_table, selection_table

_POLARITY = re.compile(r"C(\w)T(\w)")
_WORDS = {"p": "affirmative", "n": "negated", "v": "with an adverb"}
_POINTS = "percentage points"


def verdict(run: ScoresRun) -> Section:
    """The answer in plain words."""
    n = int(run.rates["n"].max() or 0)  # type: ignore[arg-type]
    about = (
        f"{run.model_name} was asked for the verb in {n:,} triplets of a name, a profession and a verb, in each of "
        f"{len(run.rates)} patterns. It repeats all these verbs where nothing is negated."
    )
    return Section(
        "Does the model pass the test?",
        [run.reading, about, *([run.same_text] if run.same_text else [])],
        tables=[_gaps(run), selection_table(run.selection.summary, published(run.model_name))],
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
    paper = published(run.selection.summary["model"])
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


def pairs(run: ScoresRun) -> Section:
    """The minimal pairs: patterns that differ in a negation, as matrices."""
    figures = [*([own] if (own := _polarities(run)) else []), _differences(run)]
    return Section(
        "What changes between two patterns of a minimal pair?",
        ["Two patterns of a minimal pair differ in one negation only. All patterns have the same triplets."],
        figures=figures,
    )


def _two_way(rates: pl.DataFrame) -> str:
    """The end of the names of the intervals that the verdict uses: those for pairs and verbs, if the run has them."""
    suffix = "_two_way"
    known = f"drop_low{suffix}" in rates.columns and rates[f"drop_low{suffix}"].null_count() < len(rates)
    return suffix if known else ""


def _gaps(run: ScoresRun) -> Table:
    """For each forbidden pattern and each control: the difference of their drops on the same triplets."""
    patterns = run.selection.patterns.scored
    forbidden, controls = (
        [pattern.name for pattern in patterns if pattern.role is role] for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    wide = _wide(run)
    rows = []
    for first, second in product(forbidden, controls):
        # A drop is 100 - rate, so the difference of drops is the difference of the rates with its sides exchanged.
        sides = wide[second].to_numpy(), wide[first].to_numpy()
        found = paired_difference(*sides, wide["pair"].to_numpy())
        low, high = crossed_interval(*sides, wide["pair"].to_numpy(), wide["verb"].to_numpy())
        rows.append((first, second, found.value, low, high, found.p, found.n))
    figures = dict.fromkeys(("difference", "low", "high", "p"), pl.Float64)
    frame = pl.DataFrame(
        rows, schema={"forbidden": pl.String, "control": pl.String, **figures, "n": pl.Int64}, orient="row"
    ).with_columns(pl.col("difference", "low", "high") * 100)
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


def _polarities(run: ScoresRun) -> Figure | None:
    """Repetition rates by the polarity of context and target; None where the names of the patterns do not say it."""
    found = [(match, row) for row in run.rates.iter_rows(named=True) if (match := _POLARITY.fullmatch(row["pattern"]))]
    if len(found) < len(run.rates):
        return None
    rows = [
        {
            "pattern": row["pattern"],
            "context": _WORDS.get(match[1], match[1]),
            "target": _WORDS.get(match[2], match[2]),
            "repetition_rate": row["repetition_rate"],
            "cell": "" if row["repetition_rate"] is None else f"{row['repetition_rate']:.1f} %",
        }
        for match, row in found
    ]
    frame = pl.DataFrame(rows, schema_overrides={"repetition_rate": pl.Float64})
    table = Table(
        "Repetition rate by the polarity of context and target",
        frame.drop("cell"),
        [
            Column("pattern", "pattern"),
            Column("context", "context"),
            Column("target", "target"),
            Column("repetition rate", "repetition_rate", decimals=1, unit="%"),
        ],
    )
    return Figure(
        "polarities",
        charts.Matrix(
            frame,
            row="context",
            column="target",
            value="repetition_rate",
            text="cell",
            size=76,
            row_title="context sentence",
            column_title="target sentence",
        ),
        table,
        "A matrix of repetition rates: " + ", ".join(f"{row['pattern']} {row['cell']}" for row in rows) + ".",
        "Repetition rate of the verb. Neighbouring cells are a minimal pair: only one of the two sentences is changed.",
    )


def _differences(run: ScoresRun) -> Figure:
    """Each pattern against each other one: who repeats what on the same triplets."""
    wide, names = _wide(run), run.rates["pattern"].to_list()
    rows: list[dict[str, Any]] = []
    for first, second in combinations(names, 2):
        one, other = wide[first].to_numpy(), wide[second].to_numpy()
        value = float(one.mean() - other.mean())
        low, high = crossed_interval(one, other, wide["pair"].to_numpy(), wide["verb"].to_numpy())
        both, only_first, only_second = (
            int(np.count_nonzero(which)) for which in (one & other, one & ~other, other & ~one)
        )
        rows.append(
            {
                "first": first,
                "second": second,
                "difference": 100 * value,
                "low": None if low is None else 100 * low,
                "high": None if high is None else 100 * high,
                "both": both,
                "only_first": only_first,
                "only_second": only_second,
                "neither": len(wide) - both - only_first - only_second,
            }
        )
    frame = pl.DataFrame(rows, schema_overrides={"low": pl.Float64, "high": pl.Float64})
    mirrored = frame.select(first="second", second="first", difference=-pl.col("difference"))
    whole = pl.concat([frame.select("first", "second", "difference"), mirrored])
    values = {(first, second): value for first, second, value in whole.iter_rows()}
    cells = pl.DataFrame(
        [(one, other, values.get((one, other))) for one, other in product(names, names)],
        schema={"first": pl.String, "second": pl.String, "difference": pl.Float64},
        orient="row",
    ).with_columns(
        text=pl.Series(["" if (v := values.get(pair)) is None else f"{v:+.1f}" for pair in product(names, names)])
    )
    counts = ("both", "only_first", "only_second", "neither")
    table = Table(
        "Difference of the repetition rates on the same triplets: first − second",
        frame,
        [
            Column("first", "first"),
            Column("second", "second"),
            Column("difference", "difference", low="low", high="high", decimals=1, signed=True, unit=_POINTS),
            *(Column(name.replace("_", " "), name) for name in counts),
        ],
        notes=[
            "both, only first, only second, neither: in how many triplets the verb is repeated",
            "in square brackets: 95 % interval, for which pairs and verbs are clusters",
        ],
    )
    largest = max(rows, key=lambda row: abs(row["difference"]))
    return Figure(
        "differences",
        charts.Matrix(cells, row="first", column="second", value="difference", text="text"),
        table,
        f"A matrix of differences between patterns. The largest is {largest['first']} − {largest['second']}: "
        f"{largest['difference']:+.1f} {_POINTS}.",
        f"Repetition rate of the row minus that of the column, in {_POINTS}.",
    )


def _wide(run: ScoresRun) -> pl.DataFrame:
    """One row for each triplet: the numbers of its pair and verb, and for each pattern whether the verb is repeated."""
    scores = run.items.select("triplet", "pattern", "repeated")
    by_pattern = dict(scores.group_by("pattern", maintain_order=True))
    numbers = run.selection.triplets.sort("triplet").select(
        pair=pl.struct(*PAIR).rank("dense").cast(pl.Int64) - 1, verb=pl.col("verb").rank("dense").cast(pl.Int64) - 1
    )
    repeated = [
        by_pattern[name,].sort("triplet").select(pl.col("repeated").alias(name)) for name in run.rates["pattern"]
    ]
    return pl.concat([numbers, *repeated], how="horizontal")


def _listed(drops_: pl.DataFrame) -> str:
    rows = drops_.filter(pl.col("role") != str(Role.SELECTING)).drop_nulls("drop")
    return ", ".join(f"{pattern} {drop:.1f}" for pattern, drop in rows.select("pattern", "drop").iter_rows())
