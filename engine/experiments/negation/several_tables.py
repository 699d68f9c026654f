"""Tables about verbs of several tokens, which stand apart from those in the layout of the paper."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ...text.pattern import PatternSet
from ...views import Column, Table
from .score import ALL_SEVERAL
from .select import BY_TOKENS, SEVERAL, SEVERAL_TOKENS, TOKENS
from .tables import rates_table, selection_table

_HOW = "a verb of several tokens is repeated if each token is the first choice at its mask, filled from left to right"


def selected_apart(summary: Mapping[str, Any]) -> list[Table]:
    """The selection among verbs of several tokens, and the repetitions by number of tokens.

    Args:
        summary: The content of selection.json; if it has no verbs of several tokens, there is no table.
    """
    if SEVERAL_TOKENS not in summary:
        return []
    apart = selection_table({**summary, **summary[SEVERAL_TOKENS], "precision": {}}, None)
    return [
        Table(f"{apart.title}, {SEVERAL}", apart.frame, apart.columns, texts=apart.texts, notes=[_HOW]),
        _repeated_by_tokens(summary),
    ]


def _repeated_by_tokens(summary: Mapping[str, Any]) -> Table:
    """How many verbs there are of each number of tokens, and how often they are repeated."""
    schema = {TOKENS: pl.Int64, "verbs": pl.Int64, "tested": pl.Int64, "repeating": pl.Int64, "ratio": pl.Float64}
    frame = pl.DataFrame(summary[BY_TOKENS], schema=schema)
    note = "do verbs that the paper's test does not have behave differently? 1 token: the verbs of the test"
    lazy = ["of a pair with enough verbs, only the first ones were tested, up to a repeating one"]
    return Table(
        f"Repetition by number of tokens: {summary['model']}, {summary['pattern']}",
        frame,
        [
            Column("tokens of the verb", TOKENS),
            Column("verbs", "verbs"),
            Column("tested triplets", "tested"),
            Column("leading to repetition", "repeating"),
            Column("ratio %", "ratio", decimals=1, unit="%"),
        ],
        notes=[note, *(lazy if summary.get("lazy") else [])],
    )


def scored_apart(token_rates: pl.DataFrame, patterns: PatternSet, summary: Mapping[str, Any]) -> list[Table]:
    """The rates and drops of verbs of several tokens: of all of them, and by number of tokens.

    Args:
        token_rates: The content of rates_by_tokens.parquet.
        patterns: Of the run.
        summary: The content of selection.json.
    """
    every = token_rates.filter(pl.col(TOKENS) == ALL_SEVERAL).drop(TOKENS)
    table = rates_table(every, patterns, summary, None)
    by_tokens = token_rates.filter(pl.col(TOKENS) != ALL_SEVERAL)
    own = Table(
        f"Drop by number of tokens: {summary['model']}",
        by_tokens,
        [
            Column("tokens of the verb", TOKENS),
            Column("pattern", "pattern"),
            Column("triplets", "n"),
            Column("verbs", "verbs"),
            Column("rate %", "repetition_rate", decimals=1, unit="%"),
            Column("drop", "drop", decimals=1, unit="percentage points"),
            Column("95 % interval", low="drop_low_two_way", high="drop_high_two_way", decimals=1),
        ],
        section=TOKENS,
        notes=["95 % interval: pairs and verbs are clusters"],
    )
    apart = Table(
        f"{table.title}, {SEVERAL}", table.frame, table.columns, texts=table.texts, notes=[*table.notes, _HOW]
    )
    return [apart, own]
