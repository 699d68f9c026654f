"""The paper's Tables 5 and 6 with our figures; the published ones have columns of their own."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ...choices import Coreference
from ...inference.audit import audit_sentences
from ...text.pattern import PatternSet, PublishedColumn, Role
from ...views import Column, Table
from .published import Published

_SELECTION = {
    "row": pl.Int64,
    "quantity": pl.String,
    "label": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "estimated": pl.Boolean,
    "published": pl.Float64,
    "unit": pl.String,
    "decimals": pl.Int64,
    "printed": pl.String,
}
_SINCE = {
    **dict.fromkeys(("pairs", "verbs"), pl.Int64),
    **dict.fromkeys(
        ("design_effect", "drop_low_two_way", "drop_high_two_way", "design_effect_two_way", "detectable"), pl.Float64
    ),
}
_UNITS = {"verbs": "verbs", "pairs": "pairs", "ratio": "%"}


def selection_table(selection: Mapping[str, Any], published: Published | None) -> Table:
    """The selection in the layout of Table 5.

    Args:
        selection: the content of selection.json; if it has `lazy`, rows 4 and 5 are estimates.
        published: the paper's figures for the same model, if it is one of its four.

    Returns:
        A table whose frame has the columns row (1 to 6), quantity (the key in selection.json), label, value, low and
        high (95 % interval of an estimated ratio), estimated, published and unit.
    """
    lazy = selection.get("lazy")
    estimate = ", estimated" if lazy else ""
    labels = {
        "verbs": "1. Available verbs",
        "pairs": "2. Available NAME,PROF pairs",
        "tested": f"3. Tested triplets (of {lazy['candidates']:,})" if lazy else "3. Tested triplets (row 1 × row 2)",
        "repeating": f"4. leading to ACT repetition{estimate}",
        "ratio": f"5. Ratio (%){estimate}" if lazy else "5. Ratio (row 4 / row 3, %)",
        "selected": "6. Selected triplets",
    }
    coreference = selection["coreference"]
    paper = _published_selection(published, coreference)
    rows = [
        {
            "row": number,
            "quantity": quantity,
            "label": label,
            "value": float(selection[quantity]),
            "low": lazy["ratio_low"] if lazy and quantity == "ratio" else None,
            "high": lazy["ratio_high"] if lazy and quantity == "ratio" else None,
            "estimated": lazy is not None and quantity in {"repeating", "ratio"},
            "published": paper.get(quantity),
            "unit": _UNITS.get(quantity, "triplets"),
            "decimals": 1 if quantity == "ratio" else 0,
            "printed": _millions(paper.get(quantity)) if quantity in {"tested", "repeating"} else None,
        }
        for number, (quantity, label) in enumerate(labels.items(), 1)
    ]
    here = Column(
        "here",
        "value",
        low="low",
        high="high",
        decimals="decimals",
        approximate="estimated",
        interval="({low} to {high})",
    )
    return Table(
        title=f"Selection of triplets: {selection['model']}, {selection['pattern']}{_target(coreference)}",
        frame=pl.DataFrame(rows, schema=_SELECTION),
        columns=[Column("", "label"), here, *([Column("paper", "published", decimals="decimals")] if paper else [])],
        texts={"published": "printed"},
        notes=audit_sentences(selection.get("precision", {})),
    )


def rates_table(
    rates: pl.DataFrame,
    patterns: PatternSet,
    selection: Mapping[str, Any],
    published: Published | None,
    precision: Mapping[str, float | str] | None = None,
) -> Table:
    """Rates and drops in the layout of Table 6; with the paper's drops where it has tested the model.

    Args:
        rates: the content of rates.parquet.
        patterns: the set of the run.
        selection: the content of selection.json.
        published: the paper's figures for the same model, if it is one of its four.
        precision: the run's report on its precision, from `audit_summary`.

    Returns:
        A table whose frame has the columns of rates.parquet, published (the paper's drop) and role. What a run from
        before does not have is null.
    """
    coreference = selection["coreference"]
    paper = _published_drops(published, coreference)
    roles = {pattern.name: str(pattern.role) for pattern in patterns.all}
    names = rates["pattern"].to_list()
    since = {name: kind for name, kind in _SINCE.items() if name not in rates.columns}  # runs from before
    frame = (
        rates.with_columns(pl.lit(None, kind).alias(name) for name, kind in since.items())
        .with_columns(
            pl.Series("published", [paper.drops.get(name) if paper else None for name in names], dtype=pl.Float64),
            pl.Series("role", [roles.get(name) for name in names], dtype=pl.String),
        )
        .with_columns(
            # The rate of the selecting pattern is 100 % by construction, so it does not have an interval.
            pl.when(pl.col("role") == str(Role.SELECTING)).then(None).otherwise(pl.col(name)).alias(name)
            for name in ("drop_low", "drop_high")
        )
    )
    doubts = published.doubts if published and paper and coreference != Coreference.PRONOUN else ()  # on Tables 8, 9
    two_way = frame["drop_low_two_way"].null_count() < len(frame)
    return Table(
        title=f"Drop of ACT repetition: {selection['model']}{_target(coreference)}",
        frame=frame,
        columns=[
            Column("pattern", "pattern"),
            Column("rate %", "repetition_rate", decimals=1, unit="%"),
            Column("drop", "drop", decimals=1, unit="percentage points"),
            _interval("95 % interval", "drop_low", "drop_high"),
            *([_interval("and by verb", "drop_low_two_way", "drop_high_two_way")] if two_way else []),
            *([Column("paper", "published", decimals=1, unit="percentage points")] if paper else []),
            Column("role", "role"),
        ],
        notes=[
            *_rates_notes(frame),
            *([f"paper: {'; '.join(doubts)}"] if doubts else []),
            *(audit_sentences(precision) if precision is not None else []),
        ],
    )


def _interval(heading: str, low: str, high: str) -> Column:
    return Column(heading, low=low, high=high, decimals=1, unit="percentage points", wrap=False)


def _rates_notes(frame: pl.DataFrame) -> list[str]:
    """What the rates count, how far triplets depend on each other, and what the run can find."""
    counts = frame.filter(pl.col("n") == pl.col("n").max()).row(0, named=True)
    if counts["pairs"] is None:
        return [f"rate: repetition rate of {counts['n']:,} triplets"]
    notes = [
        f"rate: repetition rate of {counts['n']:,} triplets ({counts['pairs']:,} pairs, {counts['verbs']:,} verbs)"
    ]
    effects = [_range(frame[name], 1) for name in ("design_effect", "design_effect_two_way")]
    if all(effects):
        notes.append(
            f"95 % interval: pairs are clusters (design effect {effects[0]}); and by verb: verbs too ({effects[1]})"
        )
    if smallest := frame["detectable"].drop_nulls().to_list():
        notes.append(
            f"a true difference between two patterns is found with a power of 80 % from {max(smallest):.1f} points on"
        )
    return notes


def _range(values: pl.Series, decimals: int) -> str:
    """The smallest and the largest value; empty if there are none."""
    known = sorted({f"{value:.{decimals}f}" for value in values.drop_nulls()}, key=float)
    return " to ".join(dict.fromkeys((known[0], known[-1]))) if known else ""


def _published_selection(published: Published | None, coreference: str) -> dict[str, float | None]:
    """The paper's column, by the keys of selection.json: Table 5 is about pronouns; Tables 8 and 9 have row 6 only."""
    if published is None or coreference not in published.coreference:
        return {}
    if coreference == Coreference.PRONOUN:
        return dict(published.selection)
    return {"selected": published.coreference[coreference].triplets}


def _published_drops(published: Published | None, coreference: str) -> PublishedColumn | None:
    return published.coreference.get(coreference) if published else None


def _millions(count: float | None) -> str | None:
    """All the digits that the paper prints."""
    return None if count is None else f"{count / 1e6:.1f} M"


def _target(coreference: str) -> str:
    return "" if coreference == Coreference.PRONOUN else f", target about: {coreference}"
