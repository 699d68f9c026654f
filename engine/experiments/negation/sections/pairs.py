"""The minimal pairs: patterns that differ in a negation, side by side."""

import re
from itertools import product

import polars as pl

from ....views import Column, Figure, Section, Table, charts
from ..runs import ScoresRun

_POLARITY = re.compile(r"C(\w)T(\w)")
_WORDS = {"p": "affirmative", "n": "negated", "v": "with an adverb"}
_POINTS = "percentage points"


def pairs(run: ScoresRun, differences: pl.DataFrame) -> Section:
    """The minimal pairs as matrices.

    Args:
        run: The run.
        differences: From `patterns.differences`.
    """
    figures = [*([own] if (own := _polarities(run)) else []), _differences(run, differences)]
    return Section(
        "What changes between two patterns of a minimal pair?",
        ["Two patterns of a minimal pair differ in one negation only. All patterns have the same triplets."],
        figures=figures,
    )


def _polarities(run: ScoresRun) -> Figure | None:
    """Repetition rates by the polarity of context and target; None where the names of the patterns do not say it."""
    found = [(match, row) for row in run.rates.iter_rows(named=True) if (match := _POLARITY.fullmatch(row["pattern"]))]
    if len(found) < len(run.rates):
        return None
    rows = [
        {
            "pattern": row["pattern"],
            "context": _WORDS.get(match[1], match[1]),
            "target": _WORDS.get(match[2], match[2]),
            "repetition_rate": row["repetition_rate"],
            "cell": "" if row["repetition_rate"] is None else f"{row['repetition_rate']:.1f} %",
        }
        for match, row in found
    ]
    frame = pl.DataFrame(rows, schema_overrides={"repetition_rate": pl.Float64})
    table = Table(
        "Repetition rate by the polarity of context and target",
        frame.drop("cell"),
        [
            Column("pattern", "pattern"),
            Column("context", "context"),
            Column("target", "target"),
            Column("repetition rate", "repetition_rate", decimals=1, unit="%"),
        ],
    )
    return Figure(
        "polarities",
        charts.Matrix(
            frame,
            row="context",
            column="target",
            value="repetition_rate",
            text="cell",
            size=76,
            row_title="context sentence",
            column_title="target sentence",
        ),
        table,
        "A matrix of repetition rates: " + ", ".join(f"{row['pattern']} {row['cell']}" for row in rows) + ".",
        "Repetition rate of the verb. Neighbouring cells are a minimal pair: only one of the two sentences is changed.",
    )


def _differences(run: ScoresRun, found: pl.DataFrame) -> Figure:
    """Each pattern against each other one: who repeats what on the same triplets."""
    names = run.rates["pattern"].to_list()
    text = (
        pl.when(pl.col("difference").is_null())
        .then(pl.lit(""))
        .otherwise(pl.col("difference").map_elements("{:+.1f}".format, pl.String))
    )
    whole = pl.DataFrame(list(product(names, names)), schema=["first", "second"], orient="row")
    cells = whole.join(found, on=["first", "second"], how="left", maintain_order="left").with_columns(text=text)
    places = {name: i for i, name in enumerate(names)}
    once = found.filter(
        pl.col("first").replace_strict(places, return_dtype=pl.Int64)
        < pl.col("second").replace_strict(places, return_dtype=pl.Int64)
    )
    frame = once.drop("n", "p")
    counts = ("both", "only_first", "only_second", "neither")
    table = Table(
        "Difference of the repetition rates on the same triplets: first − second",
        frame,
        [
            Column("first", "first"),
            Column("second", "second"),
            Column("difference", "difference", low="low", high="high", decimals=1, signed=True, unit=_POINTS),
            *(Column(name.replace("_", " "), name) for name in counts),
        ],
        notes=[
            "both, only first, only second, neither: in how many triplets the verb is repeated",
            "in square brackets: 95 % interval, for which pairs and verbs are clusters",
        ],
    )
    largest = once.sort(pl.col("difference").abs(), maintain_order=True).row(-1, named=True)
    return Figure(
        "differences",
        charts.Matrix(cells, row="first", column="second", value="difference", text="text"),
        table,
        f"A matrix of differences between patterns. The largest is {largest['first']} − {largest['second']}: "
        f"{largest['difference']:+.1f} {_POINTS}.",
        f"Repetition rate of the row minus that of the column, in {_POINTS}.",
    )
