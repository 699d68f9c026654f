"""The items of a run as arrays, split by split.

A summary has hundreds of figures about parts of the items. Each question to a frame takes a tenth of a millisecond or
more, whatever its size, so a short run would take longer to summarise than to decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .items import ALL, by_split

UNKNOWN = 0
"""The number of an item that has no word in a column, such as no cluster."""


@dataclass(frozen=True, eq=False)
class Split:
    """The items of a data set and condition that count in a split.

    Attributes:
        dataset: As in the items.
        condition: As in the items.
        name: `all`, or another of the words in `splits`.
        rows: int64 [n], the positions of the items.
    """

    dataset: str
    condition: str
    name: str
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A metric of items.

    Attributes:
        values: float64 [n]; undefined where it does not apply to an item.
        known: bool [n], where it applies.
        yes_or_no: Whether it is a truth value.
    """

    values: NDArray[np.float64]
    known: NDArray[np.bool_]
    yes_or_no: bool

    @classmethod
    def of(cls, column: pl.Series) -> "Outcomes":
        """The outcomes in a column of truth values or numbers; null where the metric does not apply."""
        values = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        return cls(values, column.is_not_null().to_numpy(), column.dtype == pl.Boolean)


@dataclass(frozen=True, eq=False)
class ItemArrays:
    """Items with the columns of `items`, for summaries.

    Attributes:
        items: The frame.
    """

    items: pl.DataFrame

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """Each data set, condition and split that has items, in the order of the first item; `all` first."""
        keys = ("dataset", "condition", "splits")
        each = by_split(self.items.select(keys).with_row_index("row")).drop_nulls("splits")
        found: dict[tuple[str, str], list[Split]] = {}
        grouped = each.group_by(keys, maintain_order=True).agg("row")
        for (dataset, condition, name), rows in zip(grouped.select(keys).iter_rows(), grouped["row"], strict=True):
            own = Split(str(dataset), str(condition), name, rows.to_numpy().astype(np.int64))
            found.setdefault((own.dataset, own.condition), []).append(own)
        return tuple(split for own in found.values() for split in sorted(own, key=lambda split: split.name != ALL))

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """The cluster of each item as a number, int64 [n]; `UNKNOWN` where it has none."""
        return numbered(self.items["cluster"])

    def outcomes(self, metrics: Sequence[str]) -> dict[str, Outcomes]:
        """Metric → its outcomes."""
        return {metric: Outcomes.of(self.items[metric]) for metric in metrics}


def numbered(words: pl.Series) -> NDArray[np.int64]:
    """Words as numbers from 1, in the order of the alphabet, int64 [n]; null is `UNKNOWN`."""
    if words.null_count() == len(words):  # such a column may have no type
        return np.full(len(words), UNKNOWN)
    return words.rank("dense").fill_null(UNKNOWN).to_numpy().astype(np.int64)
