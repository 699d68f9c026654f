"""The rates of runs, each with its interval, in one frame: a row for each model and group of items.

Where the items are in clusters of two kinds, such as pairs and verbs, the interval allows for both; see
`negengine.engine.statistics`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ...experiments.items import ALL
from ...experiments.negation.runs import DATASET
from ...experiments.summary import estimated
from ...statistics import crossed_mean, proportion_interval, student_interval

MODEL = "model"
PERCENT = "%"
DROP = "drop"
_FALLS = (pl.col("dataset") == DATASET) & (pl.col("metric") == "repetition_rate")  # the paper prints 100 - rate
_FIGURES = {
    "n": pl.Int64,
    "clusters": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "unit": pl.String,
}


def main_items(outcomes: pl.DataFrame, by_construction: Sequence[str]) -> pl.DataFrame:
    """The outcomes that estimates are made of: of a data set with the split `all` this split alone.

    Args:
        outcomes: From `outcomes_of`.
        by_construction: The splits whose rates are not estimates.
    """
    kept = outcomes.filter(~pl.col("split").is_in(list(by_construction)))
    whole = (pl.col("split") == ALL).any().over("dataset", "condition", "metric")
    return kept.filter((pl.col("split") == ALL) | ~whole)


def estimates(outcomes: Mapping[str, pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    """A row for each model and group, in the order in which they come.

    Args:
        outcomes: Model → its outcomes: the columns of `outcomes_of`.
        by: The columns of the outcomes that make a group.

    Returns:
        model, the columns of `by`, n, clusters, value, low, high (95 % interval; null where nothing varies), unit (`%`
        where all outcomes are 0 or 1); drop, drop_low and drop_high (100 - value) of the Self-Contained Negation Test.
        A group is in percent only if it is so for all models.
    """
    parts = [
        (name, key, part) for name, own in outcomes.items() for key, part in own.group_by(*by, maintain_order=True)
    ]
    yes_or_no: dict[Any, bool] = {}
    for _, key, part in parts:
        yes_or_no[key] = yes_or_no.get(key, True) and bool(part["value"].is_in([0.0, 1.0]).all())
    rows = [(name, *key, *_figures(part, yes_or_no=yes_or_no[key])) for name, key, part in parts]
    frame = pl.DataFrame(rows, schema={MODEL: pl.String, **dict.fromkeys(by, pl.String), **_FIGURES}, orient="row")
    if not {"dataset", "metric"} <= set(by) or not frame.select(_FALLS.any()).item():
        return frame
    falling = pl.when(_FALLS)
    return frame.with_columns(
        falling.then(100 - pl.col("value")).alias(DROP),
        falling.then(100 - pl.col("high")).alias(f"{DROP}_low"),
        falling.then(100 - pl.col("low")).alias(f"{DROP}_high"),
    )


def _figures(part: pl.DataFrame, *, yes_or_no: bool) -> tuple[int | float | str | None, ...]:
    values = part["value"].cast(pl.Boolean) if yes_or_no else part["value"]
    scale, unit = (100, PERCENT) if yes_or_no else (1, "")
    kinds = [part[name] for name in ("cluster", "crossed")]
    if kinds[1].null_count() == 0 and min(kind.n_unique() for kind in kinds) > 1:
        numbers = [kind.rank("dense").to_numpy().astype(np.int64) - 1 for kind in kinds]
        found = crossed_mean(values.to_numpy(), *numbers)
        low, high = (proportion_interval if yes_or_no else student_interval)(found)
        value = found.value
    else:
        value, low, high, *_ = estimated(values, kinds[0])
    scaled = [None if figure is None else scale * figure for figure in (value, low, high)]
    return len(part), kinds[0].n_unique(), *scaled, unit
