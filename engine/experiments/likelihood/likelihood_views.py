"""Tables and sections of `likelihood`: accuracies of minimal pairs, or means of sentences, by group."""

from typing import TYPE_CHECKING

import polars as pl

from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..items import ALL
from .likelihood_items import ROUNDING
from .likelihood_summary import MEANS, PERPLEXITY, RATES
from .likelihood_tables import Columns

if TYPE_CHECKING:
    from .likelihood import LikelihoodRun

_HEADINGS = {"accuracy": "accuracy", "accuracy_per_token": "per token", "ties": "ties"}


def tables(summary: pl.DataFrame, columns: Columns, model: str, *, is_causal: bool) -> list[Table]:
    """The table of a run: of pairs or of sentences."""
    return [pairs_table(summary, model) if columns.has_pairs else sentences_table(summary, model, is_causal=is_causal)]


def pairs_table(summary: pl.DataFrame, model: str) -> Table:
    """How often the good sentence is the more probable one."""
    columns = [
        Column("split", "split"),
        Column("pairs", "accuracy: n"),
        Column("accuracy", "accuracy", low="accuracy: low", high="accuracy: high", decimals=1, scale=100, unit="%"),
        Column(_HEADINGS["accuracy_per_token"], "accuracy_per_token", decimals=1, scale=100, unit="%"),
        Column(_HEADINGS["ties"], "ties", decimals=1, scale=100, unit="%"),
    ]
    notes = [
        "accuracy: share of pairs whose good sentence is the more probable one, with 95 % interval",
        "per token: the same for the log-likelihood divided by the number of tokens",
        f"ties: pairs with a difference of at most {ROUNDING:g}; they count as not correct",
    ]
    return Table(f"Minimal pairs: {model} (%)", _wide(summary, list(RATES)), columns, notes=notes)


def sentences_table(summary: pl.DataFrame, model: str, *, is_causal: bool) -> Table:
    """Means over sentences."""
    kind = "log-likelihood" if is_causal else "pseudo-log-likelihood"
    named = dict(zip(MEANS, (kind, "per token", "per word", "per character"), strict=True))
    frame = _wide(summary, [*MEANS, PERPLEXITY])
    columns = [
        Column("split", "split"),
        Column("sentences", f"{MEANS[0]}: n"),
        *(
            Column(heading, name, low=f"{name}: low", high=f"{name}: high", decimals=2)
            for name, heading in named.items()
        ),
        Column("perplexity" if is_causal else "pseudo-perplexity", PERPLEXITY, significant=4),
    ]
    notes = ["means over sentences with 95 % intervals, natural logarithms"]
    return Table(f"Sentences: {model}", frame, columns, notes=notes)


def _wide(summary: pl.DataFrame, metrics: list[str]) -> pl.DataFrame:
    """One row for each split: for each metric its value, interval and number of items."""
    found = summary.select("split").unique(maintain_order=True)
    for metric in metrics:
        own = summary.filter(pl.col("metric") == metric).select(
            "split",
            pl.col("value").alias(metric),
            *(pl.col(name).alias(f"{metric}: {name}") for name in ("low", "high", "n")),
        )
        found = found.join(own, on="split", how="left", maintain_order="left")
    return found


_FIGURE = next(iter(RATES))


def sections(run: "LikelihoodRun") -> list[Section]:
    """One section: the answer, a figure by group, the table."""
    [table] = run.tables()
    if run.columns.has_pairs:
        title, said = "Is the good sentence the more probable one?", _pairs(run)
    else:
        title, said = "How probable are the sentences?", _sentences(run)
    figures = [_figure(run)] if run.summary["split"].n_unique() > 1 else []
    return [Section(title, said, figures=figures, tables=[table], notes=run.remarks())]


def _pairs(run: "LikelihoodRun") -> list[str]:
    row = run.summary.row(by_predicate=(pl.col("split") == ALL) & (pl.col("metric") == _FIGURE), named=True)
    return [
        f"The good sentence is the more probable one in {100 * row['value']:.1f} % of {row['n']:,} pairs.",
        "A model that guesses is right in 50 %.",
    ]


def _sentences(run: "LikelihoodRun") -> list[str]:
    row = run.summary.row(by_predicate=(pl.col("split") == ALL) & (pl.col("metric") == MEANS[1]), named=True)
    return [f"The mean log-probability of a token is {row['value']:.2f} in {row['n']:,} sentences (natural logarithm)."]


def _figure(run: "LikelihoodRun") -> Figure:
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
