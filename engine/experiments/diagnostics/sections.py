"""What a report says about a run of the diagnostics of Ettinger (2020): accuracy by condition, and sensitivity."""

from typing import Any

import polars as pl

from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..items import ALL, ORIGINAL
from .items import BINS, POLARITIES
from .judged import ACCURACIES, SENSITIVITY
from .runs import DiagnosticsRun
from .tables import published_figures, tables

_CHANCE = 0.5


def sections(run: DiagnosticsRun) -> list[Section]:
    """Sensitivity first: it is the question about negation; then accuracy, then the paired tests."""
    *accuracies, _, tests = tables(run.summary, run.model_name)
    return [
        Section(
            "Does the model prefer the good completion?",
            _preferred(run.summary),
            figures=[_figure(run, SENSITIVITY, "sensitivity", "good completion preferred (%)")],
        ),
        Section(
            "How often is the expected word among the first?",
            [],
            figures=[_figure(run, metric, metric.replace("@", "-"), f"{metric} (%)") for metric in _ends()],
            tables=accuracies,
            notes=run.remarks(),
        ),
        Section("What changes between two conditions?", [], tables=[tests]),
    ]


def _ends() -> list[str]:
    return [ACCURACIES[0], ACCURACIES[-1]]


def _figure(run: DiagnosticsRun, metric: str, name: str, title: str) -> Figure:
    """A metric of each data set, condition and split, beside what is known of the paper's figures."""
    paper = {key: row["value"] / 100 for (key, own), row in published_figures(run.model_name).items() if own == metric}
    rows = run.summary.filter((pl.col("metric") == metric) & ~pl.col("split").str.starts_with("draw-"))
    # Splits of a perturbed condition say little beyond the whole.
    rows = rows.filter((pl.col("condition") == ORIGINAL) | (pl.col("split") == ALL))
    rows = _bins_in_order(rows)
    keys = rows.select("dataset", "condition", "split").rows()
    ours = rows.select("dataset", "condition", "split", "value", "low", "high", "n").with_columns(
        published=pl.Series([paper.get((d, c, s)) for d, c, s in keys], dtype=pl.Float64)
    )
    points = pl.concat(
        [
            ours.with_columns(source=pl.lit(run.model_name)),
            ours.with_columns(source=pl.lit("paper"), value="published", low=None, high=None).drop_nulls("value"),
        ],
        how="diagonal_relaxed",
    ).with_columns(pl.col("value", "low", "high") * 100, where=_where())
    percent: dict[str, Any] = {"decimals": 1, "scale": 100, "unit": "%"}
    table = Table(
        f"{title.partition(' (')[0]}: {run.model_name}",
        ours,
        [
            Column("data", "dataset"),
            Column("condition", "condition"),
            Column("split", "split"),
            Column("share", "value", low="low", high="high", **percent),
            *([Column("paper", "published", **percent)] if paper else []),
            Column("n", "n"),
        ],
        section="dataset",
    )
    series = "source" if points["source"].n_unique() > 1 else None
    return Figure(
        name,
        Points(points, x="value", y="where", low="low", high="high", series=series, panel="dataset", title=title,
               domain=(0, 100)),
        table,
        f"A small chart for each data set with a point for each condition: {title}.",
        f"{title[0].upper()}{title[1:]} by condition, with 95 % intervals.",
        wide=True,
        joint=True,
    )  # fmt: skip


def _bins_in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of bins of cloze probability by ascending bin, after the other rows of their data set."""
    datasets = {name: i for i, name in enumerate(rows["dataset"].unique(maintain_order=True))}
    bins = {name: i for i, name in enumerate(BINS)}
    return rows.sort(
        pl.col("dataset").replace_strict(datasets, return_dtype=pl.Int64),
        pl.col("split").replace_strict(bins, default=-1, return_dtype=pl.Int64),
        maintain_order=True,
    )


def _where() -> pl.Expr:
    """Condition and split in one text, without what is the ordinary case."""
    whole, plain = pl.col("split") == ALL, pl.col("condition") == ORIGINAL
    return (
        pl.when(whole & plain).then(pl.lit("all"))
        .when(plain).then("split")
        .when(whole).then("condition")
        .otherwise(pl.format("{}, {}", "condition", "split"))
    )  # fmt: skip


def _preferred(summary: pl.DataFrame) -> list[str]:
    rows = summary.filter((pl.col("metric") == SENSITIVITY) & (pl.col("condition") == ORIGINAL))
    shares = {(dataset, split): value for dataset, split, value in rows.select("dataset", "split", "value").iter_rows()}
    affirmative, negative = POLARITIES
    return [
        f"{dataset}: the true completion is preferred in {100 * value:.1f} % of the affirmative contexts and in "
        f"{100 * shares[dataset, negative]:.1f} % of the negative ones"
        + (": the model mostly ignores “not”." if shares[dataset, negative] < _CHANCE <= value else ".")
        for (dataset, split), value in shares.items()
        if split == affirmative and (dataset, negative) in shares
    ]
