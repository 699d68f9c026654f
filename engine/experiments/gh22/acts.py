"""The first stage: which ACTs the model itself would put into the contexts, for each [NAME, PROF] pair.

Section 2.2 of the Self-Contained Negation Test Set: for "NAME is PROF and PRON likes to [MASK]", the tokens at ranks 1,
50, 100 and 200, verbs or not; special tokens and the unknown one have no rank; of equal logits the smaller id is first.
A token that is not a text of its own (a byte, a space) keeps its rank, but cannot be written into a context.
It is small, so every shard does all of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.choices import Coreference
from ...basics.errors import InputError, check_number
from ...inference.exported import ExportedModel, refuse_too_long
from ...inference.free_text import reduce_logits
from ...inference.judge import logprobs_of, top_tokens
from ...inference.model import LanguageModel
from ...requests.items import model_identity
from ...runs.masked_stages import ReferenceStage
from ...runs.stage import Advance, Files, FinishedParts, PartResult, part_ranges
from ...text.composition import Composer, composer
from ...text.lexicon import Lexicon
from ...text.pattern import NAME, PROFESSION, PRONOUN, Pattern, column
from ...text.token_ids import Bucket
from ..negation.grid import PairFillers, pair_fillers, sample_pairs

ACTS_FILE = "acts.parquet"
IS_TEXT = "act_is_text"
_MOST_RANKS = 100
RANKS = (1, 50, 100, 200)
COORDINATED = 2  # ACT1 and ACT2 are the tokens at the next two ranks
PAIRS_PER_PART = 1024


@dataclass(frozen=True, eq=False)
class Acts(ReferenceStage[list[Bucket]]):
    """The choice of the ACTs."""

    name: ClassVar[str] = "acts"
    beside: ClassVar[tuple[str, ...]] = ("gh22",)
    rows_file: ClassVar[str | None] = ACTS_FILE

    exported: ExportedModel
    lexicon: Lexicon  # an ACT is one of its verbs or not
    pattern: Pattern  # the sentence whose mask is predicted
    ranks: tuple[int, ...]  # ascending; 1 is the most probable token
    fillers: Mapping[str, PairFillers]
    pairs: NDArray[np.int64]  # [n], ids of [NAME, PROF] pairs, ascending
    unranked: NDArray[np.int64]  # from `MaskTokenizer.unranked_ids`
    seed: int  # of the sample of pairs
    pairs_per_part: int

    @classmethod
    def plan(
        cls,
        exported: ExportedModel,
        lexicon: Lexicon,
        pattern: Pattern,
        *,
        ranks: Sequence[int] = RANKS,
        pairs: int | None = None,
        seed: int = 0,
        pairs_per_part: int = PAIRS_PER_PART,
    ) -> "Acts":
        """Plan the choice of the ACTs for a sample of `pairs`, or all; `InputError`: a rank or slot does not exist."""
        fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed)
        if other := next((slot for slot in pattern.slots if slot not in fillers), None):
            raise InputError(
                f"the sentence that chooses the ACTs has the slot {other!r}; it may have {', '.join(fillers)}"
            )
        unranked = exported.tokenizer.unranked_ids(exported.vocab_size)
        check_ranks(ranks, exported.vocab_size - len(unranked) - COORDINATED)
        ascending, sample = tuple(sorted(set(ranks))), sample_pairs(lexicon, pairs, seed)
        return cls(exported, lexicon, pattern, ascending, fillers, sample, unranked, seed, pairs_per_part)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **model_identity(self.exported),
            "lexicon sha256": self.lexicon.sha256,
            "sentence": self.pattern.sentence,
            "ranks": list(self.ranks),
            "pairs": len(self.pairs),
            "seed": self.seed,
            "pairs per part": self.pairs_per_part,
        }

    @property
    def parts(self) -> tuple[range, ...]:
        return part_ranges(len(self.pairs), self.pairs_per_part)

    @property
    def sizes(self) -> Sequence[int]:
        return [len(part) for part in self.parts]

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:  # noqa: ARG003
        return rows["pair"].n_unique()

    @cached_property
    def composer(self) -> Composer:
        words = {slot: filler.words for slot, filler in self.fillers.items()}
        every = self._indices(range(len(self.pairs)))
        return composer(self.exported.tokenizer, self.pattern, words, self.seed, sentences=every)

    def check(self, say: Callable[[str], None]) -> None:  # noqa: ARG002
        longest = self.composer.longest(self._indices(range(len(self.pairs))))
        refuse_too_long(self.exported, longest, self.pattern.name)

    def prepare(self, number: int) -> list[Bucket]:
        return list(self.composer.compose(self._indices(self.parts[number])))

    def decide(self, model: LanguageModel, number: int, prepared: list[Bucket] | None, advance: Advance) -> PartResult:
        """One row for each pair and rank; act_logprob is a natural logarithm."""
        part, depth = self.parts[number], self.ranks[-1] + COORDINATED
        ids, logprobs = np.empty((len(part), depth), np.int64), np.empty((len(part), depth), np.float64)

        def put(rows: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
            ids[rows] = best = top_tokens(logits, depth, self.unranked)
            logprobs[rows] = logprobs_of(logits, best)
            advance(len(rows), len(rows))

        reduce_logits(model, prepared or self.prepare(number), put)
        name, profession = self._pairs(part)
        fillers = {column(slot): self.fillers[slot] for slot in (NAME, PRONOUN, PROFESSION)}
        words = {key: [own.words[i] for i in own.index[name, profession]] for key, own in fillers.items()}
        genders = [self.lexicon.genders[i] for i in name]
        verbs = self.lexicon.mask_forms
        frames = []
        for rank in self.ranks:
            tokens = {f"act{more or ''}": ids[:, rank - 1 + more] for more in range(1 + COORDINATED)}
            texts = {act: [self.exported.tokenizer.token_text(int(i)) for i in own] for act, own in tokens.items()}
            columns = {
                "pair": self.pairs[part.start : part.stop],
                "name": words["name"],
                "gender": genders,
                "pronoun": words["pronoun"],
                "profession": words["profession"],
                "rank": np.full(len(part), rank, np.int32),
                **texts,
                **{f"{act}_id": own.astype(np.int32) for act, own in tokens.items()},
                "act_logprob": logprobs[:, rank - 1],
                "act_is_verb": [text in verbs for text in texts["act"]],
                IS_TEXT: [self.exported.tokenizer.is_text(int(i)) for i in tokens["act"]],
            }
            frames.append(pl.DataFrame(columns))
        return PartResult(pl.concat(frames).sort("pair", "rank"))

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        return {ACTS_FILE: parts.rows}

    def _pairs(self, part: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.divmod(self.pairs[part.start : part.stop], len(self.lexicon.professions))

    def _indices(self, part: range) -> dict[str, NDArray[np.int64]]:
        name, profession = self._pairs(part)
        return {slot: self.fillers[slot].index[name, profession] for slot in (NAME, *self.pattern.slots)}


def check_ranks(ranks: Sequence[int], most: int | None = None) -> None:
    """Refuse ranks that do not exist with an `InputError`; `most` is the last one, None before it is known."""
    if len(ranks) > _MOST_RANKS:
        raise InputError(f"--ranks: {len(ranks):,} ranks; give at most {_MOST_RANKS}")
    if not ranks:
        raise InputError("--ranks: give at least one, such as 1,50,100,200")
    for rank in ranks:
        check_number("--ranks", rank, 1, 10**6 if most is None else most)
