"""A stage for mono-token verbs and one for verbs of several tokens, as one stage with the parts of both.

The parts of the mono-token verbs come first. They are those of a run without verbs of several tokens, so they have the
same rows. A column `tokens` tells the kinds apart: it is 1 for mono-token verbs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ...inference.choosing import Workload
from ...inference.exported import ExportedModel
from ...runs.masked_stages import DecidingStage, PatternDeciders
from ...runs.stage import Advance, FinishedParts, PartResult
from .several import PREFIX, SEVERAL, TOKENS


@dataclass(frozen=True, eq=False)
class BothKinds(DecidingStage[Any]):
    """Two stages as one; subclasses say what the results depend on, and publish them.

    Attributes:
        exported: The model.
        single: The stage for mono-token verbs.
        several: The stage for verbs of several tokens.
    """

    exported: ExportedModel
    single: DecidingStage[Any]
    several: DecidingStage[Any]

    @property
    def seed(self) -> int:
        """See `DecidingStage`."""
        return self.single.seed

    @property
    def unit(self) -> str:
        """See `Stage`."""
        return self.single.unit

    @property
    def sizes(self) -> Sequence[int]:
        """See `Stage`."""
        return [*self.single.sizes, *self.several.sizes]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """See `Stage`."""
        return {**self.single.metadata, **self.several.metadata}

    def check(self, say: Callable[[str], None]) -> None:
        """See `Stage`."""
        for own in self._kinds:
            own.check(say)

    def workloads(self) -> Sequence[Workload]:
        """See `DecidingStage`."""
        return [workload for own in self._kinds for workload in own.workloads()]

    def known(self, model: PatternDeciders, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
        """See `MixedStage`."""
        return {pattern: choice for own in self._kinds for pattern, choice in own.known(model, say).items()}

    def prepare(self, number: int) -> Any:
        """See `Stage`."""
        own, own_number = self._owner(number)
        return own.prepare(own_number)

    def decide(self, model: PatternDeciders, number: int, prepared: Any, advance: Advance) -> PartResult:
        """See `Stage`; a part knows nothing of the precision of the other kind."""
        own, own_number = self._owner(number)
        is_several = own is self.several
        deciders = {name: one for name, one in model.deciders.items() if name.endswith(SEVERAL) == is_several}
        found = own.decide(replace(model, deciders=deciders), own_number, prepared, advance)
        if is_several:
            return found
        return replace(found, rows=found.rows.with_columns(pl.lit(1, pl.Int32).alias(TOKENS)))

    @property
    def _kinds(self) -> list[DecidingStage[Any]]:
        """The stages that have anything to do."""
        return [own for own in (self.single, self.several) if own.sizes]

    def _owner(self, number: int) -> tuple[DecidingStage[Any], int]:
        """The stage that a part belongs to, and the part's number there."""
        before = len(self.single.sizes)
        return (self.single, number) if number < before else (self.several, number - before)


def of_single(parts: FinishedParts) -> FinishedParts:
    """The parts of mono-token verbs alone, as a run without verbs of several tokens has them."""
    return replace(parts, rows=parts.rows.filter(pl.col(TOKENS).fill_null(1) == 1).drop(TOKENS))


def of_several(parts: FinishedParts) -> FinishedParts:
    """The parts of verbs of several tokens alone; their counts without the prefix."""
    counts = {name.removeprefix(PREFIX): value for name, value in parts.counts.items() if name.startswith(PREFIX)}
    return replace(parts, rows=parts.rows.filter(pl.col(TOKENS) > 1), counts=counts)
