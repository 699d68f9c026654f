"""Words for metrics: expressions over the requests of an item beside their answers.

A metric has a value in one row of its item, and is null in the others. What is not known never counts as right: in
Polars NaN is larger than every number, so answers hold null, not NaN; and `all` of nulls is true.
"""

from collections.abc import Sequence

import polars as pl

from .items import ITEM, WHY

ROUNDING = 1e-4  # log-likelihoods that are closer are a tie: two ways to compute the same sum differ by less
GROUP = ("dataset", "condition", "pair")


def of_item(value: pl.Expr, keys: Sequence[str] = ITEM) -> pl.Expr:
    """An aggregate of the requests of each item, in the row of its first one."""
    return pl.when(pl.int_range(pl.len()).over(keys) == 0).then(value.over(keys))


def role(value: str, *names: str) -> pl.Expr:
    """A column of the item's requests of these roles; to be used within an aggregate."""
    return pl.col(value).filter(pl.col("role").is_in(names))


def lead(score: pl.Expr, right: pl.Expr, among: pl.Expr | None = None, keys: Sequence[str] = ITEM) -> pl.Expr:
    """By how much the right candidate is ahead of the best other one, in its row.

    `among` says which requests are candidates, by default all. Null where a candidate has no score, or stands alone.
    """
    candidate = pl.lit(value=True) if among is None else among
    others = pl.when(candidate & ~right).then(score).max().over(keys)
    known = (score.is_not_null() | ~candidate).all().over(keys)
    return pl.when(candidate & right & known).then(score - others)


def best(
    score: pl.Expr,
    right: pl.Expr,
    rounding: pl.Expr | float = ROUNDING,
    among: pl.Expr | None = None,
    keys: Sequence[str] = ITEM,
) -> pl.Expr:
    """Whether the right candidate has the largest score, in its row; a tie is not right."""
    return lead(score, right, among, keys) > rounding


def all_of(truth: pl.Expr, keys: Sequence[str] = GROUP) -> pl.Expr:
    """Whether a metric is true of all items that share a pair, in the row of the first one.

    Null where a request of the group was not answered: a group that was not asked whole does not count.
    """
    name = pl.col(WHY).is_null().all()
    applies = truth.is_not_null()
    value = pl.when(name & applies.any()).then((truth | ~applies).all())
    return of_item(value, keys)
