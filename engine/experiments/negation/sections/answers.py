"""What the model says instead of the verb, and how far the verb falls where it is no longer the first choice."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ....inference.exported import REFERENCE
from ....views import Column, Figure, Section, Table, charts
from ..runs import ScoresRun
from ..score import SCORES_FILE

_TOP = 8
_RANKS = ((1, "1"), (2, "2"), (3, "3"), (5, "4–5"), (10, "6–10"), (100, "11–100"), (1000, "101–1,000"))
_BEYOND = "> 1,000"
_QUANTILES = (5, 25, 50, 75, 95)


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
    """The most frequent answer of a pattern, in a sentence."""
    if distinct == 1:
        return f"{row['pattern']}: always “{row['top1']}” ({row['n']:,} times)."
    return (
        f"{row['pattern']}: most often “{row['top1']}” ({row['n']:,} times, {100 * row['share']:.0f} % of the answers "
        f"that are not the verb), among {distinct:,} different answers."
    )


def shifts(run: ScoresRun) -> Section:
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
    """How many of the numbers are the low-precision model's."""
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
