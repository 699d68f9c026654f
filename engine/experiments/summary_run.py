"""A run with items.parquet and summary.parquet: the shared code of all probes with one stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import polars as pl

from ..library.model import Model
from ..library.options import RunOptions, execution, run_folder, shard_of
from ..library.run import Results, Run, ShardRun, open_results
from ..runs.loop import run_stage
from ..runs.masked_stages import refuse_mixed
from ..runs.stage import Stage
from .items import ITEMS_FILE, SUMMARY_FILE, by_split

OUTCOMES = ("dataset", "condition", "split", "metric", "item", "value", "cluster")


@dataclass(frozen=True, eq=False)
class SummaryRun(Run):
    """A finished run of such a probe. A subclass names its metrics and its conditions, and makes its tables.

    Attributes:
        metrics: The columns of the items that are compared between runs.
        condition_keys: The keys of the identity that must agree for two runs to be compared.
        grouped: What items can be grouped by → the column of the items that has it.
    """

    metrics: ClassVar[Sequence[str]]
    condition_keys: ClassVar[Sequence[str]] = ("data sha256",)
    grouped: ClassVar[Mapping[str, str]] = {}

    @cached_property
    def items(self) -> pl.DataFrame:
        """The content of items.parquet; see `negengine.engine.experiments.items`."""
        return self.frame(ITEMS_FILE)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """The content of summary.parquet; see `negengine.engine.experiments.summary`."""
        return self.frame(SUMMARY_FILE)

    def told(self, condition: str, split: str, metric: str, *, digits: int = 2) -> str:
        """A value of each data set, for a sentence: `TREx 0.93 [0.91, 0.95] (n = 120), SQuAD …`; empty if none has it.

        Args:
            condition: As in summary.parquet.
            split: As in summary.parquet.
            metric: As in summary.parquet.
            digits: After the point.
        """
        rows = self.summary.filter(
            (pl.col("condition") == condition) & (pl.col("split") == split) & (pl.col("metric") == metric)
        ).filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
        return ", ".join(
            f"{row['dataset']} {row['value']:.{digits}f}"
            + (f" [{row['low']:.{digits}f}, {row['high']:.{digits}f}]" if row["low"] is not None else "")
            + f" (n = {row['n']:,})"
            for row in rows.to_dicts()
        )

    def document(self) -> dict[str, Any]:
        """See `Shown`."""
        return {"run": str(self.folder), "summary": self.summary.to_dicts()}

    @property
    def conditions(self) -> dict[str, Any]:
        """What must be the same in two runs for their items to be compared."""
        return {key: self.record.identity[key] for key in self.condition_keys}

    def outcomes(self) -> pl.DataFrame:
        """One row for each item, split and metric that applies to the item; truth values are 1 and 0."""
        keys = ("dataset", "condition", "item", "splits", "cluster")
        metrics = (pl.col(name).cast(pl.Float64) for name in self.metrics)
        groups = (pl.col(column).alias(name) for name, column in self.grouped.items())
        return (
            by_split(self.items.select(*keys, *metrics, *groups))
            .unpivot(self.metrics, index=[*keys, *self.grouped], variable_name="metric")
            .rename({"splits": "split"})
            .drop_nulls("value")
            .select(*OUTCOMES, *self.grouped)
        )


def run_probe(stage: Stage[Any, Any], results: type[Results], model: Model, options: RunOptions) -> Results | ShardRun:
    """Run a probe of one stage, or its unfinished parts.

    Args:
        stage: What to compute; the run folder has its name.
        results: The class that reads the results.
        model: The model.
        options: See `RunOptions`.

    Returns:
        The finished run; a `ShardRun` if only a shard was asked for.

    Raises:
        InputError: The run folder belongs to another run or is in use, the stage cannot run, or the disk is full.
    """
    if not stage.calibrates:
        refuse_mixed(stage.name, model.precision)
    folder = run_folder(model, options, stage.name)
    run_stage(stage, folder, execution(model, options))
    return open_results(results, folder, model, shard_of(options))
