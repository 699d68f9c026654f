"""The selection run: which verbs does the model repeat for each [NAME, PROF] pair?

Section 3.2 of the paper: of all candidates [NAME, PROF, verb], those are kept whose verb is the model's top-1 in the
selecting pattern, at most 20 verbs a pair. Which 20, a keyed hash of (seed, NAME, PROF, verb) decides, so the choice
depends on neither batches nor shards nor interruptions. A part of the run is a range of pairs: what is kept of a pair
is decided within one part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .errors import InputError
from .exported import ExportedModel
from .grid import Coreference, Grid, all_pairs, sample_pairs, subjects, verb_order
from .lexicon import Lexicon
from .model import Decider
from .patterns import PatternSet
from .tokens import Composer, MaskTokenizer, Slice, VerbConvention, composer, mask_fillers

NEAR_TIE = 1e-4  # logits; a decision this close can differ between two ways to compute the same model in fp32
_CANDIDATES_PER_PART = 32_768  # minutes of work on a laptop, tenths of a second on a large GPU


@dataclass(frozen=True)
class Settings:
    """What, beside model, lexicon and patterns, decides which triplets are selected."""

    seed: int = 0
    pairs: int | None = None
    max_verbs: int = 20
    coreference: Coreference = Coreference.PRONOUN
    verbs: VerbConvention = VerbConvention.IN_CONTEXT


@dataclass(frozen=True, eq=False)
class Selection:
    """A selection ready to run: what is tested, and how sentences are made.

    Attributes:
        verb: int64 [n_verbs], the usable verbs' indices in the lexicon.
        token: int32 [n_verbs], their token ids at the mask.
        subject: int64 [n_names, n_professions], what fills {PRON}: indices in `subject_words`.
    """

    exported: ExportedModel
    lexicon: Lexicon
    patterns: PatternSet
    settings: Settings
    grid: Grid
    verb: NDArray[np.int64]
    token: NDArray[np.int32]
    subject_words: tuple[str, ...]
    subject: NDArray[np.int64]
    composer: Composer

    @property
    def pairs_per_part(self) -> int:
        """How many pairs make a part."""
        return max(1, _CANDIDATES_PER_PART // len(self.verb))

    @property
    def parts(self) -> tuple[range, ...]:
        """All parts of the run: ranges of positions in the grid's pairs."""
        return self.grid.parts(self.pairs_per_part)

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to give the same triplets."""
        return {
            "model": self.exported.name,
            "model sha256": self.exported.sha256,
            "lexicon sha256": self.lexicon.sha256,
            "patterns sha256": self.patterns.sha256,
            "seed": self.settings.seed,
            "coreference": str(self.settings.coreference),
            "verbs": str(self.settings.verbs),
            "max verbs": self.settings.max_verbs,
            "pairs": self.settings.pairs,
            "pairs per part": self.pairs_per_part,
        }


def plan(
    exported: ExportedModel, lexicon: Lexicon, patterns: PatternSet, settings: Settings | None = None
) -> Selection:
    """Lay out a selection run; the model itself is not needed yet.

    Raises:
        InputError: no verb is one token, a sentence is too long for the model, or there are too few pairs.
    """
    settings = settings or Settings()
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    subject_words, subject = subjects(lexicon, settings.coreference, settings.seed)
    words = {"NAME": lexicon.names, "PROF": lexicon.professions, "ACT": lexicon.verbs, "PRON": subject_words}
    pattern = patterns.selecting
    fillers = {slot: words[slot] for slot in pattern.slots}
    base = {slot: fillers[slot][0] for slot in pattern.slots}
    verb, token = mask_fillers(tokenizer, pattern, lexicon.verbs, base, settings.verbs)
    pairs = all_pairs(lexicon) if settings.pairs is None else sample_pairs(lexicon, settings.pairs, settings.seed)
    selection = Selection(
        exported=exported,
        lexicon=lexicon,
        patterns=patterns,
        settings=settings,
        grid=Grid(len(lexicon.names), len(lexicon.professions), len(verb), pairs),
        verb=verb,
        token=token,
        subject_words=subject_words,
        subject=subject,
        composer=composer(tokenizer, pattern, fillers, settings.seed),
    )
    longest = max(int(selection.composer.lengths(_extremes(selection, words)).max()), 0)
    if longest > exported.max_length:
        raise InputError(
            f"{pattern.name}: a sentence has {longest} tokens, {exported.name} takes {exported.max_length}: shorten it"
        )
    return selection


def _extremes(selection: Selection, words: Mapping[str, tuple[str, ...]]) -> dict[str, NDArray[np.int64]]:
    """Fillers that between them have the most tokens of each slot: every filler once, the shorter lists repeated."""
    most = max(len(words[slot]) for slot in selection.patterns.selecting.slots)
    return {slot: np.arange(most) % len(words[slot]) for slot in selection.patterns.selecting.slots}


@dataclass(frozen=True, eq=False)
class PartSentences:
    """The sentences of a part, by length, and the token expected in each."""

    slices: list[Slice]
    expected: NDArray[np.int32]


def compose_part(selection: Selection, part: range) -> PartSentences:
    """All candidates of a range of pairs as token ids."""
    name, profession, verb = selection.grid.part_indices(part)
    fillers = {
        "NAME": name,
        "PROF": profession,
        "ACT": selection.verb[verb],
        "PRON": selection.subject[name, profession],
    }
    wanted = {slot: fillers[slot] for slot in selection.patterns.selecting.slots}
    return PartSentences(list(selection.composer.compose(wanted)), selection.token[verb])


@dataclass(frozen=True, eq=False)
class PartRepeats:
    """What the model decided about a part: bool [pairs, verbs] repeated, and the number of near-ties."""

    repeated: NDArray[np.bool_]
    near_ties: int


def decide_part(decider: Decider, sentences: PartSentences, verbs: int) -> PartRepeats:
    """Run a part's sentences."""
    repeated = np.empty(len(sentences.expected), np.bool_)
    near_ties = 0
    for piece in sentences.slices:
        expected = sentences.expected[piece.rows]
        decisions = decider.decide(piece.ids, piece.mask_position, expected)
        repeated[piece.rows] = decisions.repeated(expected)
        near_ties += int(np.count_nonzero(np.abs(decisions.margin(expected)) < NEAR_TIE))
    return PartRepeats(repeated.reshape(-1, verbs), near_ties)


