"""p-values of a whole summary, adjusted for their number."""

import numpy as np
import polars as pl

from ..statistics import holm

P_VALUE, ADJUSTED = "mcnemar_p", "mcnemar_p_holm"


def with_holm(summary: pl.DataFrame) -> pl.DataFrame:
    """A summary with one row of metric `mcnemar_p_holm` after each of `mcnemar_p`, adjusted over all of them."""
    tested = (summary["metric"] == P_VALUE).to_numpy()
    adjusted = summary["value"].to_numpy().copy()
    adjusted[tested] = holm(adjusted[tested])
    place = 2 * np.arange(len(summary))
    twins = summary.with_columns(metric=pl.lit(ADJUSTED), value=pl.Series(adjusted), place=pl.Series(place + 1))
    rows = pl.concat([summary.with_columns(place=pl.Series(place)), twins.filter(pl.Series(tested))])
    return rows.sort("place").drop("place")
