"""From the items to the rows of summary.parquet.

    condition   split        metric
    sentences   all, groups  log_likelihood, per_token, per_word, per_character: means over sentences, in natural
                             logarithms
                             perplexity: exp(-sum of log_likelihood / sum of tokens), of all sentences of the split; for
                             a masked model the pseudo-perplexity of Salazar et al. (2020), section 2
    pairs       all, groups  accuracy: the share of pairs whose good sentence has the larger log_likelihood
                             accuracy_per_token: the same with per_token
                             ties: the share of pairs without a difference beyond rounding; they are not correct

The groups are the values of the columns that are named as groups; where there are several such columns, a split is
`COLUMN: VALUE`. Intervals allow for the clusters.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from ..items import ALL, SEPARATOR
from ..summary import Row, estimated, frame
from .columns import GOOD, Columns
from .items import CORRECT, CORRECT_PER_TOKEN, LIKELIHOOD, PER_TOKEN, SIDE, TIE

SENTENCES, PAIRS = "sentences", "pairs"
MEANS = (LIKELIHOOD, PER_TOKEN, "per_word", "per_character")
RATES = {"accuracy": CORRECT, "accuracy_per_token": CORRECT_PER_TOKEN, "ties": TIE}
PERPLEXITY = "perplexity"
_CLUSTER = ": cluster"


def condition(columns: Columns) -> str:
    """What the summary is about: sentences or pairs."""
    return PAIRS if columns.has_pairs else SENTENCES


def metrics(columns: Columns) -> dict[str, str]:
    """Metric → the column of the items that it is the mean of."""
    return dict(RATES) if columns.has_pairs else dict(zip(MEANS, MEANS, strict=True))


def splits(columns: Columns) -> list[pl.Expr]:
    """For each column of groups, the names of the splits that its rows belong to."""
    named = [
        (name, pl.col(name).cast(pl.String).str.replace_all(SEPARATOR, "/", literal=True)) for name in columns.groups
    ]
    if len(named) < 2:
        return [value.alias(name) for name, value in named]
    return [(pl.lit(f"{name}: ") + value).alias(name) for name, value in named]


def summarise(items: pl.LazyFrame, columns: Columns, dataset: str) -> pl.DataFrame:
    """The summary of a run's items.

    Args:
        items: Its items; numbers and names of groups alone are held in memory.
        columns: What the columns are for.
        dataset: The name of the table.
    """
    wanted = metrics(columns)
    named = None if columns.cluster is None else pl.col(columns.cluster).cast(pl.String)
    counted = items.filter(pl.col(SIDE) == GOOD) if columns.has_pairs else items
    held = counted.select(
        *(pl.col(own).alias(metric) for metric, own in wanted.items()),
        *(["tokens"] if not columns.has_pairs else []),
        *splits(columns),
        (pl.lit(None, pl.String) if named is None else named).alias(_CLUSTER),
    ).collect(engine="streaming")
    rows: list[Row] = []
    for split, own in _by_split(held, columns):
        key = (dataset, condition(columns), split)
        for metric in wanted:
            known = own[metric].is_not_null()
            if known.any():
                rows.append(Row(*key, metric, *estimated(own[metric].filter(known), own[_CLUSTER].filter(known))))
        if not columns.has_pairs:
            perplexity = float(np.exp(-own[LIKELIHOOD].sum() / own["tokens"].sum()))
            rows.append(Row(*key, PERPLEXITY, perplexity, None, None, len(own)))
    return frame(rows)


def _by_split(held: pl.DataFrame, columns: Columns) -> Iterator[tuple[str, pl.DataFrame]]:
    yield ALL, held
    for name in columns.groups:
        for value in held[name].unique(maintain_order=True).drop_nulls().to_list():
            yield value, held.filter(pl.col(name) == value)
