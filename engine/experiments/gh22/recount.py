"""The results of the test of Gubelmann & Handschuh (2022), counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator

import polars as pl

from ...library.recount import LOGARITHM, Recount, holds, same_figures
from ..recount import item_once

_ITEM = ("condition", "pattern", "pair", "rank")
_CELL = ("condition", "split", "metric")
_ACT = ("pair", "rank")


def recounts(items: pl.DataFrame, summary: pl.DataFrame, acts: pl.DataFrame) -> Iterator[Recount]:
    """What must hold of a finished run.

    Args:
        items: The content of items.parquet.
        summary: The content of summary.parquet.
        acts: The content of acts.parquet.
    """
    yield item_once(items, _ITEM)
    words = [name for name in acts.columns if name in items.columns and name not in _ACT]
    yield holds(
        "ACTs are those of acts.parquet",
        items.join(acts, on=_ACT, how="left", suffix="_chosen"),
        pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_chosen")) for name in words),
        _ITEM,
    )
    behind = pl.col("expected_logprob") - pl.col("top1_logprob")
    yield holds(
        "the ACT is repeated where its rank is 1, and nowhere else",
        items,
        (pl.col("expected_rank") >= 1)
        & pl.when("repeated")
        .then((pl.col("expected_rank") == 1) & (pl.col("top1") == pl.col("act")) & pl.col("repeated_any"))
        .otherwise((pl.col("expected_rank") > 1) | (behind.abs() <= LOGARITHM)),
        _ITEM,
    )
    yield holds(
        "log-probabilities are at most 0, and the ACT's at most that of the first choice",
        items,
        (pl.col("top1_logprob") <= LOGARITHM) & (behind <= LOGARITHM),
        _ITEM,
    )
    verbs = items.group_by("top1").agg(pl.col("top1_is_verb").n_unique().alias("answers"))
    yield holds("a first choice is a verb everywhere or nowhere", verbs, pl.col("answers") == 1, ["top1"])
    yield _rates(items, summary)


def _rates(items: pl.DataFrame, summary: pl.DataFrame) -> Recount:
    """The shares of summary.parquet are those of the items; the drop is their difference."""
    named = items.with_columns(split=pl.format("{}@{}", "pattern", "rank"))
    shares = {
        "repetition_rate": pl.col("repeated"),
        "repetition_rate:any": pl.col("repeated_any"),
        "ungrammatical": ~pl.col("top1_is_verb"),
    }
    rates = named.group_by("condition", "split").agg(
        pl.len().cast(pl.Int64).alias("n"), *(share.mean().alias(name) for name, share in shares.items())
    )
    wanted = rates.unpivot(list(shares), index=["condition", "split", "n"], variable_name="metric")
    number = pl.format("{}@{}", pl.col("split").str.extract(r"^(.+)[PN]@"), pl.col("split").str.extract(r"@(\d+)$"))
    sides = wanted.filter(pl.col("metric") == "repetition_rate").with_columns(
        polarity=pl.col("split").str.extract(r"([PN])@"), split=number
    )
    both = sides.filter(pl.col("polarity") == "P").join(
        sides.filter(pl.col("polarity") == "N"), on=["condition", "split"], suffix="_n"
    )
    drops = both.select("condition", "split", "n", metric=pl.lit("drop"), value=pl.col("value") - pl.col("value_n"))
    counted = pl.concat([wanted, drops], how="diagonal").select(*_CELL, "value", "n")
    known = summary.select(*_CELL).join(counted, on=_CELL)  # `any` is reported where a context has several verbs
    found = summary.filter(pl.col("metric").is_in([*shares, "drop"]))
    return same_figures("rates and drops of summary.parquet are those of the items", found, known, _CELL)
