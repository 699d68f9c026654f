"""The scoring: how often is the verb still repeated, pattern by pattern?

Every selected triplet fills every pattern of the set, the selecting one included. For that one, the selection has kept
the model's answers: they are taken, once some of them are decided again and found to be the same (see `answers`). Where
they were not kept, or this machine finds other numbers, the model decides again: the repetition rate, 100 % by
construction, then checks the run. A part is a range of triplets; its rows come pattern after pattern.

Each token of a verb is a query, filled from left to right (see `select`). Unlike the selection, the scoring needs all
of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.choices import Precision, TargetMethod, VerbConvention
from ...basics.errors import InputError
from ...basics.paths import with_home
from ...basics.printable import counted
from ...inference.exported import ExportedModel, load_exported, refuse_too_long
from ...inference.mixed import take_audits
from ...inference.precision import SHORT_RUN, Workload
from ...inference.words import WordScores, sampled_queries, score_words
from ...library.again import NEAR_TIE
from ...runs.masked_stages import TAKEN_FROM, DecidingStage, PatternDeciders
from ...runs.record import Recorded, StageRecord
from ...runs.results import finished_stage, read_document, read_frame
from ...runs.stage import Advance, Files, FinishedParts, PartResult, part_ranges
from ...statistics import LIBRARIES
from ...text.composition import Composer, composer
from ...text.lexicon import FORMS_SEPARATOR
from ...text.pattern import AT_MASK, VERB, Pattern, PatternSet, column
from ...text.token_ids import Bucket, EncodedSentences, TokenSequences
from ...text.verbs import mask_fillers, mask_words
from .answers import ANSWERS_FILE, SAMPLE, answer_columns, disagreement, is_exact, kept_answers
from .rates import rates
from .select import (
    SELECTION_FILE,
    SEVERAL,
    SEVERAL_TOKENS,
    SEVERAL_TRIPLETS_FILE,
    TOKENS,
    TRIPLETS_FILE,
    Selection,
    composed,
    decided_as,
)

SCORES_FILE, RATES_FILE = "scores.parquet", "rates.parquet"
SEVERAL_SCORES_FILE, TOKEN_RATES_FILE = "scores_several_tokens.parquet", "rates_by_tokens.parquet"
ALL_SEVERAL = "several"
"""In rates_by_tokens.parquet, the number of tokens of all verbs of several tokens together."""
TRIPLETS_PER_PART = 8_192
ANSWERS_SHA256 = "answers_sha256"
"""The key of a recorded choice with the digest of the answers that are taken."""
SAME_TEXT = "{}: other token with the verb's text"
"""Name of the count, by pattern, of top-1 tokens that read like the verb: "smoke" where "Ġsmoke" is expected."""


@dataclass(frozen=True, eq=False)
class Selected:
    """A finished selection, read from its run folder."""

    folder: Path
    metadata: dict[str, Any]
    summary: dict[str, Any]  # selection.json
    coded: pl.DataFrame  # triplets.parquet, with words as categories: a quarter of the memory
    several: pl.DataFrame | None  # the same of triplets_several_tokens.parquet; None where the run has no such verbs
    record: StageRecord

    def __len__(self) -> int:
        return len(self.coded)

    @property
    def triplets(self) -> pl.DataFrame:
        """Columns triplet, name, gender, pronoun, profession, verb."""
        return self.coded.cast({pl.Categorical: pl.String})

    @property
    def patterns(self) -> PatternSet:
        return PatternSet.from_json(self.metadata["pattern set"])

    def exported(self, moved_to: str | None = None) -> ExportedModel:
        """The model that selected the triplets; it lies in `moved_to` now, if it was moved.

        Raises:
            InputError: The folder does not contain the model, or contains another one.
        """
        location = moved_to or with_home(self.metadata["model folder"])
        try:
            found = load_exported(location)
        except InputError as error:
            hint = "" if moved_to else "; if it has moved, give --model"
            raise InputError(f"the model that selected {self.folder}: {error}{hint}") from None
        self.refuse_other_model(found)
        return found

    def refuse_other_model(self, exported: ExportedModel) -> None:
        """Raise an InputError for a model that did not select the triplets."""
        if exported.sha256 != self.metadata["model sha256"]:
            raise InputError(
                f"{exported.folder} is not the model that selected {self.folder} (sha256 {exported.sha256[:12]}…, "
                f"then {self.metadata['model sha256'][:12]}…): give --model, or select again"
            )


def read_selected(folder: Path) -> Selected:
    """Read a finished selection.

    Raises:
        InputError: The folder is not a run, its selection is not finished or damaged, or nothing was selected.
    """
    stage = finished_stage(folder, Selection.name)

    def coded(name: str) -> pl.DataFrame:
        return read_frame(folder, stage, name).with_columns(pl.col(pl.String).cast(pl.Categorical))

    triplets, summary = coded(TRIPLETS_FILE), read_document(folder, stage, SELECTION_FILE)
    several = coded(SEVERAL_TRIPLETS_FILE) if SEVERAL_TRIPLETS_FILE in stage.files else None
    if triplets.is_empty() and not summary.get(SEVERAL_TOKENS, {}).get("selected"):
        raise InputError(
            f"{folder} has no selected triplets: this model does not repeat any verb, so there is nothing to score"
        )
    for key in ("model folder", "model sha256"):
        if not isinstance(stage.metadata[key], str):
            raise InputError(f"{folder}: run.json says {stage.metadata[key]!r} for {key}; run its command again")
    return Selected(folder, stage.metadata, Recorded(summary), triplets, several, stage)


def distinct(words: pl.Series) -> tuple[pl.Series, NDArray[np.int32]]:
    """The distinct words [m] of a column of categories, by their first rows; and each row's index among them [n]."""
    own = words.unique(maintain_order=True)
    place = np.zeros(int(own.to_physical().max() or 0) + 1, np.int32)  # type: ignore[arg-type]
    place[own.to_physical().to_numpy()] = np.arange(len(own))
    return own.cast(pl.String), place[words.to_physical().to_numpy()]


