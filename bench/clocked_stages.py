"""Stages whose parts say how long they took: a real selection, and a stage that only waits as long as a real one."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ..engine.experiments.negation.select import Selection
from ..engine.runs.masked_stages import PatternDeciders
from ..engine.runs.stage import Advance, Files, FinishedParts, ModelOptions, PartResult, Stage
from ..engine.text.spans import EncodedSentences
from .clocked import BUSY


class ClockedSelection(Selection):
    """A selection; each part counts the seconds of its decision."""

    def decide(
        self, model: PatternDeciders, number: int, prepared: EncodedSentences | None, advance: Advance
    ) -> PartResult:
        """See `Stage`."""
        began = time.perf_counter()
        result = super().decide(model, number, prepared, advance)
        return replace(result, counts={**result.counts, BUSY: time.perf_counter() - began})


@dataclass(frozen=True)
class Waiting(Stage[None, None]):
    """Parts that take as long, and are as large, as those of a real model; nothing is computed.

    Attributes:
        seconds: The mean time of a part.
        spread: Standard deviation of the logarithm of the times: 0 for parts that all take the same time.
        size: Bytes of a part.
        parts: How many.
        sentences: Of a part.
    """

    name: ClassVar[str] = "waiting"

    seconds: float
    spread: float
    size: int
    parts: int
    sentences: int

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Stage`."""
        return {"seconds": self.seconds, "spread": self.spread, "size": self.size, "parts": self.parts}

    @property
    def sizes(self) -> Sequence[int]:
        """See `Stage`."""
        return [self.sentences] * self.parts

    def open(self, options: ModelOptions) -> None:
        """No model."""

    def decide(self, model: None, number: int, prepared: None, advance: Advance) -> PartResult:  # noqa: ARG002
        """Wait; the rows are random bytes, which Parquet cannot make smaller."""
        began, random = time.perf_counter(), np.random.default_rng(number)
        factor = float(random.lognormal(-(self.spread**2) / 2, self.spread))
        time.sleep(self.seconds * factor)
        advance(self.sentences, self.sentences)
        rows = pl.DataFrame({"content": random.integers(0, 2**63, self.size // 8, np.int64)})
        return PartResult(rows, {BUSY: time.perf_counter() - began})

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """Nothing of use."""
        return {"waiting.json": dict(parts.counts)}
