"""The table that a paper prints: models in rows, patterns or conditions in columns, intervals beside."""

from collections.abc import Sequence

import polars as pl

from ...views import Column, Table
from .estimates import DROP, MODEL, PERCENT

FITTING, PRINTED = 4, 12
"""How many columns fit a terminal of 80 columns, and a page."""

_KEYS = ("dataset", "condition", "split", "metric")
_LABEL = "label"
_POINTS = "percentage points"


def models_in_rows(title: str, points: pl.DataFrame, *, decimals: int = 1, notes: Sequence[str] = ()) -> Table:
    """A row for each model, a column for each category.

    Args:
        title: Of the table.
        points: model, category, value; with intervals also low and high.
        decimals: Digits after the point.
        notes: Below the table.
    """
    with_ends = {"low", "high"} <= set(points.columns)
    names = ["value", *(["low", "high"] if with_ends else [])]
    categories = points["category"].unique(maintain_order=True).to_list()
    rows: dict[str, dict[str, object]] = {}
    for point in points.iter_rows(named=True):
        row = rows.setdefault(point[MODEL], {MODEL: point[MODEL]})
        row |= {_column(point["category"], name): point[name] for name in names}
    figures = [_column(category, name) for category in categories for name in names]
    frame = pl.DataFrame(list(rows.values()), schema={MODEL: pl.String, **dict.fromkeys(figures, pl.Float64)})
    columns = [
        Column(
            category,
            category,
            decimals=decimals,
            low=_column(category, "low") if with_ends else None,
            high=_column(category, "high") if with_ends else None,
        )
        for category in categories
    ]
    return Table(title, frame, [Column(MODEL, MODEL), *columns], notes=notes)


def estimates_tables(found: pl.DataFrame, clusters: str, *, most: int = PRINTED) -> list[Table]:
    """The estimates of several models: a table for rates, and one for other numbers.

    Args:
        found: From `estimates`, by dataset, condition, split and metric.
        clusters: What the clusters are, such as `relations`.
        most: Up to how many columns models stand in rows; else there is a row for each model and category.
    """
    tables = []
    for unit in (PERCENT, ""):
        own = found.filter(pl.col("unit") == unit)
        if own.is_empty():
            continue
        varying = [key for key in _KEYS if own[key].n_unique() > 1] or ["split"]
        constant = [str(own[key][0]) for key in _KEYS if key not in varying]
        falls = DROP in own.columns and own[DROP].null_count() == 0
        figures = (DROP, f"{DROP}_low", f"{DROP}_high") if falls else ("value", "low", "high")
        what = (
            f"drop of the repetition rate, {_POINTS}" if falls else "rates, %" if unit else "values, in their own unit"
        )
        notes = [f"all columns: {', '.join(constant)}"] if constant else []
        notes.append(
            f"[95 % interval], with clusters ({clusters}{' and verbs' if falls else ''})"
            if (own["clusters"] < own["n"]).any()
            else "[95 % interval]"
        )
        shown = own.select(MODEL, *varying, "n", "clusters", "unit", value=figures[0], low=figures[1], high=figures[2])
        title, decimals = f"Models: {what}", 1 if unit else 3
        if shown.select(varying).n_unique() <= most:
            points = shown.with_columns(category=pl.concat_str(varying, separator=" "))
            tables.append(models_in_rows(title, points, decimals=decimals, notes=notes))
            continue
        columns = [
            *(Column(key, key) for key in varying),
            Column(MODEL, MODEL),
            Column("n", "n", wrap=False),
            Column("value", "value", low="low", high="high", decimals=decimals, wrap=False),
        ]
        tables.append(Table(title, _together(shown, varying), columns, section=_LABEL, notes=notes))
    return tables


def _together(shown: pl.DataFrame, varying: Sequence[str]) -> pl.DataFrame:
    """The rows of one category below each other, in the order in which the categories come."""
    labelled = shown.with_columns(pl.concat_str(varying, separator=" ").alias(_LABEL))
    places = {label: place for place, label in enumerate(labelled[_LABEL].unique(maintain_order=True))}
    return labelled.sort(pl.col(_LABEL).replace_strict(places, return_dtype=pl.Int64), maintain_order=True)


def _column(category: str, name: str) -> str:
    return category if name == "value" else f"{category} {name}"
