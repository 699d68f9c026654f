"""What a report says about a run of the Self-Contained Negation Test, from the answer to the single words."""

import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from ...inference.exported import REFERENCE
from ...statistics.clusters import clustered_mean, proportion_interval
from ...statistics.intervals import proportion
from ...statistics.p_values import holm
from ...text.pattern import Role
from ...views import Column, Figure, Section, Table, charts
from .differences import differences
from .rates import PAIR
from .runs import ScoresRun, SelectionRun
from .score import SCORES_FILE
from .tables import POINTS, published, rates_table, selection_table

_POLARITY = re.compile(r"C(\w)T(\w)")
_POLARITIES = {"p": "affirmative", "n": "negated", "v": "with an adverb"}
_TOP = 8
_RANKS = ((1, "1"), (2, "2"), (3, "3"), (5, "4–5"), (10, "6–10"), (100, "11–100"), (1000, "101–1,000"))
_BEYOND = "> 1,000"
_QUANTILES = (5, 25, 50, 75, 95)
_MOST = 12
_GENDERS = {"f": "female name", "m": "male name"}
Interval = Callable[[pl.DataFrame], tuple[float | None, float | None]]


def scored(run: ScoresRun) -> list[Section]:
    """The sections of a scored run, from the answer to the single sentences."""
    between = differences(run)
    return [
        _verdict(run, between),
        _drops(run),
        _pairs(run, between),
        replacements(run),
        _shifts(run),
        _drivers(run),
        *([] if run.several is None else [_apart(run)]),
    ]


def _apart(run: ScoresRun) -> Section:
    """Verbs of several tokens, which no other section counts."""
    how = (
        "A verb of several tokens is repeated if each of its tokens is the first choice at its mask, filled from left "
        "to right. All other sections are about mono-token verbs, as the paper is."
    )
    return Section("Do verbs of several tokens differ?", [run.reading_apart], tables=run.tables_apart(), notes=[how])


def selected(run: SelectionRun) -> list[Section]:
    """The one section of a selection that is not scored yet."""
    return [Section("Selected triplets", run.remarks(), tables=run.tables())]


