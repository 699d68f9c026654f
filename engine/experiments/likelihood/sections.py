"""What a report says about a run: accuracies of minimal pairs by group, or means of sentences."""

import polars as pl

from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..items import ALL
from .runs import LikelihoodRun
from .summary import MEANS, RATES

_FIGURE = next(iter(RATES))


def sections(run: LikelihoodRun) -> list[Section]:
    """One section: the answer, a figure by group, the table."""
    [table] = run.tables()
    if run.columns.has_pairs:
        title, said = "Is the good sentence the more probable one?", _pairs(run)
    else:
        title, said = "How probable are the sentences?", _sentences(run)
    figures = [_figure(run)] if run.summary["split"].n_unique() > 1 else []
    return [Section(title, said, figures=figures, tables=[table], notes=run.remarks())]


def _pairs(run: LikelihoodRun) -> list[str]:
    row = run.summary.row(by_predicate=(pl.col("split") == ALL) & (pl.col("metric") == _FIGURE), named=True)
    return [
        f"The good sentence is the more probable one in {100 * row['value']:.1f} % of {row['n']:,} pairs.",
        "A model that guesses is right in 50 %.",
    ]


def _sentences(run: LikelihoodRun) -> list[str]:
    row = run.summary.row(by_predicate=(pl.col("split") == ALL) & (pl.col("metric") == MEANS[1]), named=True)
    return [f"The mean log-probability of a token is {row['value']:.2f} in {row['n']:,} sentences (natural logarithm)."]


def _figure(run: LikelihoodRun) -> Figure:
    """A point for each split: the accuracy, or the mean per token."""
    metric, scale = (_FIGURE, 100) if run.columns.has_pairs else (MEANS[1], 1)
    data = run.summary.filter((pl.col("metric") == metric) & (pl.col("split") != ALL)).with_columns(
        pl.col("value", "low", "high") * scale
    )
    what = "accuracy" if run.columns.has_pairs else "log-probability per token"
    title = "accuracy (%)" if run.columns.has_pairs else "log-probability per token (natural logarithm)"
    values = Table(
        f"{what.capitalize()}: {run.model_name}",
        data.select("split", "value", "low", "high", "n"),
        [
            Column("split", "split"),
            Column(
                what,
                "value",
                low="low",
                high="high",
                decimals=1 if scale == 100 else 2,
                unit="%" if scale == 100 else "",
            ),
            Column("n", "n"),
        ],
    )
    return Figure(
        "likelihood",
        Points(data, x="value", y="split", low="low", high="high", title=title, zero=scale == 100),
        values,
        f"A point for the {what} in each group.",
        f"{what.capitalize()} in each group, with 95 % intervals.",
        wide=data.height > 12,
        joint=True,
    )
