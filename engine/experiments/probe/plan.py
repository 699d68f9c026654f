"""What a run on a user's stimuli would do, and about how long it would take."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...inference.model import LanguageModel
from ...library.shown import Shown
from ...printable import counted
from ...runs.shard import Shard
from ...runs.stage import ModelOptions
from ...views import Column, Table
from .encoding import Encoded
from .stage import OwnStimuli

_TRIED = 256  # sentences whose time is measured
_SECONDS = 1.0  # of the measurement


@dataclass(frozen=True, eq=False)
class ProbePlan(Shown):
    """A run that was planned, not done.

    Attributes:
        model: The model's name.
        work: Quantity → number, as a person reads them.
        skipped: Reason → how many rows would be skipped.
        folder: The run folder.
    """

    model: str
    work: Mapping[str, int | float]
    skipped: Mapping[str, int]
    folder: Path

    def tables(self) -> list[Table]:
        """What the run would do."""
        work = pl.DataFrame(
            {"what": list(self.work), "number": [float(value) for value in self.work.values()]},
            schema={"what": pl.String, "number": pl.Float64},
        ).with_columns(decimals=pl.when(pl.col("number") == pl.col("number").round(0)).then(0).otherwise(2))
        columns = [Column("", "what"), Column("number", "number", decimals="decimals")]
        return [Table(f"Plan: {self.model}", work, columns)]

    def remarks(self) -> list[str]:
        """Why rows would be skipped, and that nothing was written."""
        return [
            *(f"{counted(n, 'row')} would be skipped: {reason}" for reason, n in self.skipped.items()),
            f"Nothing was written. Without --plan, the results are written to {self.folder}",
        ]

    def document(self) -> dict[str, Any]:
        """See `Shown`."""
        return {
            "model": self.model,
            "run": str(self.folder),
            "work": dict(self.work),
            "skipped": dict(self.skipped),
        }


def plan_of(stage: OwnStimuli, options: ModelOptions, devices: int, folder: Path, shard: Shard) -> ProbePlan:
    """Count the items and tokens of a run, and estimate its time from a few of its sentences.

    Args:
        stage: The run.
        options: How its model would be opened.
        devices: How many devices would share the work.
        folder: Its run folder.
        shard: The share of the parts that would be done.

    Raises:
        InputError: A row is bad, or the model cannot be opened.
    """
    stage.check(lambda _: None)
    own = shard.parts(len(stage.stimuli.parts))
    rows = sentences = tokens = several = 0
    skipped: dict[str, int] = {}
    tried: list[Encoded] = []
    for number in own:
        asked = stage.prepare(number)
        tried = tried or [asked]
        rows, sentences = rows + len(asked.rows.frame), sentences + len(asked.texts)
        tokens += asked.tokens
        several += int((asked.words.counts > 1).sum())
        asked.rows.count_reasons(skipped)
    work: dict[str, int | float] = {
        "rows": rows,
        "items (rows × targets)": rows * len(stage.columns.targets),
        "different sentences": sentences,
        "tokens": tokens,
        "parts of this run" if shard.is_whole else f"parts of shard {shard}": len(own),
    }
    if several:
        work["targets of several tokens"] = several
    if skipped:
        work["rows that would be skipped"] = sum(skipped.values())
    if tried and tried[0].texts:
        speed = _tokens_a_second(stage.open(options), tried[0]) * devices
        work |= {"tokens a second": round(speed), "minutes": tokens / speed / 60}
    return ProbePlan(stage.exported.name, work, skipped, folder)


def _tokens_a_second(model: LanguageModel, asked: Encoded) -> float:
    """How many tokens the model runs in a second, measured on some of the sentences, after a first try."""
    some = max(asked.buckets, key=lambda bucket: bucket.ids.size)
    ids, mask = some.ids[:_TRIED], some.mask_position[:_TRIED]
    expected = np.zeros(len(ids), np.int32)
    model.decide(ids, mask, expected)
    done, start = 0, time.perf_counter()
    while (seconds := time.perf_counter() - start) < _SECONDS:
        model.decide(ids, mask, expected)
        done += ids.size
    return done / seconds
