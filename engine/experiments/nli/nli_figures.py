"""Figures of `nli` that are not means of items, as in section 6.1 of the paper: shares of labels, baseline, drops.

Three new pairs are made from one original pair, so over all new pairs the original pairs are the clusters. A drop (of
two accuracies) has the interval of both combined, as the original dev set is another sample; relative_drop has that of
a ratio of two proportions.
"""

from collections.abc import Iterator

import polars as pl

from ...requests.items import ALL, ORIGINAL, OWN, by_split
from ...requests.summary import Cell, Row, numbered
from ...statistics.clusters import cluster_sums, clustered_mean, effective_sample_size, proportion_interval
from ...statistics.differences import combined
from ...statistics.intervals import proportion, relative_drop_interval
from .nli_pairs import NEW, SOURCES, Label

WITH_CUE = "negation"
LABEL_SHARES = {label: f"label_share:{label}" for label in Label}
"""Label → the metric with its share."""


def figures(rows: pl.DataFrame) -> Iterator[Row]:
    """For each data set, condition and split; `rows` are judged pairs."""
    each = by_split(rows).partition_by(Cell._fields, as_dict=True, maintain_order=True)
    cells = {Cell(*key): own for key, own in each.items()}
    for cell, own in cells.items():
        n, source = len(own), cell.dataset
        shares = {"majority": own["expected"].value_counts()["count"].to_numpy().max()}
        shares |= {LABEL_SHARES[label]: int((own["gold"] == str(label)).sum()) for label in SOURCES[source]}
        shares |= {"truncated": int(own["truncated"].sum())}
        for metric, count in shares.items():
            yield Row.of(cell, metric, count / n, None, None, n)
        if cell == Cell(source, ORIGINAL):
            yield Row.of(cell, "negation_share", *proportion(int(own["negation"].sum()), n), n)
        if cell.condition == NEW:
            for reference, suffix in (((ALL, None), ""), ((WITH_CUE, OWN), "_from_negation")):
                if (original := cells.get(Cell(source, ORIGINAL, *reference))) is not None:
                    yield from _drops(cell, original["accuracy"], own, suffix)


def _drops(cell: Cell, original: pl.Series, new: pl.DataFrame, suffix: str) -> Iterator[Row]:
    right, n, right_before = new["accuracy"].to_numpy(), len(new), int(original.sum())
    before = proportion(right_before, len(original))
    found = clustered_mean(*cluster_sums(right, numbered(new["cluster"])))
    clusters = found.clusters if found.clusters < n else None
    after = proportion(int(right.sum()), n) if clusters is None else (found.value, *proportion_interval(found))
    ends = combined(before, after)
    yield Row.of(cell, f"accuracy_drop{suffix}", before[0] - after[0], *ends, n, clusters)
    if before[0] > 0:
        ends = (None, None)
        if clusters is None or found.shows_variation:
            draws = float(n) if clusters is None else effective_sample_size(found)
            ends = relative_drop_interval(after[0] * draws, draws, right_before, len(original))
        yield Row.of(cell, f"relative_drop{suffix}", 1 - after[0] / before[0], *ends, n, clusters)
