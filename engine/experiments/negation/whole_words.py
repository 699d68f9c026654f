"""`select --verbs whole-words`: the mono-token verbs, and apart from them the verbs of several tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ...choices import VerbConvention
from ...inference.exported import ExportedModel
from ...runs.stage import Files, FinishedParts, Result
from ...text.lexicon import Lexicon
from ...text.patterns import PatternSet
from .answers import rejoined
from .both_kinds import BothKinds, of_several, of_single
from .select import (
    CANDIDATES_PER_PART,
    PAIRS_PER_LAZY_PART,
    SELECTION_FILE,
    SEVERAL_TOKENS,
    TRIPLETS_FILE,
    PartRepeats,
    Selection,
    Settings,
)
from .several import REPEATING, SEVERAL, TESTED, SeveralSelection, by_tokens

SEVERAL_TRIPLETS_FILE = "triplets_several_tokens.parquet"
BY_TOKENS = "by_tokens"
"""The key of selection.json with one row for each number of tokens of a verb, from 1 on."""

_OF_THE_RUN = {"model", "pattern", "coreference", "pairs", "precision"}


@dataclass(frozen=True, eq=False)
class _SingleSelection(Selection):
    """The selection among mono-token verbs, which counts as that of verbs of several tokens does."""

    def counts(self, found: PartRepeats) -> dict[str, float]:
        """See `Selection`."""
        return super().counts(found) | by_tokens(found, np.ones(len(self.verb), np.int64))


@dataclass(frozen=True, eq=False)
class WholeWordSelection(BothKinds):
    """A selection among mono-token verbs, and apart from it among verbs of several tokens."""

    name: ClassVar[str] = Selection.name
    rows_file: ClassVar[str | None] = TRIPLETS_FILE
    further_rows_files: ClassVar[tuple[str, ...]] = (*Selection.further_rows_files, SEVERAL_TRIPLETS_FILE)

    single: Selection
    several: SeveralSelection

    @classmethod
    def plan(
        cls,
        exported: ExportedModel,
        lexicon: Lexicon,
        patterns: PatternSet,
        settings: Settings,
        *,
        candidates_per_part: int = CANDIDATES_PER_PART,
        pairs_per_lazy_part: int = PAIRS_PER_LAZY_PART,
    ) -> "WholeWordSelection":
        """Plan both selections; see `Selection.plan`.

        Args:
            exported: The model.
            lexicon: The words.
            patterns: The pattern set.
            settings: What else decides the triplets.
            candidates_per_part: Size of a part of an exhaustive run, in candidates.
            pairs_per_lazy_part: Size of a part of a lazy run, in pairs.

        Raises:
            InputError: As for `Selection.plan`, or no verb is of several tokens.
        """
        single = _SingleSelection.plan(
            exported,
            lexicon,
            patterns,
            replace(settings, verbs=VerbConvention.IN_CONTEXT),
            candidates_per_part=candidates_per_part,
            pairs_per_lazy_part=pairs_per_lazy_part,
        )
        return cls(exported, single, SeveralSelection.beside(single, candidates_per_part=candidates_per_part))

    @property
    def identity(self) -> dict[str, Any]:
        """What the triplets depend on."""
        return {
            **self.single.identity,
            "verbs": str(VerbConvention.WHOLE_WORDS),
            f"pairs per part, {SEVERAL}": self.several.pairs_per_part,
        }

    @classmethod
    def rows_of(cls, files: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """See `Stage`."""
        return rejoined(files, TRIPLETS_FILE)

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """The files of `Selection.publish`, with the triplets and the figures of the verbs of several tokens beside.

        The files of a run without verbs of several tokens are those of `Selection.publish`.
        """
        if SEVERAL not in parts.metadata:
            return Selection.publish(parts)
        verbs: Mapping[str, int] = parts.metadata[SEVERAL]
        own = of_several(parts)
        single, single_summary = _published(of_single(parts))
        several, figures = _published(replace(own, metadata={**own.metadata, "verbs": sum(verbs.values())}))
        found = {name: value for name, value in figures.items() if name not in _OF_THE_RUN}
        numbers = {1: parts.metadata["verbs"], **{int(number): n for number, n in verbs.items()}}
        summary = {
            **single_summary,
            SEVERAL_TOKENS: {**found, "queries": own.counts["queries"]},
            BY_TOKENS: [_row(number, n, own.counts) for number, n in numbers.items()],
        }
        return {**single, SEVERAL_TRIPLETS_FILE: several[TRIPLETS_FILE], SELECTION_FILE: summary}


def plan_selection(
    exported: ExportedModel, lexicon: Lexicon, patterns: PatternSet, settings: Settings
) -> Selection | WholeWordSelection:
    """Plan the selection that the settings ask for.

    Raises:
        InputError: As for `Selection.plan` and `WholeWordSelection.plan`.
    """
    kind = WholeWordSelection if settings.verbs is VerbConvention.WHOLE_WORDS else Selection
    return kind.plan(exported, lexicon, patterns, settings)


def _published(parts: FinishedParts) -> tuple[dict[str, Result], dict[str, Any]]:
    """The files with rows, and the figures, of one kind of verbs."""
    files = dict(Selection.publish(parts))
    summary = files.pop(SELECTION_FILE)
    if not isinstance(summary, Mapping):
        raise TypeError(f"{SELECTION_FILE} is a document")
    return files, dict(summary)


def _row(number: int, verbs: int, counts: Mapping[str, float]) -> dict[str, float]:
    """The figures of the verbs of one number of tokens."""
    tested, repeating = counts[TESTED.format(number)], counts[REPEATING.format(number)]
    return {
        "tokens": number,
        "verbs": verbs,
        "tested": tested,
        "repeating": repeating,
        "ratio": 100 * repeating / tested if tested else 0.0,
    }
