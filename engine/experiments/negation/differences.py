"""Every two patterns of a run on the same triplets: who repeats what, with intervals and tests."""

from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...statistics.clusters import cluster_sums
from ...statistics.differences import crossed_interval
from ...statistics.p_values import sign_flips
from .rates import PAIR
from .runs import ScoresRun
from .score import SCORES_FILE

_SCHEMA = {
    "first": pl.String,
    "second": pl.String,
    "n": pl.Int64,
    **dict.fromkeys(("difference", "low", "high", "p"), pl.Float64),
    **dict.fromkeys(("both", "only_first", "only_second", "neither"), pl.Int64),
}


def differences(run: ScoresRun) -> pl.DataFrame:
    """One row for each ordered pair of patterns: the difference of their repetition rates.

    Columns: first, second, n (triplets), difference (first - second), low, high (its 95 % interval; pairs and verbs are
    clusters) in percentage points, p (by sign flips of pairs), and in how many triplets the verb is repeated in both,
    only_first, only_second, neither.
    """
    wide = _wide(run)
    pair, verb = (wide[name].to_numpy() for name in ("pair", "verb"))
    names = run.rates["pattern"].to_list()
    rows = [_row(wide, first, second, pair, verb) for first, second in combinations(names, 2)]
    one_way = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    other_way = one_way.select(
        first="second",
        second="first",
        n="n",
        difference=-pl.col("difference"),
        low=-pl.col("high"),
        high=-pl.col("low"),
        p="p",
        both="both",
        only_first="only_second",
        only_second="only_first",
        neither="neither",
    )
    places = {name: i for i, name in enumerate(names)}
    order = [pl.col(side).replace_strict(places, return_dtype=pl.Int64) for side in ("first", "second")]
    return pl.concat([one_way, other_way]).sort(order)


def _row(
    wide: pl.DataFrame, first: str, second: str, pair: NDArray[np.int64], verb: NDArray[np.int64]
) -> tuple[str | int | float | None, ...]:
    one, other = wide[first].to_numpy(), wide[second].to_numpy()
    ends = crossed_interval(one, other, pair, verb)
    sums, _ = cluster_sums(one.astype(np.float64) - other.astype(np.float64), pair)
    counts = [int(np.count_nonzero(which)) for which in (one & other, one & ~other, other & ~one, ~one & ~other)]
    low, high = (None if end is None else 100 * end for end in ends)
    difference = 100 * (counts[1] - counts[2]) / len(wide)
    return (first, second, len(wide), difference, low, high, sign_flips(sums), *counts)


def _wide(run: ScoresRun) -> pl.DataFrame:
    """One row for each triplet: the numbers of its pair and verb, and for each pattern whether the verb is repeated."""
    scores = pl.read_parquet(run.folder / SCORES_FILE, columns=["triplet", "pattern", "repeated"])
    by_pattern = dict(scores.group_by("pattern", maintain_order=True))
    numbers = run.selection.triplets.sort("triplet").select(
        pair=pl.struct(*PAIR).rank("dense").cast(pl.Int64) - 1, verb=pl.col("verb").rank("dense").cast(pl.Int64) - 1
    )
    repeated = [
        by_pattern[name,].sort("triplet").select(pl.col("repeated").alias(name)) for name in run.rates["pattern"]
    ]
    return pl.concat([numbers, *repeated], how="horizontal")
