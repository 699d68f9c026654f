"""The scoring: how often is the verb still repeated, pattern by pattern?

Every selected triplet fills every pattern of the set, the selecting one included: its repetition rate, 100 % by
construction, checks the run. A part is a range of triplets; its rows come pattern after pattern.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..choices import VerbConvention
from ..errors import InputError
from ..files.home import with_home
from ..inference.choosing import Workload
from ..inference.exported import PRECISIONS, ExportedModel, load_exported, refuse_too_long
from ..inference.model import Decider, main_token
from ..inference.precision import take_audits
from ..printable import counted
from ..runs.masked_stages import DecidingStage, PatternDeciders
from ..runs.ranges import part_ranges
from ..runs.record import Recorded
from ..runs.results import finished_stage, read_document, read_frame
from ..runs.stage import Advance, Files, FinishedParts, PartResult
from ..sentences.composition import Composer, composer
from ..sentences.lexicon import FORMS_SEPARATOR
from ..sentences.patterns import Pattern, PatternSet
from ..sentences.slots import AT_MASK, VERB, column
from ..sentences.spans import Bucket, EncodedSentences, small_buckets
from ..sentences.tokenizer import MaskTokenizer
from ..sentences.verbs import mask_fillers
from .rates import rates
from .select import SELECTION_FILE, SEVERAL_TOKENS, TRIPLETS_FILE, Selection, composed

SCORES_FILE, RATES_FILE = "scores.parquet", "rates.parquet"
TRIPLETS_PER_PART = 8_192
SAME_TEXT = "{}: other token with the verb's text"
"""Name of the count, by pattern, of top-1 tokens that read like the verb: "smoke" where "Ġsmoke" is expected."""


@dataclass(frozen=True, eq=False)
class Selected:
    """A finished selection, read from its run folder.

    Attributes:
        folder: The run folder.
        metadata: The selection's metadata for later stages.
        summary: The content of selection.json.
        triplets: Columns triplet, name, gender, pronoun, profession, verb.
        sha256: Digest of triplets.parquet.
    """

    folder: Path
    metadata: dict[str, Any]
    summary: dict[str, Any]
    triplets: pl.DataFrame
    sha256: str

    @property
    def patterns(self) -> PatternSet:
        """The set that the triplets were selected with."""
        return PatternSet.from_json(self.metadata["pattern set"])

    def exported(self, moved_to: str | None = None) -> ExportedModel:
        """The model that selected the triplets.

        Args:
            moved_to: Its folder now, if it was moved.

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
        """Refuse a model that did not select the triplets.

        Raises:
            InputError: It is another one.
        """
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
    triplets = read_frame(folder, stage, TRIPLETS_FILE)
    summary = read_document(folder, stage, SELECTION_FILE)
    if triplets.is_empty() and not summary.get(SEVERAL_TOKENS, {}).get("selected"):
        raise InputError(
            f"{folder} has no selected triplets: this model does not repeat any verb, so there is nothing to score"
        )
    for key in ("model folder", "model sha256"):
        if not isinstance(stage.metadata[key], str):
            raise InputError(f"{folder}: run.json says {stage.metadata[key]!r} for {key}; run its command again")
    return Selected(folder, stage.metadata, Recorded(summary), triplets, stage.files[TRIPLETS_FILE])


def accepted_forms(triplets: pl.DataFrame, verbs: pl.Series) -> list[list[str]]:
    """The forms of each verb that count as a repetition at the mask, the main form first.

    Args:
        triplets: The content of triplets.parquet.
        verbs: The verbs.
    """
    if AT_MASK not in triplets.columns:
        return [[verb] for verb in verbs]
    forms = dict(triplets.select(column(VERB), AT_MASK).unique().iter_rows())
    return [forms[verb].split(FORMS_SEPARATOR) for verb in verbs]


