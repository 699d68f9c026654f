"""Words for metrics: expressions over the requests of an item beside their answers; items that cannot be judged.

A metric has a value in one row of its item, and is null in the others. What is not known never counts as right: in
Polars NaN is larger than every number, so answers hold null, not NaN; and `all` of nulls is true.

A choice among candidates by their likelihoods has requests of the kind `Span` with the column `right`, a truth value. A
request with the role `ALONE` asks a candidate without its context. It is not a candidate itself. It has the same value
in the column `candidate` as the one that it belongs to.
"""

from collections.abc import Mapping

import polars as pl

from .items import ITEM, WHY
from .span import ALONE

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


def refused(requests: pl.DataFrame, faults: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Requests with the first fault of their item in `why`, before anything runs.

    A fault is an expression over the requests of an item. A reason that a request has already stays.
    """
    why = [pl.col(WHY)] if WHY in requests.columns else []
    why += [pl.when(fault.over(ITEM)).then(pl.lit(reason)) for reason, fault in faults.items()]
    return requests.with_columns(pl.coalesce(*why, pl.lit(None, pl.String)).alias(WHY))


def of_choice(right: pl.Expr, candidate: pl.Expr) -> dict[str, pl.Expr]:
    """The faults of an item that is a choice among candidates; `right` is a truth value, `candidate` what is chosen."""
    return {
        "only one candidate": pl.len() == 1,
        "no candidate is right": ~right.fill_null(value=False).any(),
        "several candidates are right": right.fill_null(value=False).sum() > 1,
        "two candidates are alike": candidate.is_duplicated().any(),
    }


CANDIDATE = pl.col("role").ne_missing(ALONE)
RIGHT = pl.col("right").fill_null(value=False) & CANDIDATE
_FIRST = pl.when(CANDIDATE).then(pl.col("unscored").fill_null(-1))


def _of_alone(name: str) -> pl.Expr:
    return pl.when(~CANDIDATE).then(name).max().over(*ITEM, "candidate")


def _least(name: str) -> pl.Expr:
    return pl.when(CANDIDATE).then(name).min().over(ITEM)


SUMS: Mapping[str, pl.Expr] = {
    # Whether all candidates of an item begin with the same token, where it has no score as nothing stands before it:
    # else their sums, and all that is made of them, lack terms that differ.
    "comparable": _FIRST.min().over(ITEM) == _FIRST.max().over(ITEM),
    "fewest_tokens": _least("tokens"),
    "sum": pl.when(CANDIDATE & pl.col("comparable")).then("logprob"),
    "token": pl.col("sum") / pl.col("tokens"),
    "ahead": lead(pl.col("sum"), RIGHT, CANDIDATE),
}
"""The scores of candidates, in an order in which each one reads only those before it."""
SCORES: Mapping[str, pl.Expr] = {
    **SUMS,
    "fewest_bytes": _least("bytes"),
    "byte": pl.col("sum") / pl.col("bytes"),
    "tokens_alone": _of_alone("tokens"),
    "alone": _of_alone("logprob"),
    # A candidate that is scored on other tokens alone says nothing of what its context adds.
    "pmi": pl.when(pl.col("tokens_alone") == pl.col("tokens")).then(pl.col("sum") - pl.col("alone")),
}
RATES: Mapping[str, pl.Expr] = {
    "accuracy": pl.col("ahead") > ROUNDING,
    # What rounding moves is divided, too.
    "accuracy_per_token": lead(pl.col("token"), RIGHT, CANDIDATE) > ROUNDING / pl.col("fewest_tokens"),
    "ties": pl.col("ahead").abs() <= ROUNDING,
}
"""Of an item, in the row of its right candidate: whether it has the largest score. A tie is not right."""
METRICS: Mapping[str, pl.Expr] = {
    "accuracy": RATES["accuracy"],
    "accuracy_per_token": RATES["accuracy_per_token"],
    "accuracy_per_byte": lead(pl.col("byte"), RIGHT, CANDIDATE) > ROUNDING / pl.col("fewest_bytes"),
    "accuracy_pmi": lead(pl.col("pmi"), RIGHT, CANDIDATE) > 2 * ROUNDING,
    "ties": RATES["ties"],
}