def _verdict(run: ScoresRun, between: pl.DataFrame) -> Section:
    n = int(run.rates["n"].max() or 0)  # type: ignore[arg-type]
    about = (
        f"{run.model_name} was asked for the verb in {n:,} triplets of a name, a profession and a verb, in each of "
        f"{len(run.rates)} patterns. It repeats all these verbs where nothing is negated."
    )
    return Section(
        "Does the model pass the test?",
        [run.reading, about, *([run.same_text] if run.same_text else [])],
        tables=[
            _gaps(run, between),
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


def _drops(run: ScoresRun) -> Section:
    paper = published(run.selection.summary["model"], run.selection.patterns)
    table = rates_table(run.rates, run.selection.patterns, run.selection.summary, paper)
    ends = {"drop_low": "drop_low_two_way", "drop_high": "drop_high_two_way"}
    ours = table.frame.select("pattern", "role", pl.lit(run.model_name).alias("source"), "drop", **ends)
    theirs = table.frame.select(
        "pattern",
        "role",
        pl.lit("paper").alias("source"),
        pl.col("published").alias("drop"),
        *(pl.lit(None, pl.Float64).alias(name) for name in ends),
    )
    shown = pl.concat([ours, theirs]).filter(pl.col("role") != str(Role.SELECTING)).drop_nulls("drop")
    shown = shown.with_columns(pl.format("{}, {}", "pattern", "role").alias("pattern"))
    series = "source" if (shown["source"] == "paper").any() else None
    chart = charts.Points(
        shown, x="drop", y="pattern", low="drop_low", high="drop_high", series=series, title=f"drop ({POINTS})"
    )
    figure = Figure(
        "drops",
        chart,
        table,
        f"A point for the drop of each pattern: {_listed(ours)}.",
        "Drop of the repetition rate in each pattern, with 95 % intervals for which pairs and verbs are clusters."
        + (" The paper prints its drops without intervals." if series else ""),
        joint=True,
    )
    return Section(
        "How much does each pattern lower the repetition of the verb?",
        ["The drop is the share of the triplets whose verb is no longer the first choice (100 − repetition rate)."],
        figures=[figure],
    )


def _gaps(run: ScoresRun, between: pl.DataFrame) -> Table:
    """For each forbidden pattern and each control: the difference of their drops on the same triplets."""
    patterns = run.selection.patterns.scored
    forbidden, controls = (
        [pattern.name for pattern in patterns if pattern.role is role] for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    frame = (
        between.filter(pl.col("first").is_in(controls) & pl.col("second").is_in(forbidden))
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
            Column("difference", "difference", decimals=1, signed=True, unit=POINTS),
            Column("95 % interval", low="low", high="high", decimals=1, signed=True, unit=POINTS),
            Column("p (Holm)", "p_holm", significant=2),
            Column("triplets", "n"),
        ],
        notes=["interval: pairs and verbs are clusters; p: by sign flips of pairs, adjusted with Holm's method"],
    )


def _listed(drops_: pl.DataFrame) -> str:
    rows = drops_.filter(pl.col("role") != str(Role.SELECTING)).drop_nulls("drop")
    return ", ".join(f"{pattern} {drop:.1f}" for pattern, drop in rows.select("pattern", "drop").iter_rows())


def _pairs(run: ScoresRun, between: pl.DataFrame) -> Section:
    figures = [*([own] if (own := _polarities(run)) else []), _matrix(run, between)]
    return Section(
        "What changes between two patterns of a minimal pair?",
        ["Two patterns of a minimal pair differ in one negation only. All patterns have the same triplets."],
        figures=figures,
    )


def _polarities(run: ScoresRun) -> Figure | None:
    """Repetition rates by the polarity of context and target; None where the names of the patterns do not say it."""
    found = [(match, row) for row in run.rates.iter_rows(named=True) if (match := _POLARITY.fullmatch(row["pattern"]))]
    if len(found) < len(run.rates):
        return None
    rows = [
        {
            "pattern": row["pattern"],
            "context": _POLARITIES.get(match[1], match[1]),
            "target": _POLARITIES.get(match[2], match[2]),
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


def _matrix(run: ScoresRun, found: pl.DataFrame) -> Figure:
    names = run.rates["pattern"].to_list()
    text = (
        pl.when(pl.col("difference").is_null())
        .then(pl.lit(""))
        .otherwise(pl.col("difference").map_elements("{:+.1f}".format, pl.String))
    )
    whole = pl.DataFrame(list(product(names, names)), schema=["first", "second"], orient="row")
    cells = whole.join(found, on=["first", "second"], how="left", maintain_order="left").with_columns(text=text)
    places = {name: i for i, name in enumerate(names)}
    once = found.filter(
        pl.col("first").replace_strict(places, return_dtype=pl.Int64)
        < pl.col("second").replace_strict(places, return_dtype=pl.Int64)
    )
    frame = once.drop("n", "p")
    counts = ("both", "only_first", "only_second", "neither")
    table = Table(
        "Difference of the repetition rates on the same triplets: first − second",
        frame,
        [
            Column("first", "first"),
            Column("second", "second"),
            Column("difference", "difference", low="low", high="high", decimals=1, signed=True, unit=POINTS),
            *(Column(name.replace("_", " "), name) for name in counts),
        ],
        notes=[
            "both, only first, only second, neither: in how many triplets the verb is repeated",
            "in square brackets: 95 % interval, for which pairs and verbs are clusters",
        ],
    )
    largest = once.sort(pl.col("difference").abs(), maintain_order=True).row(-1, named=True)
    return Figure(
        "differences",
        charts.Matrix(cells, row="first", column="second", value="difference", text="text"),
        table,
        f"A matrix of differences between patterns. The largest is {largest['first']} − {largest['second']}: "
        f"{largest['difference']:+.1f} {POINTS}.",
        f"Repetition rate of the row minus that of the column, in {POINTS}.",
    )


def replacements(run: ScoresRun) -> Section:
    """The most frequent first choices that are not the verb, for each pattern."""
    counts = (
        _scan(run)
        .filter(~pl.col("repeated"))
        .group_by("pattern", "top1")
        .agg(n=pl.len().cast(pl.Int64))
        .collect()
        .join(run.rates.select("pattern", triplets="n"), on="pattern")
        .with_columns(share=pl.col("n") / pl.col("n").sum().over("pattern"))
        .sort("n", "top1", descending=[True, False])
    )
    order = {name: number for number, name in enumerate(run.rates["pattern"])}
    top = (
        counts.group_by("pattern", maintain_order=True)
        .head(_TOP)
        .sort(pl.col("pattern").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)
        .select("pattern", "top1", "n", "share", "triplets")
    )
    title = "What does the model say instead of the verb?"
    if top.is_empty():
        return Section(title, ["The model repeats every verb in every pattern."])
    distinct = dict(counts.group_by("pattern").agg(pl.len()).iter_rows())
    first = top.group_by("pattern", maintain_order=True).first()
    said = [_first_said(row, distinct[row["pattern"]]) for row in first.iter_rows(named=True)]
    table = Table(
        "Most frequent answers that are not the verb",
        top,
        [
            Column("pattern", "pattern"),
            Column("answer", "top1"),
            Column("triplets", "n"),
            Column("share of these answers", "share", decimals=1, scale=100, unit="%"),
        ],
        section="pattern",
    )
    figure = Figure(
        "replacements",
        charts.Bars(
            top.with_columns(text=pl.col("n").map_elements("{:,}".format, pl.String)),
            x="n",
            y="top1",
            panel="pattern",
            title="triplets",
            text="text",
        ),
        table,
        " ".join(said),
        f"The {_TOP} most frequent first choices that are not the verb, with the number of triplets.",
        wide=True,
    )
    return Section(title, said, figures=[figure], notes=_precision_note(run))


def _first_said(row: Mapping[str, Any], distinct: int) -> str:
    if distinct == 1:
        return f"{row['pattern']}: always “{row['top1']}” ({row['n']:,} times)."
    return (
        f"{row['pattern']}: most often “{row['top1']}” ({row['n']:,} times, {100 * row['share']:.0f} % of the answers "
        f"that are not the verb), among {distinct:,} different answers."
    )


def _shifts(run: ScoresRun) -> Section:
    """Rank and log-probability of the expected verb: a shift is visible even if the first choice stays the same."""
    ranks, quantiles = _ranks(run), _quantiles(run)
    medians = dict(quantiles.filter(pl.col("quantity") == "rank").select("pattern", "q50").iter_rows())
    said = (
        "The median rank of the verb is " + ", ".join(f"{rank:.0f} in {name}" for name, rank in medians.items()) + "."
    )
    columns = [Column("pattern", "pattern"), Column("rank", "rank")]
    rank_table = Table(
        "Rank of the expected verb",
        ranks,
        [
            *columns,
            Column("triplets", "n"),
            Column("share", "share", decimals=1, scale=100, unit="%"),
            Column("share up to this rank", "cumulative", decimals=1, scale=100, unit="%"),
        ],
        section="pattern",
    )
    ends = {label: str(last) for last, label in _RANKS} | {_BEYOND: "all"}
    shown = ranks.with_columns(percent=100 * pl.col("cumulative"), up_to=pl.col("rank").replace(ends))
    logprobs = quantiles.filter(pl.col("quantity") == "log-probability").drop("quantity")
    named = {f"q{q}": "median" if q == 50 else f"{q} %" for q in _QUANTILES}
    logprob_table = Table(
        "Log-probability of the expected verb: quantiles over the triplets",
        logprobs,
        [Column("pattern", "pattern"), *(Column(heading, name, decimals=2) for name, heading in named.items())],
        notes=["natural logarithm; the half of all triplets lies between 25 % and 75 %"],
    )
    figures = [
        Figure(
            "ranks",
            charts.Lines(
                shown,
                x="up_to",
                y="percent",
                series="pattern",
                x_title="rank of the verb",
                y_title="triplets up to this rank (%)",
                domain=(0, 100),
            ),
            rank_table,
            f"Lines of the share of the triplets whose verb has a rank or a better one. {said}",
            "Share of the triplets whose verb is among the first predictions: rank 1 is the repetition rate.",
            joint=True,
        ),
        Figure(
            "log-probabilities",
            charts.Points(
                logprobs,
                x="q50",
                y="pattern",
                low="q25",
                high="q75",
                title="log-probability of the verb (natural logarithm)",
                zero=False,
            ),
            logprob_table,
            "A point for the median log-probability of the verb in each pattern, with a line for the middle half.",
            "Median of the verb's log-probability; the line holds the middle half of the triplets. "
            "It is not a confidence interval.",
            joint=True,
        ),
    ]
    return Section("How far does the verb fall?", [said], figures=figures, notes=_precision_note(run))


def _ranks(run: ScoresRun) -> pl.DataFrame:
    """Counts of ranks in bins: pattern, rank, n, share, cumulative."""
    number = pl.lit(len(_RANKS))
    for position, (last, _) in reversed(list(enumerate(_RANKS))):
        number = pl.when(pl.col("expected_rank") <= last).then(position).otherwise(number)
    found = _scan(run).group_by("pattern", bin=number).agg(n=pl.len().cast(pl.Int64)).collect()
    counts = {(pattern, place): n for pattern, place, n in found.iter_rows()}
    labels = [*(label for _, label in _RANKS), _BEYOND]
    return pl.DataFrame(
        [
            (pattern, label, counts.get((pattern, place), 0))
            for pattern in run.rates["pattern"]
            for place, label in enumerate(labels)
        ],
        schema={"pattern": pl.String, "rank": pl.String, "n": pl.Int64},
        orient="row",
    ).with_columns(
        share=pl.col("n") / pl.col("n").sum().over("pattern"),
        cumulative=pl.col("n").cum_sum().over("pattern") / pl.col("n").sum().over("pattern"),
    )


def _quantiles(run: ScoresRun) -> pl.DataFrame:
    """Quantiles of rank and log-probability: quantity, pattern, q5, q25, q50, q75, q95."""
    kinds = {"rank": "expected_rank", "log-probability": "expected_logprob"}
    found = pl.concat(
        _scan(run)
        .group_by("pattern")
        .agg(pl.col(column).cast(pl.Float64).quantile(q / 100, "nearest").alias(f"q{q}") for q in _QUANTILES)
        .select(pl.lit(kind).alias("quantity"), pl.all())
        .collect()
        for kind, column in kinds.items()
    )
    order = {name: number for number, name in enumerate(run.rates["pattern"])}
    return found.sort(pl.col("pattern").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)


def _precision_note(run: ScoresRun) -> list[str]:
    rows = dict(_scan(run).group_by("precision").agg(pl.len()).collect().iter_rows())
    low = {name: n for name, n in rows.items() if name != REFERENCE}
    if not low:
        return []
    share = 100 * sum(low.values()) / sum(rows.values())
    return [
        (
            "The run used mixed precision: whether a verb is repeated is exact. Other answers, ranks and "
            f"log-probabilities come from the low-precision model ({', '.join(sorted(low))}) in {share:.0f} % of the "
            "sentences, which the column precision marks."
        )
    ]


def _scan(run: ScoresRun) -> pl.LazyFrame:
    """The scores, of which a query reads only what it needs."""
    return pl.scan_parquet(run.folder / SCORES_FILE)


def _drivers(run: ScoresRun) -> Section:
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
        _driver_figure(run, "gender", genders, "gender", _clustered),
        _driver_figure(run, "verb", by_verb, "verb", _independent),
        _driver_figure(run, "profession", clusters, "profession", _clustered),
        _driver_figure(run, "name", clusters, "name", _clustered),
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


def _driver_figure(run: ScoresRun, what: str, counts: pl.DataFrame, column: str, interval: Interval) -> Figure:
    """Rates of the words that move the result most; `counts` has pattern, word, repetitions, n: a row per cluster."""
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
    frame = rows.with_columns(
        low=pl.Series([e[0] for e in ends], dtype=pl.Float64), high=pl.Series([e[1] for e in ends], dtype=pl.Float64)
    )
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
    repetitions, n = (rows[name].to_numpy().astype(np.int64) for name in ("repetitions", "n"))
    return proportion_interval(clustered_mean(repetitions, n))


def _independent(rows: pl.DataFrame) -> tuple[float, float]:
    _, low, high = proportion(int(rows["repetitions"].sum()), int(rows["n"].sum()))
    return low, high
