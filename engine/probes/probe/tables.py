"""The tables of a run on a user's stimuli."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ...tables import Column, Table
from ..summary import DIFFERENCE, HOLM, P_VALUE, VERSUS, correction_note, detectable_note
from .columns import IS_TOP1, LOGPROB, Columns
from .summary import MOST_COMPARED, PREFERRED, TESTED

_MOST_REASONS = 10
_FIGURES = ("value", "low", "high")


def targets_table(summary: pl.DataFrame, model: str, columns: Columns) -> Table:
    """A row for each target and group: how often the target is the first choice, and its mean log-probability.

    Args:
        summary: The content of summary.parquet.
        model: The model's name.
        columns: The table's columns.
    """
    keys = ["condition", "split"]
    parts = [
        summary.filter(pl.col("metric") == metric).select(
            *keys, *(["n", "clusters"] if metric == IS_TOP1 else []), *_named(metric)
        )
        for metric in TESTED
    ]
    frame = parts[0].join(parts[1], on=keys, how="left", maintain_order="left")
    shown = [
        *([Column("target", "condition")] if len(columns.targets) > 1 else []),
        Column("group", "split"),
        Column("n", "n", wrap=False),
        *([Column("clusters", "clusters", wrap=False)] if frame["clusters"].null_count() < len(frame) else []),
        Column("first choice", IS_TOP1, low=f"{IS_TOP1}_low", high=f"{IS_TOP1}_high", **_percent()),
        Column("log-probability", LOGPROB, low=f"{LOGPROB}_low", high=f"{LOGPROB}_high", decimals=2, wrap=False),
    ]
    notes = ["first choice: rows in which the target is the model's first choice; means with 95 % intervals"]
    return Table(f"Targets by group: {model}", frame, shown, section="condition", notes=notes)


def differences_table(summary: pl.DataFrame, columns: Columns) -> Table:
    """A row for each two groups of a column, and for each two targets.

    Args:
        summary: The content of summary.parquet.
        columns: The table's columns.
    """
    keys = ["condition", "split"]
    frame = summary.filter(pl.col("metric") == f"{DIFFERENCE}:{LOGPROB}").select(*keys, "n", *_named(LOGPROB))
    for metric in TESTED:
        if metric != LOGPROB:
            own = summary.filter(pl.col("metric") == f"{DIFFERENCE}:{metric}").select(*keys, *_named(metric))
            frame = frame.join(own, on=keys, how="left", maintain_order="left")
        for kind in (P_VALUE, HOLM):
            found = summary.filter(pl.col("metric") == f"{kind}:{metric}").select(*keys, value=pl.col("value"))
            frame = frame.join(found.rename({"value": f"{kind}_{metric}"}), on=keys, how="left", maintain_order="left")
    preferred = summary.filter(pl.col("metric") == PREFERRED).select(*keys, *_named(PREFERRED))
    frame = frame.join(preferred, on=keys, how="left", maintain_order="left")
    tested = summary.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))
    ends = {metric: {"low": f"{metric}_low", "high": f"{metric}_high"} for metric in (*TESTED, PREFERRED)}
    shown = [
        *([Column("target", "condition")] if len(columns.targets) > 1 else []),
        Column("group", "split"),
        Column("n", "n", wrap=False),
        Column("log-probability", LOGPROB, signed=True, decimals=2, **ends[LOGPROB]),
        *([Column("p (Holm)", f"{HOLM}_{LOGPROB}", significant=2, wrap=False)] if len(tested) else []),
        Column("first choice", IS_TOP1, signed=True, **_percent("points"), **ends[IS_TOP1]),
        *([Column("p (Holm)", f"{HOLM}_{IS_TOP1}", significant=2, wrap=False)] if len(tested) else []),
        *([Column("preferred", PREFERRED, **_percent(), **ends[PREFERRED])] if len(preferred) else []),
    ]
    return Table(
        "Differences: first − second", frame, shown, section="condition", notes=_notes(summary, tested, columns)
    )


def skipped_table(skipped: pl.DataFrame) -> Table:
    """The reasons why rows were skipped, the most frequent ones first.

    Args:
        skipped: The content of skipped.parquet.
    """
    counts = skipped.group_by("reason", maintain_order=True).agg(n=pl.len(), row=pl.col("row").first())
    counts = counts.sort("n", "row", descending=[True, False])
    more = len(counts) - _MOST_REASONS
    notes = [f"and {more:,} more reasons"] if more > 0 else []
    columns = [Column("reason", "reason"), Column("rows", "n"), Column("first row", "row")]
    return Table("Rows that were skipped", counts.head(_MOST_REASONS), columns, notes=notes)


def _notes(summary: pl.DataFrame, tested: pl.DataFrame, columns: Columns) -> Sequence[str]:
    notes = ["log-probability, first choice: first minus second, with 95 % intervals"]
    if len(columns.targets) > 1:
        notes.append("preferred: rows in which the first target is more probable than the second")
    if len(tested):
        notes.append(correction_note(tested.row(0, named=True), "sign flips of clusters, or of items"))
        differences = summary.filter(pl.col("metric") == f"{DIFFERENCE}:{IS_TOP1}")
        notes += [f"first choice: {text}" for text in detectable_note(differences.iter_rows(named=True))]
    if columns.groups and columns.item is None:
        notes.append("groups have no test: name the column that the rows of a minimal pair share with --item")
    counts = summary.filter(pl.col("split").str.contains("=") & ~pl.col("split").str.contains(VERSUS, literal=True))
    for column in columns.groups:
        n = counts.filter(pl.col("split").str.starts_with(f"{column}="))["split"].n_unique()
        if n > MOST_COMPARED:
            notes.append(f"{column} has {n:,} values; more than {MOST_COMPARED} are not compared with each other")
    return notes


def _named(metric: str) -> list[pl.Expr]:
    names = [metric, f"{metric}_low", f"{metric}_high"]
    return [pl.col(figure).alias(name) for figure, name in zip(_FIGURES, names, strict=True)]


def _percent(unit: str = "%") -> dict[str, Any]:
    return {"decimals": 1, "scale": 100, "unit": unit, "wrap": False}
