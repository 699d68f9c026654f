"""Items that cannot be judged, whatever a model answers: they have their reason before anything runs."""

from collections.abc import Mapping, Sequence

import polars as pl

from .items import ITEM, WHY


def refused(requests: pl.DataFrame, faults: Mapping[str, pl.Expr], keys: Sequence[str] = ITEM) -> pl.DataFrame:
    """Requests with the first fault of their item in `why`; a fault is an expression over the requests of an item.

    A reason that a request has already stays.
    """
    why = [pl.col(WHY)] if WHY in requests.columns else []
    why += [pl.when(fault.over(keys)).then(pl.lit(reason)) for reason, fault in faults.items()]
    return requests.with_columns(pl.coalesce(*why, pl.lit(None, pl.String)).alias(WHY))


def of_choice(right: pl.Expr, candidate: pl.Expr) -> dict[str, pl.Expr]:
    """The faults of an item that is a choice among candidates; `right` is a truth value, `candidate` what is chosen."""
    return {
        "only one candidate": pl.len() == 1,
        "no candidate is right": ~right.fill_null(value=False).any(),
        "several candidates are right": right.fill_null(value=False).sum() > 1,
        "two candidates are alike": candidate.is_duplicated().any(),
    }
