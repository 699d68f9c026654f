"""Figures of `nli` that are not means of items, as in section 6.1 of the paper: shares of labels, baseline, drops.

Three new pairs are made from one original pair, so over all new pairs the original pairs are the clusters. A drop (of
two accuracies) has the interval of both combined, as the original dev set is another sample; relative_drop has that of
a ratio of two proportions.
"""

from collections.abc import Iterator

import polars as pl

from ...requests.items import ALL, ORIGINAL
from ...requests.summary import Row, numbered
from ...statistics.clusters import cluster_sums, clustered_mean, effective_sample_size, proportion_interval
from ...statistics.differences import combined
from ...statistics.intervals import Ends, proportion, relative_drop_interval
from .nli_pairs import NEW, SOURCES

WITH_CUE = "negation"
_CELL = ("dataset", "condition", "splits")


def figures(rows: pl.DataFrame) -> Iterator[Row]:
    """For each data set, condition and split; `rows` are judged pairs."""
    cells = rows.explode("splits").partition_by(_CELL, as_dict=True, maintain_order=True)
    for key, own in cells.items():
        n, (source, condition, split) = len(own), map(str, key)
        shares = {"majority": own["expected"].value_counts()["count"].to_numpy().max()}
        shares |= {f"label_share:{label}": int((own["gold"] == str(label)).sum()) for label in SOURCES[source]}
        shares |= {"truncated": int(own["truncated"].sum())}
        for metric, count in shares.items():
            yield Row(source, condition, split, metric, count / n, None, None, n)
        if (condition, split) == (ORIGINAL, ALL):
            yield Row(source, condition, split, "negation_share", *proportion(int(own["negation"].sum()), n), n)
        if condition == NEW:
            for reference, suffix in ((ALL, ""), (WITH_CUE, "_from_negation")):
                if (original := cells.get((source, ORIGINAL, reference))) is not None:
                    yield from _drops((source, condition, split), original["accuracy"], own, suffix)


def _drops(key: tuple[str, str, str], original: pl.Series, new: pl.DataFrame, suffix: str) -> Iterator[Row]:
    right, n, right_before = new["accuracy"].to_numpy(), len(new), int(original.sum())
    before = proportion(right_before, len(original))
    found = clustered_mean(*cluster_sums(right, numbered(new["cluster"])))
    clusters = found.clusters if found.clusters < n else None
    after = proportion(int(right.sum()), n) if clusters is None else (found.value, *proportion_interval(found))
    yield Row(*key, f"drop{suffix}", before[0] - after[0], *combined(before, after), n, clusters)
    if before[0] > 0:
        ends: Ends = (None, None)
        if clusters != 1:
            draws = float(n) if clusters is None else effective_sample_size(found)
            ends = relative_drop_interval(after[0] * draws, draws, right_before, len(original))
        yield Row(*key, f"relative_drop{suffix}", 1 - after[0] / before[0], *ends, n, clusters)
