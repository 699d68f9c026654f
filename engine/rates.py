"""How often the verb is repeated in each pattern, with intervals that know how the triplets hang together.

Triplets of one [NAME, PROF] pair share most of their sentence, so they are no independent draws. The interval is that
of a proportion in a sample of clusters (Korn and Graubard 1998, Survey Methodology 24, 193-201): Clopper and Pearson's,
with the number of triplets replaced by the effective sample size

    n_eff = p (1 - p) / v,      v = c / (c - 1) · Σ (r_i - p n_i)² / n²

where pair i has r_i repetitions in n_i triplets, c is the number of pairs, n = Σ n_i, p = Σ r_i / n, and v is the
linearised variance of a ratio (Cochran 1977, Sampling Techniques, section 6.3). Where p is 0 or 1 no variance can be
seen: each pair then counts as one observation. No interval is narrower than that of independent triplets.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
PAIR = ("name", "profession")


def rates(scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str]) -> pl.DataFrame:
    """Repetition rates and drops, in percent.

    Args:
        scores: columns triplet, pattern, repeated.
        triplets: columns triplet, name, profession.
        patterns: the patterns' names, in the order of the rows wanted.

    Returns:
        One row a pattern: pattern, n, repetitions, repetition_rate, drop (100 - repetition_rate, section 3.3 of the
        paper), drop_low, drop_high (95 % interval).
    """
    clusters = (
        scores.select("triplet", "pattern", "repeated")
        .join(triplets.select("triplet", *PAIR), on="triplet")
        .group_by("pattern", *PAIR)
        .agg(pl.col("repeated").sum().alias("repetitions"), pl.len().alias("n"))
        .sort("pattern", *PAIR)
        .collect()
    )
    rows = []
    for pattern in patterns:
        own = clusters.filter(pl.col("pattern") == pattern)
        repetitions, n = own["repetitions"].to_numpy().astype(np.int64), own["n"].to_numpy().astype(np.int64)
        total, repeated = int(n.sum()), int(repetitions.sum())
        low, high = cluster_interval(repetitions, n)
        rate = repeated / total if total else float("nan")
        rows.append((pattern, total, repeated, 100 * rate, 100 * (1 - rate), 100 * (1 - high), 100 * (1 - low)))
    kinds = {"pattern": pl.String, "n": pl.Int64, "repetitions": pl.Int64}
    floats = dict.fromkeys(("repetition_rate", "drop", "drop_low", "drop_high"), pl.Float64)
    return pl.DataFrame(rows, schema={**kinds, **floats}, orient="row")


def cluster_interval(
    repetitions: NDArray[np.int64], n: NDArray[np.int64], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Interval of a proportion whose observations come in clusters; see the module for formula and source.

    Args:
        repetitions: int64 [clusters], how many of a cluster's observations are repetitions.
        n: int64 [clusters], how many observations a cluster has.
        confidence: coverage wanted.

    Returns:
        Lower and upper bound, as fractions; (0, 1) if there is nothing to go by.
    """
    total, clusters = int(n.sum()), len(n)
    if clusters < 2:  # one cluster shows no variation between clusters
        return 0.0, 1.0
    p = float(repetitions.sum()) / total
    variance = clusters / (clusters - 1) * float(((repetitions - p * n) ** 2).sum()) / total**2
    effective = float(clusters)
    if 0 < p < 1:
        effective = min(p * (1 - p) / variance, total) if variance > 0 else float(total)
    successes, tail = p * effective, (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, successes, effective - successes + 1)) if p > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, successes + 1, effective - successes)) if p < 1 else 1.0
    return low, high
