"""What a report says about a run of the test of Gubelmann and Handschuh (2022): curves by the rank of the ACT."""

import polars as pl

from ...views import Figure, Section, Table
from ...views.charts import Lines, Points
from ..summary import HOLM
from .runs import Gh22Run
from .tables import acts_sentence, drops_table, rates_table


def sections(run: Gh22Run) -> list[Section]:
    """The drops, then the rates; one figure for each pattern set."""
    significant = run.summary.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))
    clear = int((significant["value"] < 0.05).sum())
    n = run.items.select("name", "profession").n_unique()
    said = [
        f"{run.model_name} was asked for its own words (ACTs) again, in {n:,} pairs of a name and a profession.",
        (
            f"The affirmative and the negated sentence differ in {clear} of {len(significant)} comparisons "
            "(p < 0.05, adjusted with Holm's method)."
        ),
    ]
    acts = acts_sentence(run.summary)
    return [
        Section(
            "Does a negation lower the repetition?", said, figures=[_drops(run, table) for table in _tables(run, 1)]
        ),
        Section(
            "How often is the ACT repeated?",
            [acts] if acts else [],
            figures=[_rates(run, table) for table in _tables(run, 0)],
            notes=["Rank is that of the ACT among the model's own predictions for the first sentence."],
        ),
    ]


def _tables(run: Gh22Run, which: int) -> list[tuple[str, Table]]:
    return [
        (
            str(variant),
            drops_table(run.summary, variant) if which else rates_table(run.summary, variant, patterns, run.model_name),
        )
        for variant, patterns in run.patterns.items()
    ]


def _rates(run: Gh22Run, named: tuple[str, Table]) -> Figure:
    """Curves by rank: a small chart for each number, a line for each polarity; the paper's rate at rank 1."""
    variant, table = named
    own = _by_rank(run.summary, variant, "repetition_rate").with_columns(
        number=pl.format("patterns {}", pl.col("name").str.head(-1)),
        polarity=pl.col("name").str.tail(1).replace({"P": "affirmative (P)", "N": "negated (N)"}),
    )
    printed = table.frame.drop_nulls("published").select(
        number=pl.format("patterns {}", "number"),
        polarity=pl.format("paper, {}", "polarity"),
        rank=pl.lit("1"),
        value=100 * pl.col("published"),
    )
    data = pl.concat([own, printed], how="diagonal_relaxed")
    return Figure(
        f"rates-{variant}",
        Lines(
            data,
            x="rank",
            y="value",
            low="low",
            high="high",
            series="polarity",
            panel="number",
            x_title="rank of the ACT",
            y_title="repetition (%)",
            domain=(0, 100),
        ),
        table,
        f"{variant}: lines of the repetition rate by the rank of the ACT, for affirmative and negated sentences.",
        f"Patterns “{variant}”: repetition rate by the rank of the ACT, with 95 % intervals.",
        wide=True,
    )


def _drops(run: Gh22Run, named: tuple[str, Table]) -> Figure:
    variant, table = named
    data = _by_rank(run.summary, variant, "drop").with_columns(
        pattern=pl.format("{}P − {}N, rank {}", "name", "name", "rank")
    )
    return Figure(
        f"drops-{variant}",
        Points(data, x="value", y="pattern", low="low", high="high", title="drop (percentage points)"),
        table,
        f"{variant}: a point for the drop from the affirmative to the negated sentence, for each pattern and rank.",
        f"Patterns “{variant}”: repetition rate of the affirmative sentence minus that of its negation, with 95 % "
        "intervals.",
        joint=True,
    )


def _by_rank(summary: pl.DataFrame, variant: str, metric: str) -> pl.DataFrame:
    """Name (of a pattern, or its number), rank, value, low, high in percent, of one metric."""
    return summary.filter((pl.col("condition") == variant) & (pl.col("metric") == metric)).select(
        pl.col("split").str.split("@").list.get(0).alias("name"),
        pl.col("split").str.split("@").list.get(1).alias("rank"),
        pl.col("value", "low", "high") * 100,
    )
