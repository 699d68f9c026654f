"""What `gh22` shows at its end: Table 2 of the paper, for every rank of the ACT."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from ...sentences.patterns import PatternSet
from ..summary import HOLM
from .probe import Variant

_PUBLISHED = Path(__file__).parent / "published.toml"


def published(model: str) -> dict[str, float] | None:
    """Table 2 for a model, by its hub id or bare name: pattern → repetition rate in percent; None if not in it."""
    for tables in tomllib.loads(_PUBLISHED.read_text("utf-8")).values():
        if isinstance(tables, dict) and model in tables["hub"]:
            rates: dict[str, float] = tables["repetition_rate"]
            return rates
    return None


def rates_table(summary: pl.DataFrame, variant: Variant, patterns: PatternSet, model: str) -> Table:
    """Repetition rates of one variant in the layout of Table 2, a column for each rank of the ACT.

    Args:
        summary: content of summary.parquet.
        variant: which patterns.
        patterns: its patterns, for the columns aux and adv.
        model: its name; where it is one of the paper's, its rates stand beside ours.
    """
    values = _values(summary, variant)
    ranks = _ranks(values)
    paper = published(model) if variant is Variant.ORIGINAL else None
    table = Table(
        title=f"GH22, {variant}: {model}. Repetition of the ACT (in brackets: top-1 is no verb), %",
        title_justify="left",
    )
    for heading in ("n°", "pol.", "aux", "adv"):
        table.add_column(heading)
    for rank in ranks:
        table.add_column(f"rank {rank}", justify="right")
    if paper:
        table.add_column("paper, rank 1", justify="right")
    for pattern in patterns.scored:
        words = pattern.target.split()
        cells = [pattern.name[:-1], pattern.name[-1], *("✓" if word in words else "-" for word in ("does", "really"))]
        for rank in ranks:
            repeated, other = (
                values.get((f"{pattern.name}@{rank}", metric)) for metric in ("repetition_rate", "ungrammatical")
            )
            cells.append(f"{100 * repeated['value']:.1f} ({100 * other['value']:.1f})" if repeated and other else "")
        if paper:
            cells.append(f"{paper[pattern.name]:.1f}" if pattern.name in paper else "")
        table.add_row(*cells, end_section=pattern.name.endswith("N"))
    return table


def drops_table(summary: pl.DataFrame, variant: Variant) -> Table:
    """Drops (P − N, in percentage points) with their intervals, and McNemar's p adjusted after Holm."""
    values = _values(summary, variant)
    ranks = _ranks(values)
    table = Table(title=f"GH22, {variant}: drop P − N with 95 % interval, and p (McNemar, Holm)", title_justify="left")
    table.add_column("n°")
    for rank in ranks:
        table.add_column(f"rank {rank}", justify="right")
    numbers = dict.fromkeys(split.partition("@")[0] for split, metric in values if metric == "drop")
    for number in numbers:
        cells = [number]
        for rank in ranks:
            drop, p = (values.get((f"{number}@{rank}", metric)) for metric in ("drop", f"{HOLM}:repetition_rate"))
            cells.append(_drop_text(drop, p) if drop and p else "")
        table.add_row(*cells)
    return table


def _drop_text(drop: Mapping[str, Any], p: Mapping[str, Any]) -> str:
    between = "" if drop["low"] is None else f" [{100 * drop['low']:.1f}, {100 * drop['high']:.1f}]"
    chance = "p < 0.001" if p["value"] < 0.001 else f"p = {p['value']:.3f}"
    return f"{100 * drop['value']:.1f}{between} {chance}"


def acts_line(summary: pl.DataFrame) -> str:
    """How many of the ACTs are no verbs at all, in one line; empty without the original patterns."""
    values = _values(summary, Variant.ORIGINAL)
    shares = [
        f"{100 * values[split, metric]['value']:.1f} % at rank {split.partition('@')[2]}"
        for split, metric in values
        if metric == "act_not_a_verb"
    ]
    return f"ACTs that are no verb of the lexicon: {', '.join(shares)}." if shares else ""


def _values(summary: pl.DataFrame, variant: Variant) -> dict[tuple[str, str], dict[str, Any]]:
    own = summary.filter(pl.col("condition") == str(variant))
    return {(row["split"], row["metric"]): row for row in own.iter_rows(named=True)}


def _ranks(values: Mapping[tuple[str, str], object]) -> list[int]:
    return sorted({int(split.partition("@")[2]) for split, _ in values})
