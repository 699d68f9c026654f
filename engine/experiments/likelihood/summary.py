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
_VALUE, _CLUSTER = ": value", ": cluster"


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
    counted = items.filter(pl.col(SIDE) == GOOD) if columns.has_pairs else items
    found: dict[str, list[Row]] = {}
    for metric, own in metrics(columns).items():  # one at a time: the values of one are in memory
        for split, values, clusters in _by_split(counted, columns, own):
            key = (dataset, condition(columns), split, metric)
            found.setdefault(split, []).append(Row._make([*key, *estimated(values, clusters), None, None]))
    if not columns.has_pairs:
        sums = {split: float(values.sum()) for split, values, _ in _by_split(counted, columns, LIKELIHOOD)}
        for split, values, _ in _by_split(counted, columns, "tokens"):
            perplexity = float(np.exp(-sums[split] / float(values.sum())))
            found[split].append(
                Row(dataset, condition(columns), split, PERPLEXITY, perplexity, None, None, len(values))
            )
    return frame([row for rows in found.values() for row in rows])


def _by_split(items: pl.LazyFrame, columns: Columns, column: str) -> Iterator[tuple[str, pl.Series, pl.Series]]:
    """The values of a column in each split that has any, and their clusters."""
    cluster = pl.lit(None, pl.String) if columns.cluster is None else pl.col(columns.cluster).cast(pl.String)
    held = items.select(pl.col(column).alias(_VALUE), *splits(columns), cluster.alias(_CLUSTER))
    known = held.filter(pl.col(_VALUE).is_not_null()).collect(engine="streaming")
    if not known.is_empty():
        yield ALL, known[_VALUE], known[_CLUSTER]
    for name in columns.groups:
        for split in known[name].unique(maintain_order=True).drop_nulls().to_list():
            own = known.filter(pl.col(name) == split)
            yield split, own[_VALUE], own[_CLUSTER]
