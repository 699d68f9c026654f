"""What a report says about a run of negated and misprimed LAMA: correlation by corpus, precision by query."""

import polars as pl

from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..items import ALL, ORIGINAL
from .items import CUTS
from .runs import LamaRun
from .tables import tables

_SIDES = {"spearman": "correlation", "overlap@1": "overlap"}


def sections(run: LamaRun) -> list[Section]:
    """Negations, then misleading words, then a few queries."""
    negation, precision, answers = tables(run.summary, run.items, run.model_name)
    return [
        Section(
            "Does a negation change the prediction?",
            [
                (
                    "A high correlation and overlap mean that the model answers a sentence and its negation alike: "
                    "it ignores the negation."
                ),
                *_alike(run.summary),
            ],
            figures=[_sides(run, negation, metric, what) for metric, what in _SIDES.items()],
            tables=[negation],
        ),
        Section(
            "Do misleading words change the prediction?", _primed(run.summary), figures=[_precision(run, precision)]
        ),
        Section("What does the model answer?", tables=[answers], notes=run.remarks()),
    ]


def _sides(run: LamaRun, table: Table, metric: str, what: str) -> Figure:
    """A metric of queries and their negations, by corpus and kind of relation, beside the paper's."""
    keys = table.frame.select("corpus", "split")
    found = run.summary.filter((pl.col("condition") == ORIGINAL) & (pl.col("metric") == metric))
    ours = keys.join(
        found, left_on=["corpus", "split"], right_on=["dataset", "split"], how="left", maintain_order="left"
    )
    ours = ours.select("corpus", "split", pl.lit(run.model_name).alias("source"), "value", "low", "high")
    published = f"published {what if metric == 'overlap@1' else 'spearman'}"
    if published in table.frame.columns:
        paper = table.frame.select("corpus", "split", pl.lit("paper").alias("source"), pl.col(published).alias("value"))
        ours = pl.concat([ours, paper], how="diagonal_relaxed")
    data = ours.drop_nulls("value").with_columns(
        pl.col("value", "low", "high") * 100, name=pl.format("{}, {}", "corpus", "split")
    )
    series = "source" if data["source"].n_unique() > 1 else None
    own = data.filter(pl.col("source") != "paper").join(
        data.filter(pl.col("source") == "paper").select("name", published="value"),
        on="name",
        how="left",
        maintain_order="left",
    )
    values = Table(
        f"{what.capitalize()}: {run.model_name}",
        own.drop("source", "name"),
        [
            Column("corpus", "corpus"),
            Column("split", "split"),
            Column(what, "value", low="low", high="high", decimals=1, unit="%"),
            *([Column("paper", "published", decimals=1, unit="%")] if series else []),
        ],
        notes=["means over facts"],
    )
    title = "rank correlation × 100" if metric == "spearman" else "same first token (%)"
    return Figure(
        what,
        Points(data, x="value", y="name", low="low", high="high", series=series, title=title),
        values,
        f"A point for the {what} of queries and their negations in each corpus.",
        f"{what.capitalize()} of the predictions for a query and for its negation, with 95 % intervals.",
        joint=True,
    )


def _precision(run: LamaRun, table: Table) -> Figure:
    """Precision at 1 of the queries as they are and after misleading words."""
    data = run.summary.filter((pl.col("metric") == f"precision@{CUTS[0]}") & (pl.col("split") == ALL)).with_columns(
        pl.col("value", "low", "high") * 100
    )
    intervals = data.select("dataset", "condition", "low", "high")
    with_intervals = table.frame.join(
        intervals.with_columns(pl.col("low", "high") / 100),
        left_on=["corpus", "queries"],
        right_on=["dataset", "condition"],
        how="left",
        maintain_order="left",
    )
    columns = [*table.columns, Column("@1, 95 % interval", low="low", high="high", decimals=1, scale=100, unit="%")]
    return Figure(
        "precision",
        Points(data, x="value", y="condition", low="low", high="high", panel="dataset", title="precision@1 (%)"),
        Table(table.title, with_intervals, columns),
        "A small chart for each corpus with a point for the precision of each kind of query.",
        "Share of the queries whose gold answer is the first token, with 95 % intervals.",
        wide=True,
        joint=True,
    )


def _alike(summary: pl.DataFrame) -> list[str]:
    rows = summary.filter(
        (pl.col("condition") == ORIGINAL) & (pl.col("split") == ALL) & (pl.col("metric") == "overlap@1")
    )
    return [
        f"{row['dataset']}: the first token is the same in {100 * row['value']:.1f} % of {row['n']:,} facts."
        for row in rows.iter_rows(named=True)
    ]


def _primed(summary: pl.DataFrame) -> list[str]:
    conditions = summary.filter(pl.col("condition").str.starts_with("misprimed"))["condition"].unique()
    if conditions.is_empty():
        return ["This run has no queries with misleading words."]
    return ["A misprimed query begins with a misleading word, such as “Talk? Birds can [MASK]”."]