@dataclass(frozen=True, eq=False)
class Triplets:
    """The triplets whose verbs are reported together."""

    apart: str  # as in `select.Verbs`
    coded: pl.DataFrame  # the content of their file, with words as categories
    kept: pl.DataFrame | None = None  # the selection's answers in the selecting pattern, one row for each triplet

    @property
    def tokens(self) -> pl.Series:
        """The number of tokens of each verb in the selecting pattern, int32 [n]."""
        if self.apart:
            return self.coded[TOKENS].cast(pl.Int32)
        return pl.Series(TOKENS, [1], dtype=pl.Int32).new_from_index(0, len(self.coded))

    def forms(self, verbs: pl.Series) -> list[list[str]]:
        """The forms of each verb that count as a repetition at the mask, the main form first."""
        if AT_MASK not in self.coded.columns:
            return [[verb] for verb in verbs]
        forms = dict(self.coded.select(column(VERB), AT_MASK).unique().iter_rows())
        return [forms[verb].split(FORMS_SEPARATOR) for verb in verbs]


@dataclass(frozen=True, eq=False)
class ScoredPattern:
    """One pattern over all triplets of one kind."""

    pattern: Pattern
    decided_as: str  # from the function of this name
    composer: Composer
    fillers: dict[str, NDArray[np.int32]]  # slot → [n_triplets], indices in the slot's distinct words
    words: TokenSequences  # of each distinct verb at this pattern's mask
    causal: bool  # the model reads only what stands before the mask

    def expected(self, rows: NDArray[np.int64] | slice) -> TokenSequences:
        return self.words.take(self.fillers[VERB][rows].astype(np.int64))

    def sample_rows(self, n: int, seed: int) -> NDArray[np.int64]:
        """Random triplets of the run, int64 [n], ascending; every verb has its share."""
        first = self.words.tokens[self.fillers[VERB], 0]
        total, random = len(first), np.random.default_rng(seed)
        n = min(n, total)
        shuffled = random.permutation(total)
        by_verb = shuffled[np.argsort(first[shuffled], kind="stable")]
        return np.sort(by_verb[((np.arange(n) + random.random()) * total / n).astype(np.int64)])

    def sample(self, n: int, *, seed: int) -> EncodedSentences:
        """Random queries of the run, for the calibration: each token of a verb is as likely."""
        rows = self.sample_rows(n, seed)
        words = self.expected(rows)
        token = np.random.default_rng([seed, 1]).integers(0, words.counts)
        return sampled_queries(self.compose(rows), words, token, causal=self.causal)

    def compose(self, rows: NDArray[np.int64] | slice) -> list[Bucket]:
        """The sentences of some triplets with one mask each, by length."""
        fillers = {slot: indices[rows].astype(np.int64) for slot, indices in self.fillers.items()}
        return list(self.composer.compose(fillers))


