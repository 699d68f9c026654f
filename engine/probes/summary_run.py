"""A run that holds items.parquet and summary.parquet: what is common to the probes with one row an item."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import polars as pl

from ..library.run import Run
from .items import ITEMS_FILE, SUMMARY_FILE, by_split

OUTCOMES = ("dataset", "condition", "split", "metric", "item", "value")


@dataclass(frozen=True, eq=False)
class SummaryRun(Run):
    """A finished run of such a probe. A subclass names its metrics and its conditions, and makes its tables.

    Attributes:
        metrics: The columns of the items that are compared between runs.
        condition_keys: The keys of the identity that must agree for two runs to be compared.
    """

    metrics: ClassVar[Sequence[str]]
    condition_keys: ClassVar[Sequence[str]] = ("data sha256",)

    @cached_property
    def items(self) -> pl.DataFrame:
        """The content of items.parquet; see `negengine.engine.probes.items`."""
        return pl.read_parquet(self.folder / ITEMS_FILE)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """The content of summary.parquet: dataset, condition, split, metric, value, low, high, n."""
        return pl.read_parquet(self.folder / SUMMARY_FILE)

    def document(self) -> dict[str, Any]:
        """See `Shown`."""
        return {"run": str(self.folder), "summary": self.summary.to_dicts()}

    @property
    def conditions(self) -> dict[str, Any]:
        """What must be the same in two runs for their items to be compared."""
        return {key: self.record.identity[key] for key in self.condition_keys}

    def outcomes(self) -> pl.DataFrame:
        """One row an item, split and metric; truth values as 1 and 0, and no row where a metric does not apply."""
        keys = ("dataset", "condition", "item", "splits")
        return (
            by_split(self.items.select(*keys, *(pl.col(name).cast(pl.Float64) for name in self.metrics)))
            .unpivot(self.metrics, index=keys, variable_name="metric")
            .rename({"splits": "split"})
            .drop_nulls("value")
            .select(*OUTCOMES)
        )
