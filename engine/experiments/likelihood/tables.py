"""Tables of a run: accuracies of pairs, or means of sentences, by group."""

import polars as pl

from ...views import Column, Table
from .columns import Columns
from .pairs import ROUNDING
from .summary import MEANS, PERPLEXITY, RATES

_HEADINGS = {"accuracy": "accuracy", "accuracy_per_token": "per token", "ties": "ties"}


def tables(summary: pl.DataFrame, columns: Columns, model: str, *, is_causal: bool) -> list[Table]:
    """The table of a run.

    Args:
        summary: Content of summary.parquet.
        columns: What the columns of the user's table are for.
        model: Its name.
        is_causal: Whether it is a causal model.
    """
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
