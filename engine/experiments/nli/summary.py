"""The items of a run become the rows of summary.parquet. Values are fractions, as in section 6.1 of the paper.

    condition  split                               metric
    new        Tneg-H, T-Hneg, Tneg-Hneg, all      accuracy, majority, label_share:LABEL, truncated,
                                                   drop, relative_drop                    (from original, all)
                                                   drop_from_negation, relative_drop_from_negation
    new        Tneg-H vs T-Hneg …                  difference:accuracy, p:accuracy, p_holm:accuracy
    original   all, negation                       accuracy, majority, label_share:LABEL, truncated
    original   all                                 negation_share                         (Table 1)

majority is the accuracy of always giving the most frequent label. drop is the difference of two accuracies,
relative_drop that difference over the original accuracy. Where model or data set has two labels only, accuracy and
majority are two-way (see `labels`).

Three new pairs are made from one original pair, so they are not independent: over all new pairs, the original pairs are
the clusters. Intervals: accuracy Wilson's, over all new pairs `proportion_interval`; drop both of these intervals
combined (`combined`), as the original dev set is another sample; relative_drop that of a ratio of two proportions;
difference that of two proportions of the same original pairs. p is that of the test by sign flips of original pairs,
which is McNemar's exact test here, adjusted with Holm's method over the whole summary.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import polars as pl

from ...statistics import (
    ClusteredMean,
    clustered_mean,
    combined,
    effective_sample_size,
    paired_difference,
    proportion,
    proportion_interval,
    relative_drop_interval,
)
from ..items import ALL, ORIGINAL
from ..summary import DIFFERENCE, VERSUS, Row, difference_rows, frame, with_holm
from .labels import SOURCES
from .pairs import KINDS, NEW

WITH_CUE = "negation"
USED = ("dataset", "condition", "item", "split", "negation", "gold", "expected", "correct", "truncated")
"""The columns of the items that `summarise` uses."""
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
    "precision": pl.String,
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
            share = proportion(int(cues.sum()), len(cues))
            rows.append(Row(source, ORIGINAL, ALL, "negation_share", *share, len(cues)))
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
    key, n = (source, condition, split), len(judged)
    clustered = _by_original(judged) if condition == NEW and split == ALL else None
    clusters, effect = (clustered.clusters, clustered.design_effect) if clustered else (None, None)
    yield Row(*key, "accuracy", *_accuracy(judged, clustered), n, clusters, effect)
    yield Row(*key, "majority", _largest(judged["expected"]) / n, None, None, n)
    for label in SOURCES[source]:
        count = int((judged["gold"] == str(label)).sum())
        yield Row(*key, f"label_share:{label}", count / n, None, None, n)
    yield Row(*key, "truncated", int(judged["truncated"].sum()) / n, None, None, n)


def _accuracy(judged: pl.DataFrame, clustered: ClusteredMean | None) -> tuple[float, float, float]:
    """The accuracy with its interval: Wilson's, or that for clusters."""
    if clustered is None:
        return proportion(int(judged["correct"].sum()), len(judged))
    return clustered.value, *proportion_interval(clustered)


def _largest(labels: pl.Series) -> int:
    return int(labels.value_counts()["count"].max())  # type: ignore[arg-type]


def _drops(source: str, split: str, original: pl.DataFrame, new: pl.DataFrame, suffix: str) -> Iterator[Row]:
    clustered = _by_original(new) if split == ALL else None
    before, after = _accuracy(original, None), _accuracy(new, clustered)
    key, clusters = (source, NEW, split), clustered.clusters if clustered else None
    yield Row(*key, f"drop{suffix}", before[0] - after[0], *combined(before, after), len(new), clusters)
    if before[0] > 0:
        n = float(len(new))
        if clustered:
            n = effective_sample_size(clustered) if clustered.clusters > 1 else 1.0
        ends = relative_drop_interval(after[0] * n, n, int(original["correct"].sum()), len(original))
        yield Row(*key, f"relative_drop{suffix}", 1 - after[0] / before[0], *ends, len(new), clusters)


def _by_original(judged: pl.DataFrame) -> ClusteredMean:
    """The accuracy of new pairs, with the original pairs that they were made from as clusters."""
    counts = judged.group_by(pl.col("item") // len(KINDS), maintain_order=True).agg(pl.col("correct").sum(), pl.len())
    return clustered_mean(counts["correct"].to_numpy().astype(np.int64), counts["len"].to_numpy().astype(np.int64))


def _comparisons(source: str, new: Mapping[str, pl.DataFrame]) -> Iterator[Row]:
    """The types of new pairs against each other, on the original pairs that they share."""
    for one, other in combinations([kind for kind in KINDS if kind in new], 2):
        both = _by_pair(new[one]).join(_by_pair(new[other]), on="pair", suffix="_other")
        if not both.is_empty():
            found = paired_difference(both["correct"].to_numpy(), both["correct_other"].to_numpy())
            yield from difference_rows(
                (source, NEW, f"{one}{VERSUS}{other}"), f"{DIFFERENCE}:accuracy", "accuracy", found
            )


def _by_pair(judged: pl.DataFrame) -> pl.DataFrame:
    return judged.select(pair=pl.col("item") // len(KINDS), correct="correct")
