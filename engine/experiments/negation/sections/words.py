"""Which genders, verbs, professions and names drive the result."""

from collections.abc import Callable

import numpy as np
import polars as pl

from ....statistics import cluster_interval, proportion
from ....views import Column, Figure, Section, Table, charts
from ..rates import PAIR
from ..runs import ScoresRun
from ..score import SCORES_FILE

_MOST = 12
_GENDERS = {"f": "female name", "m": "male name"}
Interval = Callable[[pl.DataFrame], tuple[float | None, float | None]]


def drivers(run: ScoresRun) -> Section:
    """Repetition rates by gender, and by those verbs, professions and names that move the overall rates most."""
    triplets = run.selection.triplets
    counts = (
        pl.scan_parquet(run.folder / SCORES_FILE)
        .select("triplet", "pattern", "repeated")
        .join(triplets.lazy().select("triplet", *PAIR, "gender", "verb"), on="triplet")
        .filter(pl.col("pattern") != run.selection.patterns.selecting.name)
    )
    sums = (pl.col("repeated").sum().cast(pl.Int64).alias("repetitions"), pl.len().cast(pl.Int64).alias("n"))
    clusters = counts.group_by("pattern", *PAIR, "gender").agg(*sums).collect().sort("pattern", *PAIR)
    by_verb = counts.group_by("pattern", "verb").agg(*sums).collect().sort("pattern", "verb")
    genders = clusters.with_columns(pl.col("gender").replace(_GENDERS))
    # A verb occurs once at most in each pair, so its triplets are independent of each other.
    figures = [
        _figure(run, "gender", genders, "gender", _clustered),
        _figure(run, "verb", by_verb, "verb", _independent),
        _figure(run, "profession", clusters, "profession", _clustered),
        _figure(run, "name", clusters, "name", _clustered),
    ]
    return Section(
        "Which words drive the result?",
        [_driver(figure.data, what) for figure, what in zip(figures[1:], ("verb", "profession", "name"), strict=True)],
        figures=figures,
        notes=[
            (
                f"Shown are the {_MOST} words that move the rates most: the number of a word's triplets "
                "times the distance of its rate from the pattern's, added up over the patterns."
            )
        ],
    )


def _figure(run: ScoresRun, what: str, counts: pl.DataFrame, column: str, interval: Interval) -> Figure:
    """Rates of the words that move the result most, with a small chart for each pattern.

    Args:
        run: The run.
        what: The kind of word.
        counts: pattern, the column, repetitions, n; one row for each cluster.
        column: The words.
        interval: Gives the interval of a word's rate in a pattern from its rows.
    """
    patterns = [name for name in run.rates["pattern"] if name != run.selection.patterns.selecting.name]
    overall = dict(run.rates.select("pattern", pl.col("repetition_rate") / 100).iter_rows())
    sums = counts.group_by("pattern", column, maintain_order=True).agg(pl.col("repetitions", "n").sum())
    moved = sums.with_columns(overall=pl.col("pattern").replace_strict(overall, return_dtype=pl.Float64)).with_columns(
        rate=pl.col("repetitions") / pl.col("n"),
        contribution=(pl.col("repetitions") - pl.col("n") * pl.col("overall")) / pl.col("n").sum().over("pattern"),
    )
    strongest = (
        moved.group_by(column, maintain_order=True)
        .agg(strength=pl.col("contribution").abs().sum())
        .sort("strength", column, descending=[True, False])
        .head(_MOST)[column]
        .to_list()
    )
    order = {word: number for number, word in enumerate(sorted(strongest) if what == "gender" else strongest)}
    places = {name: number for number, name in enumerate(patterns)}
    rows = (
        moved.filter(pl.col(column).is_in(strongest))
        .sort(
            pl.col("pattern").replace_strict(places, return_dtype=pl.Int64),
            pl.col(column).replace_strict(order, return_dtype=pl.Int64),
        )
        .select("pattern", pl.col(column).alias(what), "n", "repetitions", "rate", "overall", "contribution")
    )
    groups = counts.filter(pl.col(column).is_in(strongest)).partition_by(
        "pattern", column, as_dict=True, maintain_order=True
    )
    ends = [interval(groups[pattern, word]) for pattern, word in rows.select("pattern", what).iter_rows()]
    frame = rows.with_columns(low=pl.Series([e[0] for e in ends], dtype=pl.Float64),
                              high=pl.Series([e[1] for e in ends], dtype=pl.Float64))  # fmt: skip
    label = pl.col(what) if what == "gender" else pl.format("{} ({})", what, "n")
    percent = frame.with_columns(pl.col("rate", "low", "high", "overall") * 100, label=label)
    table = Table(
        f"Repetition rate by {what}",
        frame,
        [
            Column("pattern", "pattern"),
            Column(what, what),
            Column("triplets", "n"),
            Column("repetition rate", "rate", low="low", high="high", decimals=1, scale=100, unit="%"),
            Column("moves the rate by", "contribution", decimals=2, scale=100, signed=True, unit="percentage points"),
        ],
        section="pattern",
    )
    return Figure(
        f"by-{what}",
        charts.Points(
            percent,
            x="rate",
            y="label",
            low="low",
            high="high",
            panel="pattern",
            title="repetition (%)",
            domain=(0, 100),
        ),
        table,
        f"A small chart for each pattern with a point for the repetition rate of each {what}, with its interval.",
        f"Repetition rate by {what}, with 95 % intervals."
        + ("" if what == "gender" else " In brackets: the number of triplets."),
        wide=True,
        joint=what == "gender",
    )


def _driver(frame: pl.DataFrame, what: str) -> str:
    """The word that moves one pattern's rate most, in a sentence."""
    if frame.is_empty():
        return f"There is no {what}."
    row = frame.sort(pl.col("contribution").abs(), descending=True, maintain_order=True).row(0, named=True)
    way = "raises" if row["contribution"] > 0 else "lowers"
    return (
        f"The {what} that moves a rate most is “{row[what]}”: it {way} the rate of {row['pattern']} by "
        f"{abs(100 * row['contribution']):.2f} percentage points ({row['n']:,} triplets, "
        f"{100 * row['rate']:.1f} % repeated)."
    )


def _clustered(rows: pl.DataFrame) -> tuple[float | None, float | None]:
    if len(rows) < 2:  # a single pair shows no variation between pairs
        return None, None
    return cluster_interval(rows["repetitions"].to_numpy().astype(np.int64), rows["n"].to_numpy().astype(np.int64))


def _independent(rows: pl.DataFrame) -> tuple[float, float]:
    _, low, high = proportion(int(rows["repetitions"].sum()), int(rows["n"].sum()))
    return low, high
