"""Accuracies of trained classifiers: over seeds, and with against without pairs with negation in the training.

The test flips the signs of original pairs, whose right answers are summed over the seeds: it asks whether other pairs
would show the same difference for these seeds. The gain of each seed is a draw of its own; its deviation, and a test
that flips the signs of seeds, ask whether other seeds would show it. That test says something from six seeds on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ....engine.experiments.items import ALL, ORIGINAL
from ....engine.experiments.nli.pairs import KINDS, NEW
from ....engine.experiments.nli.runs import NliRun
from ....engine.experiments.nli.summary import WITH_CUE
from ....engine.statistics import Difference, mean, paired_difference, sign_flips

ROWS = (
    (ORIGINAL, ALL, "dev"),
    (ORIGINAL, WITH_CUE, "dev, cues"),
    *((NEW, kind, kind) for kind in KINDS),
    (NEW, ALL, "all"),
)
"""Condition, split, and what a table calls the pairs."""


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of the classifiers of one condition on some pairs; fractions.

    Attributes:
        value: The mean over the seeds.
        deviation: The standard deviation over the seeds; None for one seed.
        low: Lower end of the 95 % interval: of one seed over pairs, of several over seeds; None if it cannot be told.
        high: Upper end.
        n: Number of pairs.
    """

    value: float
    deviation: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Gain:
    """Accuracy with pairs with negation in the training, minus that without.

    Attributes:
        difference: Its mean over the seeds, with interval and p over pairs.
        deviation: Its standard deviation over the seeds; None for one seed.
        p_seeds: Of the test over seeds; None for one seed.
    """

    difference: Difference
    deviation: float | None
    p_seeds: float | None


def accuracy(runs: Sequence[NliRun], condition: str, split: str) -> Accuracy | None:
    """The accuracy of some classifiers; None if there are no such pairs.

    Args:
        runs: The evaluations, one for each seed.
        condition: `original` or `new`.
        split: As in summary.parquet.
    """
    rows = [_row(run.summary, condition, split) for run in runs]
    found = [row for row in rows if row is not None]
    if not found:
        return None
    if len(found) == 1:
        return Accuracy(found[0]["value"], None, found[0]["low"], found[0]["high"], found[0]["n"])
    values = np.array([row["value"] for row in found], np.float64)
    value, low, high = mean(values)
    return Accuracy(value, float(values.std(ddof=1)), low, high, found[0]["n"])


def gain(without: Sequence[NliRun], with_: Sequence[NliRun], condition: str, split: str) -> Gain | None:
    """What the pairs with negation add, on the same pairs; None if there are no such pairs.

    Args:
        without: The evaluations of the classifiers that were trained without them, one for each seed.
        with_: Of those that were trained with them, in the same order.
        condition: `original` or `new`.
        split: As in summary.parquet.
    """
    before, clusters = _outcomes(without, condition, split)
    after, _ = _outcomes(with_, condition, split)
    if not before.size:
        return None
    seeds = len(before)
    if seeds == 1:
        return Gain(paired_difference(after[0], before[0], clusters), None, None)
    sums = paired_difference(after.sum(axis=0).astype(np.float64), before.sum(axis=0).astype(np.float64), clusters)
    over_seeds: dict[str, Any] = {
        name: None if figure is None else figure / seeds
        for name, figure in (("low", sums.low), ("high", sums.high), ("detectable", sums.detectable))
    }
    gains = after.sum(axis=1) - before.sum(axis=1).astype(np.int64)
    deviation = float((gains / before.shape[1]).std(ddof=1))
    return Gain(replace(sums, value=sums.value / seeds, **over_seeds), deviation, sign_flips(gains))


def _row(summary: pl.DataFrame, condition: str, split: str) -> dict[str, Any] | None:
    found = summary.filter(
        (pl.col("condition") == condition) & (pl.col("split") == split) & (pl.col("metric") == "accuracy")
    )
    return None if found.is_empty() else found.row(0, named=True)


def _outcomes(runs: Sequence[NliRun], condition: str, split: str) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether each run is right on each pair, bool [runs, pairs], and the original pair of each, int64 [pairs]."""
    rows = []
    numbers = np.empty(0, np.int64)
    for run in runs:
        items = run.items.filter(pl.col("condition") == condition)
        if split == WITH_CUE:
            items = items.filter("negation")
        elif split != ALL:
            items = items.filter(pl.col("split") == split)
        items = items.sort("item")
        rows.append(items["correct"].to_numpy())
        numbers = items["item"].to_numpy()
    clusters = numbers // len(KINDS) if condition == NEW else numbers
    return np.array(rows, bool), clusters.astype(np.int64)
