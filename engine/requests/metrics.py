"""Words for metrics: expressions over the requests of an item beside their answers.

A metric has a value in one row of its item, and is null in the others. What is not known never counts as right: in
Polars NaN is larger than every number, so answers hold null, not NaN; and `all` of nulls is true.
"""

import polars as pl

from .items import ITEM

ROUNDING = 1e-4  # log-likelihoods that are closer are a tie: two ways to compute the same sum differ by less


def of_item(value: pl.Expr) -> pl.Expr:
    """An aggregate of the requests of each item, in the row of its first one."""
    return pl.when(pl.int_range(pl.len()).over(ITEM) == 0).then(value.over(ITEM))


def role(value: str, *names: str) -> pl.Expr:
    """A column of the item's requests of these roles; to be used within an aggregate."""
    return pl.col(value).filter(pl.col("role").is_in(names))


def lead(score: pl.Expr, right: pl.Expr, among: pl.Expr | None = None) -> pl.Expr:
    """By how much the right candidate is ahead of the best other one, in its row; at most `ROUNDING` is a tie.

    `among` says which requests are candidates, by default all. Null where a candidate has no score, or stands alone.
    """
    candidate = pl.lit(value=True) if among is None else among
    others = pl.when(candidate & ~right).then(score).max().over(ITEM)
    known = (score.is_not_null() | ~candidate).all().over(ITEM)
    return pl.when(candidate & right & known).then(score - others)
