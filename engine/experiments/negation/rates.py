"""How often the verb is repeated in each pattern, with intervals for triplets that are not independent.

Triplets of one [NAME, PROF] pair share most of their sentence, and some models decide by the verb alone: so pairs are
clusters, or pairs and verbs that cross (`…_two_way`). With other word lists, the rate may lie outside the interval.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import polars as pl

from ...statistics.clusters import ClusteredMean, cluster_sums, clustered_mean, crossed_mean, proportion_interval
from ...statistics.differences import paired_difference
from .select import TOKENS

SCORES_FILE, RATES_FILE = "scores.parquet", "rates.parquet"
ONE, ALL_SEVERAL = "1", "several"
"""In rates.parquet, the number of tokens of verbs of one token, and of all verbs of several tokens together."""
PAIR = ("name", "profession")
_SCHEMA = {
    "pattern": pl.String,
    **dict.fromkeys(("n", "repetitions"), pl.Int64),
    **dict.fromkeys(("repetition_rate", "drop", "drop_low", "drop_high"), pl.Float64),
    **dict.fromkeys(("pairs", "verbs"), pl.Int64),
    **dict.fromkeys(("design_effect", "drop_low_two_way", "drop_high_two_way", "design_effect_two_way"), pl.Float64),
    "detectable": pl.Float64,
}
_DIFFERENCES = {
    "first": pl.String,
    "second": pl.String,
    "n": pl.Int64,
    **dict.fromkeys(("difference", "low", "high", "p", "least_p"), pl.Float64),
    **dict.fromkeys(("both", "only_first", "only_second", "neither"), pl.Int64),
}


def rates(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str], selecting: str | None = None
) -> pl.DataFrame:
    """Repetition rates, drops (section 3.3 of the paper) and their 95 % intervals in percent, one row for each pattern.

    `detectable` is the smallest true difference from the drop of any other pattern but the selecting one that a test
    finds with a power of 80 %. The rate of the selecting pattern is 100 % by construction and not an estimate, so it
    has no interval. `scores` has columns triplet, pattern, repeated; `triplets` has triplet, name, profession, verb.
    """
    scored = _scored(scores, triplets, patterns)
    smallest = _detectable({name: own for name, own in scored.items() if len(own) and name != selecting})
    rows: list[dict[str, str | int | float | None]] = []
    for pattern, own in scored.items():
        repeated, pair, verb = (own[name].to_numpy() for name in ("repeated", "pair", "verb"))
        total, repetitions = len(repeated), int(repeated.sum())
        rows.append({"pattern": pattern, "n": total, "repetitions": repetitions})
        rows[-1] |= {"pairs": own["pair"].n_unique(), "verbs": own["verb"].n_unique()}
        if total:
            rate = 100 * repetitions / total
            rows[-1] |= {"repetition_rate": rate, "drop": 100 - rate}
        if total and pattern != selecting:
            by_pair, by_both = clustered_mean(*cluster_sums(repeated, pair)), crossed_mean(repeated, pair, verb)
            rows[-1] |= _interval(by_pair, "") | _interval(by_both, "_two_way") | {"detectable": smallest[pattern]}
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _scored(scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Pattern → triplet (ascending), repeated, and pair and verb as numbers: all patterns are in memory at once."""
    pair, verb = (own.rank("dense").cast(pl.Int64) for own in (pl.struct(*PAIR), pl.col("verb")))
    numbers = triplets.select("triplet", pair=pair, verb=verb)
    wanted = scores.filter(pl.col("pattern").is_in(patterns)).with_columns(pl.col("pattern").cast(pl.Enum(patterns)))
    outcomes = wanted.select("triplet", "pattern", "repeated").join(numbers, on="triplet", how="left")
    known = outcomes.collect(engine="streaming").sort("triplet")
    if known["pair"].null_count():
        raise ValueError("scores of triplets that are not among the triplets")
    return {pattern: known.filter(pl.col("pattern") == pattern) for pattern in patterns}


def rates_by_tokens(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str], numbers: Sequence[int]
) -> pl.DataFrame:
    """Rates of the verbs of each number of tokens, and of all of several tokens; the first pattern selects."""
    tokens = pl.col(TOKENS)
    groups = {ONE: tokens == 1, ALL_SEVERAL: tokens > 1, **{str(number): tokens == number for number in numbers}}
    return pl.concat(
        rates(scores.filter(own), triplets.filter(own), patterns, patterns[0]).select(
            pl.lit(name).alias(TOKENS), pl.all()
        )
        for name, own in groups.items()
    )


def _interval(mean: ClusteredMean, suffix: str) -> dict[str, float | None]:
    """Of the drop."""
    high, low = (None if end is None else 100 * (1 - end) for end in proportion_interval(mean))
    return {f"drop_low{suffix}": low, f"drop_high{suffix}": high, f"design_effect{suffix}": mean.design_effect}


def _detectable(scored: Mapping[str, pl.DataFrame]) -> dict[str, float | None]:
    """Pattern → the largest of the detectable differences from the other patterns, on the triplets of both."""
    found: dict[str, list[float]] = {pattern: [] for pattern in scored}
    for one, other in combinations(scored, 2):
        both = scored[one].join(scored[other].select("triplet", other="repeated"), on="triplet", maintain_order="left")
        if both.is_empty():
            continue
        sides = (both[name].to_numpy() for name in ("repeated", "other", "pair", "verb"))
        smallest = paired_difference(*sides).detectable
        for pattern in (one, other):
            found[pattern] += [] if smallest is None else [100 * smallest]
    return {pattern: max(differences, default=None) for pattern, differences in found.items()}


def differences(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, names: Sequence[str], selecting: str | None = None
) -> pl.DataFrame:
    """One row for each ordered pair of patterns: the difference of their repetition rates (first - second), in points.

    Its interval and p allow for pairs and verbs as clusters; then in how many triplets the verb is repeated in both,
    only_first, only_second, neither. The rate of the selecting pattern has no error, so a difference from it has the
    interval of the other pattern's drop, and no p.
    """
    scored = _scored(scores, triplets, names)
    rows: list[tuple[str | int | float | None, ...]] = []
    for first, second in combinations(names, 2):
        one, pair, verb = (scored[first][name].to_numpy() for name in ("repeated", "pair", "verb"))
        other = scored[second]["repeated"].to_numpy()
        both, first_alone, second_alone, neither = (
            int(np.count_nonzero(which)) for which in (one & other, one & ~other, other & ~one, ~one & ~other)
        )
        difference = 100 * (first_alone - second_alone) / len(one)
        test: tuple[float | None, float | None] = None, None  # p, and the least one
        if first == selecting:
            low, high, _ = _interval(crossed_mean(other, pair, verb), "").values()
        else:
            found = paired_difference(one, other, pair, verb)
            low, high = (None if end is None else 100 * end for end in (found.low, found.high))
            test = found.p, found.least
        rows.append((first, second, len(one), difference, low, high, *test, both, first_alone, second_alone, neither))
        low, high = (None if end is None else -end for end in (high, low))
        rows.append((second, first, len(one), -difference, low, high, *test, both, second_alone, first_alone, neither))
    places = {name: i for i, name in enumerate(names)}
    order = [pl.col(side).replace_strict(places, return_dtype=pl.Int64) for side in ("first", "second")]
    return pl.DataFrame(rows, schema=_DIFFERENCES, orient="row").sort(order)