@dataclass(frozen=True, eq=False)
class Scoring(DecidingStage[list[list[Bucket] | None]]):
    """The scoring of a selection."""

    name: ClassVar[str] = "score"
    rows_file: ClassVar[str | None] = SCORES_FILE
    further_rows_files: ClassVar[tuple[str, ...]] = (SEVERAL_SCORES_FILE,)
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES

    selected: Selected
    exported: ExportedModel
    triplets: tuple[Triplets, ...]  # of verbs of one token; then, where the selection has them, of several
    triplets_per_part: int

    @classmethod
    def plan(cls, selected: Selected, exported: ExportedModel, *, triplets_per_part: int = TRIPLETS_PER_PART) -> Self:
        """Plan a scoring with the model that selected; the model itself is not needed yet.

        Raises:
            InputError: The selection's answers are damaged.
        """
        kept = kept_answers(selected.folder, selected.record, len(selected))
        several = [] if selected.several is None else [Triplets(SEVERAL, selected.several)]
        return cls(selected, exported, (Triplets("", selected.coded, kept), *several), triplets_per_part)

    @property
    def seed(self) -> int:
        return int(self.selected.metadata["seed"])

    @property
    def parts(self) -> list[tuple[Triplets, range]]:
        """Each part's kind of triplets, and its range of them."""
        size = self.triplets_per_part
        return [(own, part) for own in self.triplets for part in part_ranges(len(own.coded), size)]

    @property
    def sizes(self) -> Sequence[int]:
        patterns = len(self.selected.patterns.all)
        # Queries: as many as the verbs have tokens in the selecting pattern.
        return [int(own.tokens[part.start : part.stop].sum()) * patterns for own, part in self.parts]

    @property
    def metadata(self) -> dict[str, Any]:
        numbers = {own.apart: sorted(own.tokens.unique().to_list()) for own in self.triplets if own.apart}
        return {"patterns": [pattern.name for pattern in self.selected.patterns.all], "seed": self.seed, **numbers}

    @property
    def identity(self) -> dict[str, Any]:
        files = {"": TRIPLETS_FILE, SEVERAL: SEVERAL_TRIPLETS_FILE}
        return {
            "model": self.exported.name,
            "model sha256": self.exported.sha256,
            "patterns sha256": self.selected.patterns.sha256,
            **{
                decided_as("triplets sha256", own.apart): self.selected.record.files[files[own.apart]]
                for own in self.triplets
            },
            "triplets per part": self.triplets_per_part,
        }

    @cached_property
    def patterns(self) -> dict[str, tuple[ScoredPattern, ...]]:
        """`Triplets.apart` → all patterns over these triplets, the selecting one first.

        Raises:
            InputError: A sentence is too long, or a verb cannot be predicted at the mask of a scored pattern as at that
                of the selecting one.
        """
        return {own.apart: tuple(self._patterns(own)) for own in self.triplets if len(own.coded)}

    def _patterns(self, triplets: Triplets) -> list[ScoredPattern]:
        slots = dict.fromkeys((VERB, *self.selected.patterns.slots))
        coded = {slot: distinct(triplets.coded[column(slot)]) for slot in slots}
        words = {slot: own for slot, (own, _) in coded.items()}
        rows = {slot: indices for slot, (_, indices) in coded.items()}
        forms, scored = triplets.forms(words[VERB]), []
        for pattern in self.selected.patterns.all:
            lists = {slot: words[slot].to_list() for slot in pattern.slots}
            fillers = {slot: rows[slot] for slot in (VERB, *pattern.slots)}
            made = composer(self.exported.tokenizer, pattern, lists, self.seed, sentences=fillers)
            base = {slot: own[0] for slot, own in lists.items()}
            verbs = self._several(pattern, forms, base) if triplets.apart else self._single(pattern, forms, base)
            refuse_too_long(self.exported, made.longest() + verbs.widest - 1, pattern.name)
            name = decided_as(pattern.name, triplets.apart)
            scored.append(ScoredPattern(pattern, name, made, fillers, verbs, self.exported.is_causal))
        return scored

    def _single(self, pattern: Pattern, forms: Sequence[Sequence[str]], base: Mapping[str, str]) -> TokenSequences:
        convention = VerbConvention(self.selected.metadata["verb convention"])
        main, further = zip(*((own[0], own[1:]) for own in forms), strict=True)
        index, token = mask_fillers(self.exported.tokenizer, pattern, main, base, convention, further)
        if len(index) < len(main):
            lost = main[int(np.setdiff1d(np.arange(len(main)), index)[0])]
            raise InputError(f"{pattern.name}: the verb {lost!r} is more than one token at its mask")
        return TokenSequences.single(token)

    def _several(self, pattern: Pattern, forms: Sequence[Sequence[str]], base: Mapping[str, str]) -> TokenSequences:
        found = mask_words(self.exported.tokenizer, pattern, [own[0] for own in forms], base)
        for own in found:
            if isinstance(own, str):
                raise InputError(f"{pattern.name}: {own}")
        return TokenSequences.of([own for own in found if isinstance(own, tuple)])

    def check(self, say: Callable[[str], None]) -> None:
        for own in self.triplets:
            if patterns := self.patterns.get(own.apart):
                parts = counted(len(part_ranges(len(own.coded), self.triplets_per_part)), "part")
                say(f"{counted(len(own.coded), 'triplet')}, {counted(len(patterns), 'pattern')}, {parts}")
                for pattern in patterns:
                    say(composed(pattern.decided_as, pattern.composer))

    def workloads(self) -> list[Workload]:
        return [
            Workload(pattern.decided_as, partial(pattern.sample, seed=self.seed), len(pattern.fillers[VERB]))
            for patterns in self.patterns.values()
            for pattern in patterns
        ]

    def known(self, model: PatternDeciders, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
        """The selecting pattern, if the selection's answers are those of this machine.

        Numbers of a low-precision model are taken only where the scoring could have mixed precision, too.
        """
        kept = self.triplets[0].kept
        if kept is None or kept.is_empty():
            return {}
        is_short = model.precision is Precision.AUTO and len(kept) < SHORT_RUN
        if not is_exact(kept) and (model.precision is Precision.FP32 or is_short):
            return {}
        pattern = self.patterns[""][0]
        rows = pattern.sample_rows(SAMPLE, self.seed)
        found = score_words(
            model.models.reference,
            pattern.compose(rows),
            pattern.expected(rows),
            TargetMethod.LEFT_TO_RIGHT,
            causal=pattern.causal,
        )
        if other := disagreement(kept[rows], found, self.exported.tokenizer, NEAR_TIE):
            say(f"{pattern.decided_as}: {other} than the selection has kept, so all sentences are decided again")
            return {}
        say(f"{pattern.decided_as}: the selection's answers are taken; {len(rows)} of them were decided again")
        selected_in = (self.selected.record.calibration or {}).get(pattern.decided_as, {}).get("precision")
        choice = {
            "precision": str(selected_in or Precision.FP32),
            "reason": "the selection's answers are taken",
            TAKEN_FROM: Selection.name,
            ANSWERS_SHA256: self.selected.record.files[ANSWERS_FILE],
        }
        return {pattern.decided_as: choice}

    def prepare(self, number: int) -> list[list[Bucket] | None]:
        """For each pattern, the sentences of a part, by length; None where the answers may be known."""
        triplets, part = self.parts[number]
        rows, patterns = slice(part.start, part.stop), self.patterns[triplets.apart]
        may_be_known = triplets.kept is not None
        return [None if may_be_known and not i else pattern.compose(rows) for i, pattern in enumerate(patterns)]

    def decide(
        self, model: PatternDeciders, number: int, prepared: list[list[Bucket] | None] | None, advance: Advance
    ) -> PartResult:
        """One row for each triplet and pattern: triplet, pattern, repeated, tokens, and those of `answer_columns`."""
        triplets, part = self.parts[number]
        rows, patterns = slice(part.start, part.stop), self.patterns[triplets.apart]
        counts: dict[str, int] = {}
        frames = []
        for pattern, buckets in zip(patterns, prepared or self.prepare(number), strict=True):
            if taken := model.taken.get(pattern.decided_as):
                answers, same_text = self._taken(triplets, taken, rows), 0
                advance(len(part), 0)
            else:
                scores = score_words(
                    model.deciders[pattern.decided_as],
                    buckets or pattern.compose(rows),
                    pattern.expected(rows),
                    TargetMethod.LEFT_TO_RIGHT,
                    causal=pattern.causal,
                    advance=lambda n: advance(n, n),
                )
                answers, same_text = self._answers(scores), 0 if triplets.apart else self._same_text(scores)
            if not triplets.apart:
                counts[SAME_TEXT.format(pattern.pattern.name)] = same_text
            frames.append(
                pl.DataFrame(
                    {
                        "triplet": triplets.coded["triplet"][rows],
                        "pattern": pl.Series([pattern.pattern.name], dtype=pl.String).new_from_index(0, len(part)),
                        **answers,
                        TOKENS: triplets.tokens[rows],
                    }
                )
            )
        own = {pattern.decided_as for pattern in patterns}  # a part knows nothing of the precision of the other kind
        audited = take_audits({name: decider for name, decider in model.deciders.items() if name in own})
        return PartResult(pl.concat(frames), {**counts, **audited.counts}, audited.bounds, audited.needed)

    def _taken(self, triplets: Triplets, begun: Mapping[str, Any], rows: slice) -> dict[str, pl.Series]:
        """The selection's answers, in the columns of `_answers`; `begun` is what the run has recorded of them."""
        if triplets.kept is None or begun.get(ANSWERS_SHA256) != self.selected.record.files[ANSWERS_FILE]:
            raise InputError(
                f"{self.selected.folder / ANSWERS_FILE} is not the file that this scoring was started with: the "
                "selection has been run again since; choose another --output"
            )
        own = triplets.kept[rows].cast({pl.Categorical: pl.String}).to_dict()
        repeated = pl.Series([True], dtype=pl.Boolean).new_from_index(0, len(own["top1"]))
        return {"top1": own.pop("top1"), "repeated": repeated, **own}

    def _answers(self, scores: WordScores) -> dict[str, pl.Series]:
        """The columns from top1 to precision in the order of scores.parquet."""
        answers = answer_columns(scores, self.exported.tokenizer)
        return {"top1": answers.pop("top1"), "repeated": pl.Series(scores.top1), **answers}

    def _same_text(self, scores: WordScores) -> int:
        return int(self.exported.tokenizer.same_text(scores.choices[:, 0], scores.words.expected(0)).sum())

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """scores.parquet and rates.parquet; those of verbs of several tokens beside."""
        selected, metadata = read_selected(parts.folder), parts.metadata
        numbers = metadata.get(SEVERAL)
        is_several = (pl.col(TOKENS) > 1).fill_null(value=False)  # null where the rows come from scores.parquet
        scores = (parts.rows if numbers is None else parts.rows.filter(~is_several)).drop(TOKENS, strict=False)
        files: dict[str, pl.DataFrame | pl.LazyFrame] = {SCORES_FILE: scores}
        files[RATES_FILE] = rates(scores, selected.coded.lazy(), metadata["patterns"], metadata["patterns"][0])
        if numbers is None:
            return files
        if selected.several is None:
            raise InputError(f"{parts.folder}: the selection has no file {SEVERAL_TRIPLETS_FILE}: select again")
        own = parts.rows.filter(is_several)
        token_rates = _token_rates(own, selected.several.lazy(), metadata["patterns"], numbers)
        return {**files, SEVERAL_SCORES_FILE: own, TOKEN_RATES_FILE: token_rates}


def _token_rates(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: Sequence[str], numbers: Sequence[int]
) -> pl.DataFrame:
    """Rates of the verbs of several tokens: tokens (`several` for all of them, or a number), the columns of `rates`."""
    groups = {ALL_SEVERAL: pl.lit(value=True), **{str(number): pl.col(TOKENS) == number for number in numbers}}
    return pl.concat(
        rates(scores.filter(own), triplets.filter(own), patterns, patterns[0]).select(
            pl.lit(name).alias(TOKENS), pl.all()
        )
        for name, own in groups.items()
    )