@dataclass(frozen=True, eq=False)
class ScoredPattern:
    """One pattern over all triplets.

    Attributes:
        fillers: Slot → int64 [n_triplets], indices in the slot's distinct words.
        expected: int32 [n_triplets], the verb's token at this pattern's mask; int32 [n_triplets, k] where verbs have
            several accepted forms.
    """

    pattern: Pattern
    composer: Composer
    fillers: dict[str, NDArray[np.int64]]
    expected: NDArray[np.int32]

    @property
    def decided_as(self) -> str:
        """The name under which the precision of these decisions is chosen and measured."""
        return self.pattern.name

    @property
    def further_masks(self) -> int:
        """How many masks a sentence gets beside the pattern's own, at most."""
        return 0

    def sample_rows(self, n: int, seed: int) -> NDArray[np.int64]:
        """Random triplets of the run, int64 [n], ascending; every verb has its share."""
        total, random = len(self.expected), np.random.default_rng(seed)
        n = min(n, total)
        shuffled = random.permutation(total)
        by_verb = shuffled[np.argsort(main_token(self.expected)[shuffled], kind="stable")]
        return np.sort(by_verb[((np.arange(n) + random.random()) * total / n).astype(np.int64)])

    def sample(self, n: int, *, seed: int) -> EncodedSentences:
        """Random triplets of the run as sentences, for the calibration."""
        rows = self.sample_rows(n, seed)
        return EncodedSentences(self.compose(rows), self.expected[rows])

    def compose(self, rows: NDArray[np.int64] | slice) -> list[Bucket]:
        """The sentences of some triplets, by length."""
        return list(self.composer.compose({slot: indices[rows] for slot, indices in self.fillers.items()}))


