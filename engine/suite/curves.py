"""Curves over training: the value of each metric against the step, for series with several checkpoints."""

from collections.abc import Sequence

import polars as pl

from ..printable import counted
from ..results.comparison.estimates import DROP, PERCENT
from ..views import Column, Figure, Table
from ..views.charts import Curves

_KEYS = ("dataset", "condition", "split", "metric")
_MOST_PANELS = 12
_WHOLE = "all"


def curves(found: pl.DataFrame, probe: str, stem: str) -> list[Figure]:
    """A figure for rates and one for other numbers; none where no series has several steps.

    Args:
        found: The rows of one probe, from `table.suite_table`.
        probe: Its label.
        stem: The same as a part of the name of a file.
    """
    several = found.filter(pl.col("step").is_not_null()).filter(pl.col("step").n_unique().over("series") > 1)
    figures = []
    for unit in (PERCENT, ""):
        own = several.filter(pl.col("unit") == unit)
        if not own.is_empty():
            figures.append(_figure(own, probe, f"curve-{stem}{'' if unit else '-values'}", unit))
    return figures


def _figure(own: pl.DataFrame, probe: str, name: str, unit: str) -> Figure:
    falls = DROP in own.columns and own[DROP].null_count() == 0
    figures = (DROP, f"{DROP}_low", f"{DROP}_high") if falls else ("value", "low", "high")
    what = "drop of the repetition rate, percentage points" if falls else "rate, %" if unit else "value"
    varying = [key for key in _KEYS if own[key].n_unique() > 1]
    points = own.select(
        "series",
        "step",
        "model",
        *varying,
        "n",
        category=pl.concat_str(varying, separator=" ") if varying else pl.lit(str(own["split"][0])),
        value=figures[0],
        low=figures[1],
        high=figures[2],
    ).sort("series", "step", maintain_order=True)
    drawn, notes = _drawn(points)
    panels = drawn["category"].n_unique()
    constant = [str(own[key][0]) for key in _KEYS if key not in varying]
    decimals = 1 if unit else 3
    columns = [
        *([Column("training run", "series")] if points["series"].n_unique() > 1 else []),
        Column("step", "step"),
        *(Column(key, key) for key in varying),
        Column("n", "n", wrap=False),
        Column("value", "value", low="low", high="high", decimals=decimals, wrap=False),
    ]
    title = f"{probe} over training: {what}"
    table = Table(
        title,
        points.drop("category"),
        columns,
        notes=["[95 % interval]", *([f"all rows: {', '.join(constant)}"] if constant else []), *notes],
    )
    runs = points["series"].unique(maintain_order=True).to_list()
    steps = points["step"].n_unique()
    alt = (
        f"Curves of {probe} over {steps} steps of {', '.join(runs[:4])}{' and others' if len(runs) > 4 else ''}, "
        f"in {counted(panels, 'chart')}: {what} against the step, with 95 % intervals."
    )
    plot = Curves(
        drawn,
        x="step",
        y="value",
        series="series",
        x_title="step",
        y_title=what if panels == 1 else ("drop" if falls else "%" if unit else "value"),
        low="low",
        high="high",
        panel="category" if panels > 1 else None,
    )
    caption = f"{probe}: {what} against the step of training. Bands are 95 % intervals."
    return Figure(name, plot, table, alt, caption, wide=panels > 1)


def _drawn(points: pl.DataFrame) -> tuple[pl.DataFrame, Sequence[str]]:
    """The points that are drawn: a page has room for some charts only."""
    count = points["category"].n_unique()
    if count <= _MOST_PANELS:
        return points, ()
    if "split" in points.columns and len(whole := points.filter(pl.col("split") == _WHOLE)) > 0:
        points = whole
    kept = points["category"].unique(maintain_order=True).head(_MOST_PANELS).to_list()
    said = f"drawn: {len(kept)} of {count} groups; the table has all"
    return points.filter(pl.col("category").is_in(kept)), (said,)
