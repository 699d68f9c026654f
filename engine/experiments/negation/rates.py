"""How often the verb is repeated in each pattern, with intervals for triplets that are not independent.

Triplets of one [NAME, PROF] pair share most of their sentence, so they are not independent draws: they are a cluster.
`drop_low` and `drop_high` allow for that. Triplets of one verb are no independent draws either: some models decide by
the verb alone. `drop_low_two_way` and `drop_high_two_way` take pairs and verbs as clusters that cross. Formulas and
sources are in `negengine.engine.statistics.clusters`. Pairs count as independent, although they share names and
professions. So with other word lists, the rate may lie outside the interval.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...statistics.clusters import ClusteredMean, cluster_sums, clustered_mean, crossed_mean, proportion_interval
from ...statistics.power import detectable

PAIR = ("name", "profession")
_SCHEMA = {
    "pattern": pl.String,
    "n": pl.Int64,
    "repetitions": pl.Int64,
    "repetition_rate": pl.Float64,
    "drop": pl.Float64,
    "drop_low": pl.Float64,
    "drop_high": pl.Float64,
    "pairs": pl.Int64,
    "verbs": pl.Int64,
    "design_effect": pl.Float64,
    "drop_low_two_way": pl.Float64,
    "drop_high_two_way": pl.Float64,
    "design_effect_two_way": pl.Float64,
    "detectable": pl.Float64,
}


def rates(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str], selecting: str | None = None
) -> pl.DataFrame:
    """Repetition rates and drops in percent, one row for each pattern.

        pattern, n, repetitions, repetition_rate
        drop                                   100 - repetition_rate, section 3.3 of the paper
        drop_low, drop_high                    95 % interval with pairs as clusters
        pairs, verbs                           how many of them
        design_effect                          of the pairs
        drop_low_two_way, drop_high_two_way    95 % interval with pairs and verbs as clusters
        design_effect_two_way                  of both
        detectable                             smallest true difference from the drop of any other pattern but the
                                               selecting one that a test finds with a power of 80 %; pairs and verbs
                                               as clusters

    The rate of the selecting pattern is 100 % by construction and not an estimate, so it has no intervals, design
    effects or detectable difference. Where a pattern has no triplets, all figures but the counts are null. `scores` has
    columns triplet, pattern, repeated; `triplets` has triplet, name, profession, verb.

    Raises:
        ValueError: the triplet of a score is not among the triplets.
    """
    # Numbers and no words: the scores of all patterns are in memory at once.
    clusters = _Clusters(triplets)
    wanted = scores.filter(pl.col("pattern").is_in(patterns))
    outcomes = wanted.select("triplet", pl.col("pattern").cast(pl.Enum(patterns)), "repeated").collect(
        engine="streaming"
    )
    scored = {
        pattern: _Scored(outcomes.filter(pl.col("pattern") == pattern).drop("pattern"), clusters)
        for pattern in patterns
    }
    estimated = {pattern: own for pattern, own in scored.items() if len(own.repeated) and pattern != selecting}
    smallest = _detectable(estimated)
    rows = [_row(pattern, own, pattern == selecting, smallest.get(pattern)) for pattern, own in scored.items()]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


class _Clusters:
    """The pairs and verbs of all triplets, by ascending triplet: numbers from 0 on in the order of the words."""

    def __init__(self, triplets: pl.LazyFrame) -> None:
        words = triplets.select("triplet", *PAIR, "verb").sort("triplet").collect()
        self.triplet: NDArray[np.int64] = words["triplet"].to_numpy()
        name, profession, self.verb = (_numbers(words[column]) for column in (*PAIR, "verb"))
        both = name * (int(profession.max(initial=0)) + 1) + profession
        self.pair: NDArray[np.int64] = np.unique(both, return_inverse=True)[1]


def _numbers(words: pl.Series) -> NDArray[np.int64]:
    """The rank of each word among the distinct words of a column, int64 [n], from 0."""
    known = words.unique().cast(pl.String).sort()
    kind = pl.Enum(known)
    numbers: NDArray[np.int64] = words.cast(pl.String).cast(kind).to_physical().cast(pl.Int64).to_numpy()
    return numbers


class _Scored:
    """The triplets of one pattern, by ascending number. Where that is all of them, the clusters' arrays are shared."""

    def __init__(self, outcomes: pl.DataFrame, clusters: _Clusters) -> None:
        own = outcomes.sort("triplet")
        self.triplet: NDArray[np.int64] = own["triplet"].to_numpy()
        self.repeated: NDArray[np.bool_] = own["repeated"].to_numpy()
        if np.array_equal(self.triplet, clusters.triplet):
            self.triplet, self.pair, self.verb = clusters.triplet, clusters.pair, clusters.verb
            return
        at = np.searchsorted(clusters.triplet, self.triplet)
        if not np.isin(self.triplet, clusters.triplet).all():
            raise ValueError("scores of triplets that are not among the triplets")
        self.pair, self.verb = clusters.pair[at], clusters.verb[at]


def _row(
    pattern: str, own: _Scored, by_construction: bool, smallest: float | None
) -> dict[str, str | int | float | None]:
    total, repeated = len(own.repeated), int(own.repeated.sum())
    row: dict[str, str | int | float | None] = {"pattern": pattern, "n": total, "repetitions": repeated}
    row |= {"pairs": len(np.unique(own.pair)), "verbs": len(np.unique(own.verb))}
    if not total:
        return row
    rate = 100 * repeated / total
    row |= {"repetition_rate": rate, "drop": 100 - rate}
    if by_construction:
        return row
    by_pair = clustered_mean(*cluster_sums(own.repeated, own.pair))
    by_both = crossed_mean(own.repeated, own.pair, own.verb)
    row |= _interval(by_pair, "") | _interval(by_both, "_two_way")
    return row | {"detectable": smallest}


def _interval(mean: ClusteredMean, suffix: str) -> dict[str, float | None]:
    low, high = proportion_interval(mean)
    return {
        f"drop_low{suffix}": 100 * (1 - high),
        f"drop_high{suffix}": 100 * (1 - low),
        f"design_effect{suffix}": mean.design_effect,
    }


def _detectable(scored: Mapping[str, _Scored]) -> dict[str, float | None]:
    """Pattern → the largest of the detectable differences from the other patterns, on the triplets of both."""
    found: dict[str, list[float]] = {pattern: [] for pattern in scored}
    for one, other in combinations(scored, 2):
        _, first, second = np.intersect1d(scored[one].triplet, scored[other].triplet, return_indices=True)
        if not len(first):
            continue
        differences = scored[one].repeated[first].astype(np.float64) - scored[other].repeated[second]
        smallest = detectable(crossed_mean(differences, scored[one].pair[first], scored[one].verb[first]))
        for pattern in (one, other):
            found[pattern] += [] if smallest is None else [100 * smallest]
    return {pattern: max(differences, default=None) for pattern, differences in found.items()}
