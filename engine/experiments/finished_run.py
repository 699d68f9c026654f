"""A finished run with items.parquet and summary.parquet: what its results and sentences have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import polars as pl

from ..basics.numerals import fixed
from ..library.model import Model
from ..library.options import RunOptions, execution, run_folder, shard_of
from ..library.run import Results, Run, ShardRun, open_results
from ..requests.items import ITEMS_FILE, SUMMARY_FILE, by_split
from ..runs.loop import run_stage
from ..runs.masked_stages import RankStage, refuse_mixed
from ..runs.stage import Stage
from .published import Paper, paper_of

OUTCOMES = ("dataset", "condition", "split", "metric", "item", "value", "cluster")


@dataclass(frozen=True, eq=False)
class SummaryRun(Run):
    """A finished run of such a probe. A subclass names its metrics and its conditions, and makes its tables."""

    metrics: ClassVar[Sequence[str]]  # the columns of the items that are compared between runs
    # keys of the identity that must agree for two runs to be compared
    condition_keys: ClassVar[Sequence[str]] = ("data sha256",)
    grouped: ClassVar[Mapping[str, str]] = {}  # what items can be grouped by → the column of the items that has it

    @cached_property
    def items(self) -> pl.DataFrame:
        return self.frame(ITEMS_FILE)

    @cached_property
    def summary(self) -> pl.DataFrame:
        return self.frame(SUMMARY_FILE)

    @cached_property
    def paper(self) -> Paper:
        return paper_of(self.stage, self.model_name)

    def told(self, condition: str, split: str, metric: str, *, digits: int = 2) -> str:
        """A value by data set, for a sentence: `TREx 0.93 [0.91, 0.95] (n = 120), SQuAD …`; empty if none has it."""
        shown = partial(fixed, decimals=digits, limits=(0, 1))  # of fractions
        rows = self.summary.filter(
            (pl.col("condition") == condition) & (pl.col("split") == split) & (pl.col("metric") == metric)
        ).filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
        return ", ".join(
            f"{row['dataset']} {shown(row['value'])}"
            + (f" [{shown(row['low'])}, {shown(row['high'])}]" if row["low"] is not None else "")
            + f" (n = {row['n']:,})"
            for row in rows.to_dicts()
        )

    def document(self) -> dict[str, Any]:
        return {"run": str(self.folder), "summary": self.summary.to_dicts()}

    @property
    def conditions(self) -> dict[str, Any]:
        return {key: self.record.identity[key] for key in self.condition_keys}

    def outcomes(self) -> pl.DataFrame:
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


def run_probe(
    stage: Stage[Any, Any], results: type[Results], model: Model, options: RunOptions, probe: str | None = None
) -> Results | ShardRun:
    """Run a probe of one stage, or its unfinished parts; `probe` names its run folder, by default the stage."""
    in_fp32 = isinstance(stage, RankStage) or not stage.calibrates
    if in_fp32 and all(own.is_reference for own in model.devices):
        refuse_mixed(stage.name, model.opening.precision)
    folder = run_folder(model, options, stage.name if probe is None else probe)
    run_stage(stage, folder, execution(model, options))
    return open_results(results, folder, model, shard_of(options))
