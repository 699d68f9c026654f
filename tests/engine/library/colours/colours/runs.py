"""The library function, and its results."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Unpack

import polars as pl
from negengine.engine.library.model import ModelLike, open_model
from negengine.engine.library.options import RunOptions, execution, run_folder, shard_of
from negengine.engine.library.run import Run, ShardRun
from negengine.engine.runs.loop import run_stage
from negengine.engine.views import Column, Table

from .stage import ITEMS_FILE, Colours


@dataclass(frozen=True, eq=False)
class ColoursRun(Run):
    """A finished run; `items` has the columns thing, polarity, sentence, top1, probability."""

    stage: ClassVar[str] = Colours.name

    @cached_property
    def items(self) -> pl.DataFrame:
        """See the class."""
        return pl.read_parquet(self.folder / ITEMS_FILE)

    def tables(self) -> list[Table]:
        """See `Shown`."""
        columns = [Column("thing", "thing"), Column("polarity", "polarity"), Column("top-1", "top1")]
        return [Table(f"Colours: {self.model_name}", self.items, columns)]

    def document(self) -> dict[str, Any]:
        """See `Shown`."""
        return {"run": str(self.folder), "items": self.items.to_dicts()}

    def sentence_rows(self) -> pl.LazyFrame:
        """See `Run`."""
        nothing = {"expected": pl.String, "correct": pl.Boolean, "failed": pl.Boolean}
        nothing |= {"rank": pl.Int32, "logprob": pl.Float32}
        return self.items.lazy().select(
            item="thing",
            condition="polarity",
            sentence="sentence",
            answer="top1",
            answer_logprob=pl.col("probability").log(),
            **{name: pl.lit(None, kind) for name, kind in nothing.items()},
        )

    def outcomes(self) -> pl.DataFrame:
        """See `Run`."""
        return self.items.select(
            dataset=pl.lit("colours"),
            condition="polarity",
            split=pl.lit("all"),
            metric=pl.lit("probability"),
            item="thing",
            value="probability",
        )


def colours(model: ModelLike, **options: Unpack[RunOptions]) -> ColoursRun | ShardRun:
    """Ask a model for the colours of things.

    Args:
        model: The model.
        **options: See `RunOptions`.
    """
    opened = open_model(model)
    stage, folder = Colours(opened.exported), run_folder(opened, options, "colours")
    run_stage(stage, folder, execution(opened, options))
    return ColoursRun.open(folder, opened) if shard_of(options).is_whole else ShardRun.open(folder, stage.name)
