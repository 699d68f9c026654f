"""The results of a run, counted again in a plain way; see `library.recount`."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from ...library.recount import LOGARITHM, Recount, holds, same_figures
from ..probe.columns import ROW
from .columns import BAD, GOOD, Columns
from .items import FILE, LIKELIHOOD, SIDE, TOKENS_FILE, VERDICTS, WORDS_FILE
from .pairs import ROUNDING
from .summary import RATES, metrics, splits

_SUMS = 1e-4  # natural logarithms: a sum of single digits in fp32, added in another order


def recounts(folder: Path, items: pl.DataFrame, summary: pl.DataFrame, columns: Columns) -> Iterator[Recount]:
    """What must hold of a finished run.

    Args:
        folder: The run folder.
        items: The content of items.parquet.
        summary: The content of summary.parquet.
        columns: What the columns of the user's table are for.
    """
    key = [name for name in (FILE, ROW, SIDE) if name in items.columns]
    yield holds("each sentence is there once", items, ~pl.struct(key).is_duplicated(), key)
    yield holds("log-likelihoods are at most 0", items, pl.col(LIKELIHOOD) <= LOGARITHM * pl.col("tokens"), key)
    for of in ("token", "word", "character"):
        means = (pl.col(f"per_{of}") * pl.col(f"{of}s") - pl.col(LIKELIHOOD)).abs() <= ROUNDING
        yield holds(f"per_{of} is the log-likelihood divided by {of}s", items, (pl.col(f"{of}s") == 0) | means, key)
    for name in (TOKENS_FILE, WORDS_FILE):
        if (folder / name).exists():
            own = pl.scan_parquet(folder / name).group_by(key).agg(pl.col("logprob").cast(pl.Float64).sum())
            both = items.select(*key, LIKELIHOOD).join(
                own.collect(engine="streaming"), on=key, how="full", coalesce=True
            )
            same = (pl.col(LIKELIHOOD) - pl.col("logprob")).abs() <= _SUMS
            yield holds(
                f"the log-probabilities of {name} sum to log_likelihood", both, same.fill_null(value=False), key
            )
    if columns.has_pairs:
        yield _verdicts(items, columns)
    yield _means(items, summary, columns)


def _verdicts(items: pl.DataFrame, columns: Columns) -> Recount:
    """The verdicts follow from the log-likelihoods of the pair."""
    keys = [name for name in (FILE, columns.pair or ROW) if name in items.columns]
    good, bad = (items.filter(pl.col(SIDE) == side) for side in (GOOD, BAD))
    both = good.join(bad.select(*keys, other=LIKELIHOOD), on=keys, how="inner")
    larger = pl.col(LIKELIHOOD) - pl.col("other")
    right = (pl.col(VERDICTS[0]) == (larger > ROUNDING)) & (pl.col(VERDICTS[2]) == (larger.abs() <= ROUNDING))
    return holds("a pair is correct where its good sentence is the more probable one", both, right, [ROW])


def _means(items: pl.DataFrame, summary: pl.DataFrame, columns: Columns) -> Recount:
    """The rates or means of summary.parquet are those of the items of their split."""
    counted = items.filter(pl.col(SIDE) == GOOD) if columns.has_pairs else items
    wanted = metrics(columns)
    every = [pl.lit("all").alias("all"), *splits(columns)]
    long = pl.concat(
        counted.select(split, *(pl.col(own).cast(pl.Float64).alias(name) for name, own in wanted.items()))
        .rename({split.meta.output_name(): "split"})
        .unpivot(list(wanted), index="split", variable_name="metric")
        for split in every
    )
    means = long.drop_nulls().group_by("split", "metric").agg(pl.col("value").mean(), n=pl.len().cast(pl.Int64))
    found = summary.filter(pl.col("metric").is_in(list(wanted)))
    what = "rates" if wanted.keys() == RATES.keys() else "means"
    return same_figures(f"the {what} of summary.parquet are those of the items", found, means, ["split", "metric"])