def keep_verbs(selection: Selection, part: range, repeated: NDArray[np.bool_]) -> pl.DataFrame:
    """The triplets kept of a part: of each pair, the repeating verbs with the smallest keys.

    Args:
        selection: the run.
        part: range of positions in the grid's pairs.
        repeated: bool [pairs, verbs].

    Returns:
        One row a triplet with name, gender, pronoun (what fills {PRON}), profession, verb; ordered by pair, then key.
    """
    name, profession = np.divmod(selection.grid.pairs[part.start : part.stop], selection.grid.professions)
    keys = verb_order(selection.lexicon, selection.settings.seed, name, profession, selection.verb)
    order = np.argsort(keys, axis=1, kind="stable")
    in_order = np.take_along_axis(repeated, order, axis=1)
    kept = in_order & (in_order.cumsum(axis=1) <= selection.settings.max_verbs)
    pair, position = np.nonzero(kept)
    lexicon = selection.lexicon
    chosen, who, what = selection.verb[order[pair, position]], name[pair], profession[pair]
    return pl.DataFrame(
        {
            "name": pl.Series(lexicon.names, dtype=pl.String).gather(who),
            "gender": pl.Series(lexicon.genders, dtype=pl.String).gather(who),
            "pronoun": pl.Series(selection.subject_words, dtype=pl.String).gather(selection.subject[who, what]),
            "profession": pl.Series(lexicon.professions, dtype=pl.String).gather(what),
            "verb": pl.Series(lexicon.verbs, dtype=pl.String).gather(chosen),
        }
    )


def summary(selection: Selection, counts: Mapping[str, int], selected: int) -> dict[str, Any]:
    """Rows 1 to 6 of the paper's Table 5, and what else a reader of the run needs."""
    tested, repeating = counts["tested"], counts["repeating"]
    return {
        "model": selection.exported.name,
        "pattern": selection.patterns.selecting.name,
        "coreference": str(selection.settings.coreference),
        "verbs": len(selection.verb),
        "pairs": len(selection.grid.pairs),
        "tested": tested,
        "repeating": repeating,
        "ratio": 100 * repeating / tested,
        "selected": selected,
        "near_ties": counts["near_ties"],
    }
