"""The items of a run become the rows of summary.parquet. Values are fractions, as in section 6.1 of the paper.

    condition  split                               metric
    new        Tneg-H, T-Hneg, Tneg-Hneg, all      accuracy, majority, label_share:LABEL, truncated,
                                                   drop, relative_drop                    (from original, all)
                                                   drop_from_negation, relative_drop_from_negation
    new        Tneg-H vs T-Hneg …                  difference:accuracy, mcnemar_p:accuracy, mcnemar_p_holm:accuracy
    original   all, negation                       accuracy, majority, label_share:LABEL, truncated
    original   all                                 negation_share                         (Table 1)

majority is the accuracy of always giving the most frequent label. drop is the difference of two accuracies,
relative_drop that difference over the original accuracy. Where model or data set has two labels only, accuracy and
majority are two-way (see `labels`).

Three new pairs are made from one original pair, so they are not independent: over all new pairs, the three are one
draw. Intervals: accuracy Wilson's, over all new pairs that of `cluster_interval`; drop Welch's t; relative_drop that of
a ratio of two proportions; difference that of two proportions of the same pairs. p-values are adjusted with Holm's
method over the whole summary.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...statistics import (
    CONFIDENCE,
    cluster_interval,
    effective_sample_size,
    mcnemar,
    paired_difference,
    proportion,
    relative_drop_interval,
)
from ..items import ALL, ORIGINAL
from ..summary import DIFFERENCE, P_VALUE, VERSUS, Row, frame, with_holm
from .labels import SOURCES
from .pairs import KINDS, NEW

WITH_CUE = "negation"
ITEMS = {
    "dataset": pl.String,
    "condition": pl.String,
    "item": pl.Int64,
    "id": pl.String,
    "split": pl.String,
    "negation": pl.Boolean,
    "gold": pl.String,
    "predicted": pl.String,
    "probability": pl.Float64,
    "expected": pl.String,
    "answer": pl.String,
    "correct": pl.Boolean,
    "truncated": pl.Boolean,
    "premise": pl.String,
    "hypothesis": pl.String,
}


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items; the module says which rows it has."""
    rows: list[Row] = []
    for source in items["dataset"].unique(maintain_order=True):
        own = items.filter(pl.col("dataset") == source)
        original = _splits(own, ORIGINAL)
        new = _splits(own, NEW)
        for condition, splits in ((ORIGINAL, original), (NEW, new)):
            for split, part in splits.items():
                rows += _rates(source, condition, split, part)
        for reference, suffix in ((ALL, ""), (WITH_CUE, "_from_negation")):
            if reference in original:
                for split, part in new.items():
                    rows += _drops(source, split, original[reference], part, suffix)
        if ALL in original:
            cues = original[ALL]["negation"]
            rows.append((source, ORIGINAL, ALL, "negation_share", *proportion(int(cues.sum()), len(cues)), len(cues)))
        rows += _comparisons(source, new)
    return with_holm(frame(rows))


def _splits(own: pl.DataFrame, condition: str) -> dict[str, pl.DataFrame]:
    """The splits of a condition that hold any items."""
    judged = own.filter(pl.col("condition") == condition)
    if condition == NEW:
        splits = {kind: judged.filter(pl.col("split") == kind) for kind in KINDS} | {ALL: judged}
    else:
        splits = {ALL: judged, WITH_CUE: judged.filter("negation")}
    return {split: part for split, part in splits.items() if not part.is_empty()}


def _rates(source: str, condition: str, split: str, judged: pl.DataFrame) -> Iterator[Row]:
    n = len(judged)
    value, low, high = proportion(int(judged["correct"].sum()), n)
    if condition == NEW and split == ALL:
        low, high = cluster_interval(*_by_original(judged))
    yield source, condition, split, "accuracy", value, low, high, n
    yield source, condition, split, "majority", _largest(judged["expected"]) / n, None, None, n
    for label in SOURCES[source]:
        count = int((judged["gold"] == str(label)).sum())
        yield source, condition, split, f"label_share:{label}", count / n, None, None, n
    yield source, condition, split, "truncated", int(judged["truncated"].sum()) / n, None, None, n


def _largest(labels: pl.Series) -> int:
    return int(labels.value_counts()["count"].max())  # type: ignore[arg-type]


def _drops(source: str, split: str, original: pl.DataFrame, new: pl.DataFrame, suffix: str) -> Iterator[Row]:
    from scipy import stats

    before, after = original["correct"].cast(pl.Float64).to_numpy(), _outcomes(new, split)
    first, second = float(before.mean()), float(after.mean())
    low = high = None
    if min(len(before), len(after)) > 1 and max(np.ptp(before), np.ptp(after)) > 0:
        interval = stats.ttest_ind(before, after, equal_var=False).confidence_interval(CONFIDENCE)
        low, high = float(interval.low), float(interval.high)
    yield source, NEW, split, f"drop{suffix}", first - second, low, high, len(new)
    if first > 0:
        right, n = _counts(new, split)
        low, high = relative_drop_interval(right, n, int(original["correct"].sum()), len(original))
        yield source, NEW, split, f"relative_drop{suffix}", 1 - second / first, low, high, len(new)


def _outcomes(judged: pl.DataFrame, split: str) -> NDArray[np.float64]:
    """1 for each right pair, 0 for each wrong one; of all new pairs, the mean of each three if no pair is missing."""
    if split == ALL:
        right, n = _by_original(judged)
        if (n == len(KINDS)).all():
            return right / n
    return judged["correct"].cast(pl.Float64).to_numpy()


def _counts(judged: pl.DataFrame, split: str) -> tuple[float, float]:
    """How many pairs are right, and how many there are; of all new pairs, the numbers of independent pairs."""
    right, n = int(judged["correct"].sum()), len(judged)
    if split != ALL:
        return right, n
    of, by = _by_original(judged)
    effective = effective_sample_size(of, by) if len(by) > 1 else 1.0
    return effective * right / n, effective


def _by_original(judged: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many of the new pairs that were made from each original pair are right, and how many there are."""
    counts = judged.group_by(pl.col("item") // len(KINDS), maintain_order=True).agg(pl.col("correct").sum(), pl.len())
    return counts["correct"].to_numpy().astype(np.int64), counts["len"].to_numpy().astype(np.int64)


def _comparisons(source: str, new: Mapping[str, pl.DataFrame]) -> Iterator[Row]:
    """The types of new pairs against each other, on the original pairs that they share."""
    for one, other in combinations([kind for kind in KINDS if kind in new], 2):
        both = _by_pair(new[one]).join(_by_pair(new[other]), on="pair", suffix="_other")
        if not both.is_empty():
            first, second = both["correct"].to_numpy(), both["correct_other"].to_numpy()
            split = f"{one}{VERSUS}{other}"
            yield source, NEW, split, f"{DIFFERENCE}:accuracy", *paired_difference(first, second), len(both)
            yield source, NEW, split, f"{P_VALUE}:accuracy", mcnemar(first, second), None, None, len(both)


def _by_pair(judged: pl.DataFrame) -> pl.DataFrame:
    return judged.select(pair=pl.col("item") // len(KINDS), correct="correct")