@dataclass(frozen=True, eq=False)
class Scoring(DecidingStage[list[list[Bucket]]]):
    """The scoring of a selection.

    Attributes:
        triplets_per_part: Size of a part.
    """

    name: ClassVar[str] = "score"
    rows_file: ClassVar[str | None] = SCORES_FILE

    selected: Selected
    exported: ExportedModel
    tokenizer: MaskTokenizer
    triplets_per_part: int

    @classmethod
    def plan(cls, selected: Selected, exported: ExportedModel, *, triplets_per_part: int = TRIPLETS_PER_PART) -> Self:
        """Plan a scoring; the model itself is not needed yet.

        Args:
            selected: The selection.
            exported: The model that selected.
            triplets_per_part: Size of a part.
        """
        return cls(selected, exported, exported.tokenizer, triplets_per_part)

    @property
    def seed(self) -> int:
        """See `DecidingStage`."""
        return int(self.selected.metadata["seed"])

    @property
    def parts(self) -> tuple[range, ...]:
        """All parts: ranges of triplets."""
        n, size = len(self.selected.triplets), self.triplets_per_part
        return part_ranges(n, size)

    @property
    def sizes(self) -> Sequence[int]:
        """See `Stage`."""
        return [len(part) * len(self.selected.patterns.all) for part in self.parts]

    @property
    def metadata(self) -> dict[str, Any]:
        """What publication needs."""
        return {"patterns": [pattern.name for pattern in self.selected.patterns.all], "seed": self.seed}

    @property
    def identity(self) -> dict[str, Any]:
        """What the scores depend on."""
        return {
            "model": self.exported.name,
            "model sha256": self.exported.sha256,
            "patterns sha256": self.selected.patterns.sha256,
            "triplets sha256": self.selected.sha256,
            "triplets per part": self.triplets_per_part,
        }

    @cached_property
    def patterns(self) -> tuple[ScoredPattern, ...]:
        """All patterns, the selecting one first.

        Raises:
            InputError: A sentence is too long, or a verb is more than one token at the mask of a scored pattern.
        """
        triplets = self.selected.triplets
        slots = dict.fromkeys((VERB, *self.selected.patterns.slots))
        words = {slot: triplets[column(slot)].unique(maintain_order=True) for slot in slots}
        rows = {
            slot: triplets[column(slot)].replace_strict(own, np.arange(len(own)), return_dtype=pl.Int64).to_numpy()
            for slot, own in words.items()
        }
        scored = []
        for pattern in self.selected.patterns.all:
            lists = {slot: words[slot].to_list() for slot in pattern.slots}
            made = composer(self.tokenizer, pattern, lists, self.seed)
            fillers = {slot: rows[slot] for slot in (VERB, *pattern.slots)}
            base = {slot: own[0] for slot, own in lists.items()}
            found = self.expecting(pattern, made, fillers, words[VERB], base)
            refuse_too_long(self.exported, made.longest() + found.further_masks, pattern.name)
            scored.append(found)
        return tuple(scored)

    def expecting(
        self,
        pattern: Pattern,
        made: Composer,
        fillers: dict[str, NDArray[np.int64]],
        verbs: pl.Series,
        base: Mapping[str, str],
    ) -> ScoredPattern:
        """A pattern with the verbs that are expected at its mask.

        Args:
            pattern: The pattern.
            made: Composes its sentences.
            fillers: Slot → int64 [n_triplets], indices in the slot's distinct words.
            verbs: The distinct verbs.
            base: One filler for each slot.

        Raises:
            InputError: A verb is more than one token at the mask.
        """
        convention = VerbConvention(self.selected.metadata["verb convention"])
        accepted = accepted_forms(self.selected.triplets, verbs)
        main, further = zip(*((forms[0], forms[1:]) for forms in accepted), strict=True)
        verb, token = mask_fillers(self.tokenizer, pattern, main, base, convention, further)
        if len(verb) < len(verbs):
            lost = verbs[int(np.setdiff1d(np.arange(len(verbs)), verb)[0])]
            raise InputError(f"{pattern.name}: the verb {lost!r} is more than one token at its mask")
        return ScoredPattern(pattern, made, fillers, token[fillers[VERB]])

    def check(self, say: Callable[[str], None]) -> None:
        """See `Stage`."""
        say(f"{counted(len(self.selected.triplets), 'triplet')}, {counted(len(self.parts), 'part')}")
        for pattern in self.patterns:
            say(composed(pattern.pattern.name, pattern.composer))

    def workloads(self) -> list[Workload]:
        """See `DecidingStage`."""
        return [
            Workload(pattern.decided_as, partial(pattern.sample, seed=self.seed), len(self.selected.triplets))
            for pattern in self.patterns
        ]

    def prepare(self, number: int) -> list[list[Bucket]]:
        """For each pattern, the sentences of a part, by length."""
        part = self.parts[number]
        return [pattern.compose(slice(part.start, part.stop)) for pattern in self.patterns]

    def decide(
        self, model: PatternDeciders, number: int, prepared: list[list[Bucket]] | None, advance: Advance
    ) -> PartResult:
        """See `Stage`.

        Returns:
            One row for each triplet and pattern: triplet, pattern, top1 (text), repeated, expected_rank,
            expected_logprob, top1_logprob (natural logarithms), precision (of the graph that gave the row's numbers).
        """
        part, frames = self.parts[number], []
        counts: dict[str, int] = {}
        for pattern, buckets in zip(self.patterns, prepared or self.prepare(number), strict=True):
            decider = model.deciders[pattern.decided_as]
            answers, counted = self.answers(decider, pattern, part, buckets, advance)
            counts |= counted
            precision = pl.Series(PRECISIONS, dtype=pl.String).gather(answers.pop("precision"))
            frames.append(
                pl.DataFrame(
                    {
                        "triplet": self.selected.triplets["triplet"][part.start : part.stop],
                        "pattern": pl.Series([pattern.pattern.name], dtype=pl.String).new_from_index(0, len(part)),
                        **answers,
                        "precision": precision,
                    }
                )
            )
        audited = take_audits(model.deciders)
        return PartResult(pl.concat(frames), {**counts, **audited.counts}, audited.bounds, audited.needed)

    def answers(
        self, decider: Decider, pattern: ScoredPattern, part: range, buckets: Sequence[Bucket], advance: Advance
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """The model's answers to the sentences of a part in one pattern.

        Args:
            decider: Of the pattern.
            pattern: The pattern.
            part: The triplets.
            buckets: Their sentences.
            advance: Called with numbers of sentences.

        Returns:
            The columns from top1 to precision (here a position in `PRECISIONS`), and counts for the run's record.
        """
        expected = pattern.expected[part.start : part.stop]
        columns: dict[str, Any] = {
            "top1": np.empty(len(part), np.int32),
            "repeated": np.empty(len(part), np.bool_),
            "expected_rank": np.empty(len(part), np.int32),
            "expected_logprob": np.empty(len(part), np.float32),
            "top1_logprob": np.empty(len(part), np.float32),
            "precision": np.empty(len(part), np.int8),
        }
        for bucket in small_buckets(buckets):
            decisions = decider.decide(bucket.ids, bucket.mask_position, expected[bucket.rows], lambda n: advance(n, n))
            columns["top1"][bucket.rows] = decisions.top1
            columns["repeated"][bucket.rows] = decisions.repeated(expected[bucket.rows])
            columns["expected_rank"][bucket.rows] = decisions.expected_rank
            columns["expected_logprob"][bucket.rows] = decisions.expected_logprob
            columns["top1_logprob"][bucket.rows] = decisions.top1_logprob
            columns["precision"][bucket.rows] = decisions.precision
        same_text = int(self.tokenizer.same_text(columns["top1"], expected).sum())
        ids, where = np.unique(columns["top1"], return_inverse=True)
        texts = pl.Series([self.tokenizer.token_text(int(i)) for i in ids], dtype=pl.String)
        return {**columns, "top1": texts.gather(where)}, {SAME_TEXT.format(pattern.pattern.name): same_text}

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """scores.parquet and rates.parquet."""
        triplets = read_selected(parts.folder).triplets
        patterns = parts.metadata["patterns"]  # the selecting one first
        table = rates(parts.rows, triplets.lazy(), patterns, selecting=patterns[0])
        return {SCORES_FILE: parts.rows, RATES_FILE: table}
