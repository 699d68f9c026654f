"""The methods paragraph of a run of the Self-Contained Negation Test: what was selected, what was scored."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ...choices import Coreference
from ...text.pattern import PatternSet
from .reading import told
from .score import ALL_SEVERAL
from .select import SEVERAL_TOKENS, TOKENS

_TARGET = {
    Coreference.PRONOUN: "refers to the person of the context sentence with a pronoun",
    Coreference.SAME_NAME: "repeats the name of the context sentence",
    Coreference.SAME_GENDER: "has another name of the same gender",
    Coreference.OTHER_GENDER: "has a name of the other gender",
}


def selection_methods(summary: Mapping[str, Any], identity: Mapping[str, Any], test: str) -> str:
    """What was selected.

    Args:
        summary: The content of selection.json.
        identity: Of the stage.
        test: The paper of the test as a text cites it.
    """
    candidates = summary["pairs"] * summary["verbs"]
    ratio = f"{summary['ratio']:.1f} %"
    if lazy := summary.get("lazy"):
        tested = (
            f"Each pair was tested until {identity['max verbs']} verbs were repeated, which took {summary['tested']:,} "
            f"of {candidates:,} candidates; by an estimate the model repeats the verb in {ratio} of all candidates "
            f"(95 % interval {lazy['ratio_low']:.1f} to {lazy['ratio_high']:.1f} %)."
        )
    else:
        tested = f"Of {candidates:,} candidates, the model repeated the verb in {summary['repeating']:,} ({ratio})."
    return (
        f"We selected the triplets of the Self-Contained Negation Test ({test}) from {summary['pairs']:,} pairs of a "
        f"name and a profession and {summary['verbs']:,} verbs that are one token of the model. The target sentence "
        f"{_TARGET[Coreference(summary['coreference'])]}. {tested} At most {identity['max verbs']} verbs were kept for "
        f"each pair, chosen by a keyed hash (seed {identity['seed']}), which gave {summary['selected']:,} triplets."
        + _several(summary)
    )


def _several(summary: Mapping[str, Any]) -> str:
    """What was selected among verbs of several tokens; empty if the run has none."""
    if (apart := summary.get(SEVERAL_TOKENS)) is None:
        return ""
    share = "by an estimate " if "lazy" in apart else ""
    return (
        f" Apart from these, we tested {apart['verbs']:,} verbs of several tokens in the same way. Such a verb counts "
        "as repeated if each of its tokens is the model's first choice at its mask, where the masks are filled from "
        "left to right with the verb's tokens (Kauf and Ivanova, 2023). The model "
        f"{share}repeated {apart['ratio']:.1f} % of these candidates, and {apart['selected']:,} triplets were kept."
    )


def scores_methods(rates: pl.DataFrame, patterns: PatternSet) -> str:
    """What was scored, and the drops.

    Args:
        rates: The content of rates.parquet.
        patterns: Of the selection.
    """
    rows = {row["pattern"]: row for row in rates.to_dicts()}
    drops = [
        f"{pattern.name} {row['drop']:.1f}{_interval(row['drop_low_two_way'], row['drop_high_two_way'])}"
        for pattern in patterns.scored
        if (row := rows.get(pattern.name)) is not None and row["drop"] is not None
    ]
    return (
        f"Each triplet was scored in the patterns {', '.join(pattern.name for pattern in patterns.scored)}. The drops "
        "(100 minus the repetition rate, in percentage points, with 95 % intervals for which pairs and verbs are "
        "clusters) are: "
        f"{', '.join(drops)}."
    )


def apart_methods(token_rates: pl.DataFrame, patterns: PatternSet) -> str:
    """The drops of verbs of several tokens.

    Args:
        token_rates: The content of rates_by_tokens.parquet.
        patterns: Of the selection.
    """
    return f"Verbs of several tokens: {told(token_rates.filter(pl.col(TOKENS) == ALL_SEVERAL), patterns)}"


def _interval(low: float | None, high: float | None) -> str:
    """An interval in brackets; nothing where there is none."""
    return "" if low is None or high is None else f" [{low:.1f}, {high:.1f}]"
