"""How often the verb is repeated in each pattern, with intervals for triplets that are not independent.

Triplets of one [NAME, PROF] pair share most of their sentence, and some models decide by the verb alone: so pairs are
clusters, or pairs and verbs that cross (`…_two_way`). With other word lists, the rate may lie outside the interval.
"""

from collections.abc import Sequence
from itertools import combinations

import polars as pl

from ...requests.contrast import paired_differences
from ...statistics.clusters import ClusteredMean, cluster_sums, clustered_mean, crossed_mean, proportion_interval

SCORES_FILE, RATES_FILE = "scores.parquet", "rates.parquet"
PAIR = ("name", "profession")
_SCHEMA = {
    "pattern": pl.String,
    **dict.fromkeys(("n", "repetitions"), pl.Int64),
    **dict.fromkeys(("repetition_rate", "drop", "drop_low", "drop_high"), pl.Float64),
    **dict.fromkeys(("pairs", "verbs"), pl.Int64),
    **dict.fromkeys(("design_effect", "drop_low_two_way", "drop_high_two_way", "design_effect_two_way"), pl.Float64),
    "drop_detectable": pl.Float64,
}


def rates(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str], selecting: str | None = None
) -> pl.DataFrame:
    """Repetition rates, drops (section 3.3 of the paper) and their 95 % intervals in percent, one row for each pattern.

    `drop_detectable` is the smallest true difference from the drop of any other pattern but the selecting one that a
    test finds with a power of 80 %. The rate of the selecting pattern is always 100 % and not an estimate, so it has no
    interval. `scores` has columns triplet, pattern, repeated; `triplets` has triplet, name, profession, verb.
    """
    scored = _scored(scores, triplets, patterns)
    known = [name for name, own in scored.items() if len(own) and name != selecting]
    sides = {(one, other): (scored[one], scored[other]) for one, other in combinations(known, 2)}
    between = paired_differences(sides, ("first", "second"))
    rows: list[dict[str, str | int | float | None]] = []
    for pattern, own in scored.items():
        repeated, pair, verb = (own[name].to_numpy() for name in ("value", "cluster", "crossed"))
        total, repetitions = len(repeated), int(repeated.sum())
        rows.append({"pattern": pattern, "n": total, "repetitions": repetitions})
        rows[-1] |= {"pairs": own["cluster"].n_unique(), "verbs": own["crossed"].n_unique()}
        if total:
            rate = 100 * repetitions / total
            rows[-1] |= {"repetition_rate": rate, "drop": 100 - rate}
        if total and pattern != selecting:
            by_pair, by_both = clustered_mean(*cluster_sums(repeated, pair)), crossed_mean(repeated, pair, verb)
            rows[-1] |= _interval(by_pair, "") | _interval(by_both, "_two_way")
            own_tests = between.filter((pl.col("first") == pattern) | (pl.col("second") == pattern))
            rows[-1]["drop_detectable"] = own_tests.select(100 * pl.col("detectable").max()).item()
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _scored(scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Pattern → its outcomes as `paired_differences` takes them, by ascending triplet: all are in memory at once.

    Clusters are pairs, crossed ones verbs, both as numbers.
    """
    pair, verb = (own.rank("dense").cast(pl.Int64) for own in (pl.struct(*PAIR), pl.col("verb")))
    numbers = triplets.select("triplet", cluster=pair, crossed=verb)
    wanted = scores.filter(pl.col("pattern").is_in(patterns)).with_columns(pl.col("pattern").cast(pl.Enum(patterns)))
    outcomes = wanted.select("triplet", "pattern", "repeated").join(numbers, on="triplet", how="left")
    known = outcomes.collect(engine="streaming").sort("triplet")
    if known["cluster"].null_count():
        raise ValueError("scores of triplets that are not among the triplets")
    known = known.rename({"triplet": "item", "repeated": "value"})
    return {pattern: known.filter(pl.col("pattern") == pattern) for pattern in patterns}


def _interval(mean: ClusteredMean, suffix: str) -> dict[str, float | None]:
    """Of the drop."""
    high, low = (None if end is None else 100 * (1 - end) for end in proportion_interval(mean))
    return {f"drop_low{suffix}": low, f"drop_high{suffix}": high, f"design_effect{suffix}": mean.design_effect}
