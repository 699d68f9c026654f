"""How often the verb is repeated in each pattern, with intervals for triplets that are not independent.

Triplets of one [NAME, PROF] pair share most of their sentence, so they are not independent draws: they are a cluster.
The interval is for a proportion in a sample of clusters; formula, source and limits are in
`negengine.engine.statistics.clusters`. Pairs count as independent, although they share names and professions. So with
other word lists, the rate may lie outside the interval.
"""

from collections.abc import Sequence

import polars as pl

from ..statistics import cluster_interval

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
