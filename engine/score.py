"""The scoring run: how often is the verb still repeated, pattern by pattern?

Every selected triplet fills every pattern of the set, the selecting one included: its repetition rate, 100 % by
construction, checks the run. A part is a range of triplets; its rows come pattern after pattern.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .errors import InputError
from .exported import ExportedModel
from .model import Decider
from .patterns import Pattern, PatternSet
from .tokens import Composer, MaskTokenizer, Slice, VerbConvention, composer, mask_fillers

_TRIPLETS_PER_PART = 8_192
_COLUMNS = {"NAME": "name", "PROF": "profession", "ACT": "verb", "PRON": "pronoun"}


@dataclass(frozen=True, eq=False)
class ScoredPattern:
    """One pattern over all triplets.

    Attributes:
        fillers: slot → int64 [n_triplets], indices in the slot's distinct words.
        expected: int32 [n_triplets], the verb's token at this pattern's mask.
    """

    pattern: Pattern
    composer: Composer
    fillers: dict[str, NDArray[np.int64]]
    expected: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Scoring:
    """A scoring run ready to run."""

    exported: ExportedModel
    tokenizer: MaskTokenizer
    triplets: pl.DataFrame
    patterns: tuple[ScoredPattern, ...]

    @property
    def parts(self) -> tuple[range, ...]:
        """All parts of the run: ranges of triplets."""
        n = len(self.triplets)
        return tuple(range(i, min(i + _TRIPLETS_PER_PART, n)) for i in range(0, n, _TRIPLETS_PER_PART))


def identity(exported: ExportedModel, patterns: PatternSet, triplets_sha256: str) -> dict[str, Any]:
    """What must be the same for two runs to give the same scores."""
    return {
        "model": exported.name,
        "model sha256": exported.sha256,
        "patterns sha256": patterns.sha256,
        "triplets sha256": triplets_sha256,
        "triplets per part": _TRIPLETS_PER_PART,
    }


def plan(
    exported: ExportedModel, patterns: PatternSet, triplets: pl.DataFrame, *, seed: int, verbs: VerbConvention
) -> Scoring:
    """Lay out a scoring run.

    Args:
        exported: the model that selected the triplets.
        patterns: the set they were selected with.
        triplets: columns triplet, name, gender, pronoun, profession, verb.
        seed: of the sentences that the composers are proved on.
        verbs: the convention of the selection.

    Raises:
        InputError: a sentence is too long, or a verb is more than one token at the mask of a scored pattern.
    """
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    words = {slot: triplets[column].unique(maintain_order=True) for slot, column in _COLUMNS.items()}
    rows = {
        slot: triplets[column]
        .replace_strict(words[slot], np.arange(len(words[slot])), return_dtype=pl.Int64)
        .to_numpy()
        for slot, column in _COLUMNS.items()
    }
    scored = []
    for pattern in patterns.all:
        lists = {slot: words[slot].to_list() for slot in pattern.slots}
        base = {slot: lists[slot][0] for slot in pattern.slots}
        verb, token = mask_fillers(tokenizer, pattern, words["ACT"].to_list(), base, verbs)
        if len(verb) < len(words["ACT"]):
            lost = words["ACT"][int(np.setdiff1d(np.arange(len(words["ACT"])), verb)[0])]
            raise InputError(f"{pattern.name}: the verb {lost!r} is more than one token at its mask")
        fillers = {slot: rows[slot] for slot in pattern.slots}
        composed = composer(tokenizer, pattern, lists, seed)
        longest = int(composed.lengths(fillers).max(initial=0))
        if longest > exported.max_length:
            raise InputError(
                f"{pattern.name}: {longest} tokens, {exported.name} takes {exported.max_length}: shorten it"
            )
        scored.append(ScoredPattern(pattern, composed, fillers, token[rows["ACT"]]))
    return Scoring(exported, tokenizer, triplets, tuple(scored))


def compose_part(scoring: Scoring, part: range) -> list[list[Slice]]:
    """For each pattern, the sentences of a range of triplets, by length."""
    span = slice(part.start, part.stop)
    return [
        list(pattern.composer.compose({slot: rows[span] for slot, rows in pattern.fillers.items()}))
        for pattern in scoring.patterns
    ]


def decide_part(decider: Decider, scoring: Scoring, part: range, sentences: list[list[Slice]]) -> pl.DataFrame:
    """Score a range of triplets in all patterns.

    Returns:
        One row a triplet and pattern: triplet, pattern, top1 (text), repeated, expected_rank, expected_logprob,
        top1_logprob (natural logarithms).
    """
    frames = []
    for pattern, slices in zip(scoring.patterns, sentences, strict=True):
        expected = pattern.expected[part.start : part.stop]
        columns: dict[str, NDArray[Any]] = {
            "top1": np.empty(len(part), np.int32),
            "repeated": np.empty(len(part), np.bool_),
            "expected_rank": np.empty(len(part), np.int32),
            "expected_logprob": np.empty(len(part), np.float32),
            "top1_logprob": np.empty(len(part), np.float32),
        }
        for piece in slices:
            decisions = decider.decide(piece.ids, piece.mask_position, expected[piece.rows])
            columns["top1"][piece.rows] = decisions.top1
            columns["repeated"][piece.rows] = decisions.repeated(expected[piece.rows])
            columns["expected_rank"][piece.rows] = decisions.expected_rank
            columns["expected_logprob"][piece.rows] = decisions.expected_logprob
            columns["top1_logprob"][piece.rows] = decisions.top1_logprob
        ids, where = np.unique(columns.pop("top1"), return_inverse=True)
        texts = pl.Series([scoring.tokenizer.token_text(int(i)) for i in ids], dtype=pl.String)
        frames.append(
            pl.DataFrame(
                {
                    "triplet": scoring.triplets["triplet"][part.start : part.stop],
                    "pattern": pl.Series([pattern.pattern.name], dtype=pl.String).new_from_index(0, len(part)),
                    "top1": texts.gather(where),
                    **columns,
                }
            )
        )
    return pl.concat(frames)
