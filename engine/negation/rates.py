"""How often the verb is repeated in each pattern, with intervals for triplets that are not independent.

Triplets of one [NAME, PROF] pair share most of their sentence, so they are not independent draws: they are a cluster.
The interval is that of a proportion in a sample of clusters (Korn and Graubard 1998, Survey Methodology 24, 193-201):
the interval of Clopper and Pearson, with the number of triplets replaced by the effective sample size

    n_eff = p (1 - p) / v · (t(n - 1) / t(c - 1))²,      v = c / (c - 1) · Σ (r_i - p n_i)² / n²

where pair i has r_i repetitions in n_i triplets, c is the number of pairs, n = Σ n_i, p = Σ r_i / n, v is the
linearised variance of a ratio (Cochran 1977, Sampling Techniques, section 6.3), and t(d) is Student's quantile of d
degrees of freedom: a few pairs say little about v itself. Where p is 0 or 1 the variance cannot be estimated: each
pair then counts as one observation. An interval is never narrower than that of independent triplets.

The limits. In simulations with a correlation of 0.3 within pairs, 93 to 96 % of the intervals held the true rate where
n_eff · p and n_eff · (1 - p) were above 10. Only 89 to 93 % did where one of them was from 2 to 8, as with 60 pairs and
a rate of 3 %: few pairs have any repetition then, and most samples miss the pairs that have many. And pairs are taken
as independent, although they share names and professions: with other word lists the rate may be further away.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
PAIR = ("name", "profession")
_SCHEMA = {
    "pattern": pl.String,
    "n": pl.Int64,
    "repetitions": pl.Int64,
    "repetition_rate": pl.Float64,
    "drop": pl.Float64,
    "drop_low": pl.Float64,
    "drop_high": pl.Float64,
}


def rates(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str], selecting: str | None = None
) -> pl.DataFrame:
    """Repetition rates and drops, in percent.

    Args:
        scores: columns triplet, pattern, repeated.
        triplets: columns triplet, name, profession.
        patterns: the patterns' names, in the order of the rows wanted.
        selecting: the pattern that the triplets were selected with. Its rate is 100 % by construction and not an
            estimate, so it has no interval.

    Returns:
        One row for each pattern: pattern, n, repetitions, repetition_rate, drop (100 - repetition_rate, section 3.3
        of the paper), drop_low, drop_high (95 % interval; null for the selecting pattern). Where a pattern has no
        triplets, the last four are null.

    Raises:
        ValueError: the triplet of a score is not among the triplets.
    """
    clusters = (
        scores.select("triplet", "pattern", "repeated")
        .join(triplets.select("triplet", *PAIR), on="triplet", how="left", validate="m:1")
        .group_by("pattern", *PAIR)
        .agg(pl.col("repeated").sum().cast(pl.Int64).alias("repetitions"), pl.len().cast(pl.Int64).alias("n"))
        .sort("pattern", *PAIR)
        .collect()
    )
    if clusters["name"].null_count():
        raise ValueError("scores of triplets that are not among the triplets")
    return pl.DataFrame(
        [_row(pattern, clusters, pattern == selecting) for pattern in patterns], schema=_SCHEMA, orient="row"
    )


def _row(pattern: str, clusters: pl.DataFrame, by_construction: bool) -> tuple[str | int | float | None, ...]:
    own = clusters.filter(pl.col("pattern") == pattern)
    repetitions, n = own["repetitions"].to_numpy(), own["n"].to_numpy()
    total, repeated = int(n.sum()), int(repetitions.sum())
    if not total:
        return (pattern, 0, 0, None, None, None, None)
    rate = 100 * repeated / total
    if by_construction:
        return (pattern, total, repeated, rate, 100 - rate, None, None)
    low, high = cluster_interval(repetitions, n)
    return (pattern, total, repeated, rate, 100 - rate, 100 * (1 - high), 100 * (1 - low))


def cluster_interval(
    repetitions: NDArray[np.int64], n: NDArray[np.int64], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Interval of a proportion whose observations come in clusters; the module has the formula and its source.

    Args:
        repetitions: int64 [clusters], how many observations of a cluster are repetitions.
        n: int64 [clusters], how many observations a cluster has; at least one.
        confidence: the coverage, such as 0.95.

    Returns:
        Lower and upper bound, as fractions; (0, 1) for fewer than two clusters, which say nothing about the variance.
    """
    clusters = len(n)
    if clusters < 2:
        return 0.0, 1.0
    p = float(repetitions.sum()) / float(n.sum())
    effective = _effective_sample_size(repetitions, n, confidence) if 0 < p < 1 else float(clusters)
    successes, tail = p * effective, (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, successes, effective - successes + 1)) if p > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, successes + 1, effective - successes)) if p < 1 else 1.0
    return low, high


def _effective_sample_size(repetitions: NDArray[np.int64], n: NDArray[np.int64], confidence: float) -> float:
    """How many independent observations would say as much; for a proportion that is neither 0 nor 1."""
    total, clusters = int(n.sum()), len(n)
    p = float(repetitions.sum()) / total
    variance = clusters / (clusters - 1) * float(((repetitions - p * n) ** 2).sum()) / total**2
    if variance == 0:  # all clusters agree
        return float(total)
    tail = (1 + confidence) / 2
    freedom = float((stats.t.ppf(tail, total - 1) / stats.t.ppf(tail, clusters - 1)) ** 2)
    return min(p * (1 - p) / variance * freedom, float(total))
