"""The scoring: how often is the verb still repeated, pattern by pattern?

A part is a range of triplets; its rows come pattern after pattern. For the selecting pattern the selection's answers
are taken, if this machine finds the same. Each token of a verb is a query, filled from left to right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.choices import Precision, TargetMethod, VerbConvention
from ...basics.errors import InputError
from ...basics.printable import counted
from ...inference.again import NEAR_TIE
from ...inference.batches import finished, gathered
from ...inference.exported import REFERENCE, ExportedModel, refuse_too_long
from ...inference.mixed import take_audits
from ...inference.precision import SHORT_RUN, Workload
from ...inference.words import sampled_queries, score_words
from ...requests.composed import ComposedPattern, distinct
from ...requests.items import model_identity
from ...runs.masked_stages import TAKEN_FROM, DecidingStage, PatternDeciders
from ...runs.stage import Advance, Files, FinishedParts, PartResult, part_ranges
from ...statistics import LIBRARIES
from ...text.composition import composer
from ...text.pattern import AT_MASK, VERB, Pattern, column
from ...text.token_ids import Bucket, EncodedSentences, TokenSequences
from ...text.verbs import mask_fillers, mask_words
from .answers import ANSWERS, ANSWERS_FILE, SAMPLE, answer_columns, disagreement
from .grid import SEVERAL
from .negation_runs import SAME_TEXT, ScoresRun, SelectionRun, read_selected
from .rates import RATES_FILE, SCORES_FILE, rates
from .select import TOKENS, TRIPLETS_FILE, Selection, composed

TRIPLETS_PER_PART = 8_192
ANSWERS_SHA256 = "answers_sha256"
"""The key of a recorded choice with the digest of the answers that are taken."""


@dataclass(frozen=True, eq=False)
class ScoredPattern(ComposedPattern):
    """One pattern over all triplets."""

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


@dataclass(frozen=True, eq=False)
class Scoring(DecidingStage[list[list[Bucket] | None]]):
    """The scoring of a selection."""

    name: ClassVar[str] = ScoresRun.stage
    beside: ClassVar[tuple[str, ...]] = ("select",)
    rows_file: ClassVar[str | None] = SCORES_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES

    selected: SelectionRun
    exported: ExportedModel
    coded: pl.DataFrame  # the content of triplets.parquet, with words as categories: a quarter of the memory
    kept: pl.DataFrame  # the selection's answers in the selecting pattern, one row for each triplet
    triplets_per_part: int

    @classmethod
    def plan(
        cls, selected: SelectionRun, exported: ExportedModel, *, triplets_per_part: int = TRIPLETS_PER_PART
    ) -> Self:
        """Plan a scoring with the model that selected; an `InputError` if a file of the selection is damaged."""
        coded, kept = (
            selected.frame(name).with_columns(pl.col(pl.String).cast(pl.Categorical))  # few different texts
            for name in (TRIPLETS_FILE, ANSWERS_FILE)
        )
        return cls(selected, exported, coded, kept, triplets_per_part)

    @property
    def seed(self) -> int:
        return int(self.selected.record.metadata["seed"])

    @property
    def convention(self) -> VerbConvention:
        return VerbConvention(self.selected.record.metadata["verb convention"])

    @cached_property
    def tokens(self) -> pl.Series:
        """The number of tokens of each verb in the selecting pattern, int32 [n]."""
        if self.convention is SEVERAL:
            return self.coded[TOKENS].cast(pl.Int32)
        return pl.Series(TOKENS, [1], dtype=pl.Int32).new_from_index(0, len(self.coded))

    @cached_property
    def parts(self) -> tuple[range, ...]:
        return part_ranges(len(self.coded), self.triplets_per_part)

    @property
    def sizes(self) -> Sequence[int]:
        patterns = len(self.selected.patterns.all)
        # Queries: as many as the verbs have tokens in the selecting pattern.
        return [int(self.tokens[part.start : part.stop].sum()) * patterns for part in self.parts]

    @property
    def metadata(self) -> dict[str, Any]:
        return {"patterns": [pattern.name for pattern in self.selected.patterns.all], "seed": self.seed}

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **model_identity(self.exported),
            "patterns sha256": self.selected.patterns.sha256,
            "triplets sha256": self.selected.record.files[TRIPLETS_FILE],
            "triplets per part": self.triplets_per_part,
        }

    @property
    def row_columns(self) -> dict[str, Any]:
        return {"triplet": pl.Int64, "pattern": pl.String, "top1": pl.String, "repeated": pl.Boolean, **ANSWERS}

    @cached_property
    def patterns(self) -> tuple[ScoredPattern, ...]:
        """All patterns over the triplets, the selecting one first; an `InputError` if a sentence is too long."""
        slots = dict.fromkeys((VERB, *self.selected.patterns.slots))
        coded, scored = {slot: distinct(self.coded[column(slot)]) for slot in slots}, []
        verbs = coded[VERB][0]
        forms = [[verb] for verb in verbs]  # that count as a repetition, the main form first
        if AT_MASK in self.coded.columns:
            known = dict(self.coded.select(column(VERB), AT_MASK).unique(column(VERB)).iter_rows())
            forms = [known[verb] for verb in verbs]
        for pattern in self.selected.patterns.all:
            words = {slot: coded[slot][0] for slot in pattern.slots}
            fillers = {slot: coded[slot][1] for slot in (VERB, *pattern.slots)}
            made = composer(self.exported.tokenizer, pattern, words, self.seed, sentences=fillers)
            tokens = self._at_mask(pattern, forms, {slot: own[0] for slot, own in words.items()})
            refuse_too_long(self.exported, made.longest() + tokens.widest - 1, pattern.name)
            scored.append(ScoredPattern(pattern.name, pattern, made, fillers, tokens, self.exported.is_causal))
        return tuple(scored)

    def _at_mask(self, pattern: Pattern, forms: Sequence[Sequence[str]], base: Mapping[str, str]) -> TokenSequences:
        """The tokens of the verbs at the mask of a pattern; the selection has taken no others."""
        tokenizer = self.exported.tokenizer
        main, further = zip(*((own[0], own[1:]) for own in forms), strict=True)
        if self.convention is SEVERAL:
            found = mask_words(tokenizer, pattern, main, base)
            tokens = TokenSequences.of([own for own in found if isinstance(own, tuple)])
        else:
            tokens = TokenSequences.single(mask_fillers(tokenizer, pattern, main, base, self.convention, further)[1])
        if len(tokens) < len(main):
            raise InputError(f"{pattern.name}: a verb of the triplets cannot be asked for at its mask: select again")
        return tokens

    def check(self, say: Callable[[str], None]) -> None:
        parts, patterns = counted(len(self.parts), "part"), counted(len(self.patterns), "pattern")
        say(f"{counted(len(self.coded), 'triplet')}, {patterns}, {parts}")
        for pattern in self.patterns:
            say(composed(pattern.decided_as, pattern.composer))

    def workloads(self) -> list[Workload]:
        return [
            Workload(pattern.decided_as, partial(pattern.sample, seed=self.seed), len(pattern.fillers[VERB]))
            for pattern in self.patterns
        ]

    def known(self, model: PatternDeciders, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
        """The selecting pattern, if the selection's answers are those of this machine, and of a precision asked for."""
        kept = self.kept
        in_fp32 = model.precision is Precision.FP32 or (model.precision is Precision.AUTO and len(kept) < SHORT_RUN)
        if in_fp32 and not (kept["precision"].cast(pl.String) == REFERENCE).all():
            return {}
        pattern = self.patterns[0]
        rows = pattern.sample_rows(SAMPLE, self.seed)
        asked = pattern.compose(rows), pattern.expected(rows), TargetMethod.LEFT_TO_RIGHT
        found = finished(score_words(model.models.reference, *asked, causal=pattern.causal))
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
        rows = slice(self.parts[number].start, self.parts[number].stop)
        return [pattern.compose(rows) if i else None for i, pattern in enumerate(self.patterns)]

    def decide(
        self, model: PatternDeciders, number: int, prepared: list[list[Bucket] | None] | None, advance: Advance
    ) -> PartResult:
        """One row for each triplet and pattern: triplet, pattern, repeated, and the columns of `answer_columns`."""
        part, counts, frames = self.parts[number], dict[str, int](), list[pl.DataFrame]()
        rows, tokenizer = slice(part.start, part.stop), self.exported.tokenizer
        asked = [
            score_words(
                model.deciders[pattern.decided_as],
                buckets or pattern.compose(rows),
                pattern.expected(rows),
                TargetMethod.LEFT_TO_RIGHT,
                causal=pattern.causal,
                advance=lambda n: advance(n, n),
            )
            for pattern, buckets in zip(self.patterns, prepared or self.prepare(number), strict=True)
            if pattern.decided_as not in model.taken
        ]
        scored = iter(finished(gathered(asked)))
        for pattern in self.patterns:
            same_text = 0
            if taken := model.taken.get(pattern.decided_as):
                self._refuse_other_answers(taken)
                answers = self.kept[rows].cast({pl.Categorical: pl.String}).with_columns(repeated=pl.lit(value=True))
                advance(int(self.tokens[rows].sum()), 0)
            else:
                scores = next(scored)
                answers = pl.DataFrame({**answer_columns(scores, tokenizer), "repeated": scores.top1})
                if self.convention is not SEVERAL:
                    same_text = int(tokenizer.same_text(scores.choices[:, 0], scores.words.expected(0)).sum())
            counts[SAME_TEXT.format(pattern.pattern.name)] = same_text
            named = answers.with_columns(self.coded["triplet"][rows], pattern=pl.lit(pattern.pattern.name))
            frames.append(named.select(*self.row_columns))
        audited = take_audits(model.deciders)
        return PartResult(pl.concat(frames), {**counts, **audited.counts}, audited.bounds, audited.needed)

    def _refuse_other_answers(self, taken: Mapping[str, Any]) -> None:
        if taken.get(ANSWERS_SHA256) != self.selected.record.files[ANSWERS_FILE]:
            raise InputError(
                f"{self.selected.folder / ANSWERS_FILE} is not the file that this scoring was started with: "
                "the selection has been run again since; choose another --output"
            )

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        selected, patterns = read_selected(parts.folder), parts.metadata["patterns"]
        found = rates(parts.rows, selected.frame(TRIPLETS_FILE).lazy(), patterns, patterns[0])
        return {SCORES_FILE: parts.rows, RATES_FILE: found}
