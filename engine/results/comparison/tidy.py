"""`ng.items`: the items of several runs as one tidy frame, for a model with random effects in R or Python."""

from pathlib import Path

import polars as pl

from ...experiments.negation.runs import ScoresRun
from ...library.run import Run
from .estimates import MODEL
from .runs import labels, open_runs

_TEXTS = ("sentence", "premise", "hypothesis")


def item_rows(*runs: Run | str | Path) -> pl.LazyFrame:
    """What `items` collects; it can be written piece by piece."""
    found = open_runs(runs)
    frames = [_tidy(run, name) for run, name in zip(found, labels(found), strict=True)]
    return pl.concat(frames, how="diagonal")


def items(*runs: Run | str | Path) -> pl.DataFrame:
    """One row for each item, condition and model.

    Args:
        runs: Finished runs of one kind, or their folders.

    Returns:
        model, then the columns of `Run.sentences` without the texts; truth values are 1 and 0. The Self-Contained
        Negation Test has `pattern` in place of `condition`, and `pair`: name and profession.

    Raises:
        InputError: The runs cannot be put side by side, or have no sentences.
    """
    return item_rows(*runs).collect(engine="streaming")


def _tidy(run: Run, name: str) -> pl.LazyFrame:
    rows = run.sentence_rows()
    columns = [column for column in rows.collect_schema() if column not in _TEXTS]
    tidy = rows.select(pl.lit(name).alias(MODEL), *columns).with_columns(pl.col(pl.Boolean).cast(pl.Int8))
    if not isinstance(run, ScoresRun):
        return tidy
    named = tidy.rename({"condition": "pattern"}).with_columns(pl.format("{}, {}", "name", "profession").alias("pair"))
    first = [MODEL, "pattern", "role", "name", "gender", "profession", "verb", "pair", "repeated"]
    return named.select(*first, pl.all().exclude(first))
