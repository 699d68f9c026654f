"""A choice among candidates by their likelihoods: scores of requests of the kind `Span`, then metrics of their items.

Requests have the column `right`, a truth value. A request with the role `ALONE` asks a candidate without its context.
It is not a candidate itself. It has the same value in the column `candidate` as the one that it belongs to.
"""

from collections.abc import Mapping

import polars as pl

from .items import ITEM
from .metrics import ROUNDING, lead
from .span import ALONE

CANDIDATE = pl.col("role").ne_missing(ALONE)
RIGHT = pl.col("right").fill_null(value=False) & CANDIDATE
_FIRST = pl.when(CANDIDATE).then(pl.col("unscored").fill_null(-1))


def _of_alone(name: str) -> pl.Expr:
    return pl.when(~CANDIDATE).then(name).max().over(*ITEM, "candidate")


def _least(name: str) -> pl.Expr:
    return pl.when(CANDIDATE).then(name).min().over(ITEM)


# Whether all candidates of an item begin with the same token, where it has no score as nothing stands before it: else
# their sums, and all that is made of them, lack terms that differ.
COMPARABLE: Mapping[str, pl.Expr] = {"comparable": _FIRST.min().over(ITEM) == _FIRST.max().over(ITEM)}
SUMS: Mapping[str, pl.Expr] = {
    **COMPARABLE,
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
