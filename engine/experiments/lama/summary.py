"""From the items of LAMA to the rows of summary.parquet.

dataset     the corpus
condition   original: the query and its negation; misprimed-high, misprimed-low, misprimed-random
split       all, a relation, or 1-1, N-1, N-M for T-REx
metric      the mean over facts; with `-by-relation` the mean over the relations' means
"""

import polars as pl

from ..items import ALL, ORIGINAL
from ..summary import Contrast, cluster_means, contrasts, frame, means, with_holm
from .items import CUTS, METRICS

BY_RELATION = "-by-relation"
USED = ("dataset", "condition", "item", "splits", "cluster", *METRICS)
"""The columns of the items that `summarise` uses."""


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items."""
    primed = [
        Contrast(corpus, f"precision@{k}", (ORIGINAL, ALL), (condition, ALL))
        for corpus in items["dataset"].unique(maintain_order=True)
        for condition in sorted(set(items["condition"]) - {ORIGINAL})
        for k in CUTS
    ]
    rows = [*means(items, METRICS), *cluster_means(items, METRICS, BY_RELATION), *contrasts(items, primed)]
    return with_holm(frame(rows))
