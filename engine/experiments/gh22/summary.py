"""The items of a run become the rows of summary.parquet. Values are fractions; the split is PATTERN@RANK.

    1P@1    repetition_rate       how often the top-1 at the mask is the ACT
            repetition_rate:any   coordinated only: how often it is one of the three ACTs
            ungrammatical         how often the top-1 is not a verb of the lexicon
    1@1     drop                  rate of 1P − rate of 1N (section 2.4), with the interval of a paired difference
            p:repetition_rate       test by sign flips of the same [NAME, PROF] pairs in P and N: McNemar's exact test
            p_holm:repetition_rate  adjusted with Holm's method over the whole summary
    ACT@1   act_not_a_verb        how often the ACT itself is not a verb of the lexicon; in condition `original`

Every pair is one item of a pattern and rank, so the pairs are the sampling units, and there are no further clusters.
`ungrammatical` follows a remark in section 2.1: a low repetition rate can also come from ungrammatical predictions.
"""

from collections.abc import Iterator

import polars as pl

from ...statistics import paired_difference, proportion
from ..summary import Row, difference_rows, frame, with_holm
from .choices import Variant

DATASET = "GH22"
USED = ("condition", "rank", "pattern", "pair", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
"""The columns of the items that `summarise` uses."""


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items; the module says which rows it has."""
    rows: list[Row] = []
    for (condition,), own in items.group_by("condition", maintain_order=True):
        for (rank,), ranked in own.sort("rank", maintain_order=True).group_by("rank", maintain_order=True):
            by_pattern = {str(key[0]): part for key, part in ranked.group_by("pattern", maintain_order=True)}
            for pattern, part in by_pattern.items():
                rows += _rates(str(condition), f"{pattern}@{rank}", part)
            for number in dict.fromkeys(pattern[:-1] for pattern in by_pattern):
                rows += _drop(str(condition), f"{number}@{rank}", by_pattern[f"{number}P"], by_pattern[f"{number}N"])
            if condition == Variant.ORIGINAL:
                acts = next(iter(by_pattern.values()))["act_is_verb"]
                rows.append(_share(str(condition), f"ACT@{rank}", "act_not_a_verb", ~acts))
    return with_holm(frame(rows))


def _rates(condition: str, split: str, items: pl.DataFrame) -> Iterator[Row]:
    yield _share(condition, split, "repetition_rate", items["repeated"])
    if condition == Variant.COORDINATED:
        yield _share(condition, split, "repetition_rate:any", items["repeated_any"])
    yield _share(condition, split, "ungrammatical", ~items["top1_is_verb"])


def _share(condition: str, split: str, metric: str, outcomes: pl.Series) -> Row:
    n = len(outcomes)
    return Row(DATASET, condition, split, metric, *proportion(int(outcomes.sum()), n), n)


def _drop(condition: str, split: str, positive: pl.DataFrame, negative: pl.DataFrame) -> list[Row]:
    both = positive.select("pair", "repeated").join(negative.select("pair", "repeated"), on="pair", suffix="_n")
    found = paired_difference(both["repeated"].to_numpy(), both["repeated_n"].to_numpy())
    return difference_rows((DATASET, condition, split), "drop", "repetition_rate", found)
