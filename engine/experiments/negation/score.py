"""The scoring: how often is the verb still repeated, pattern by pattern?

Every selected triplet fills every pattern of the set, the selecting one included. For that one, the selection has kept
the model's answers: they are taken, once some of them are decided again and found to be the same (see `answers`). Where
they were not kept, or this machine finds other numbers, the model decides again: the repetition rate, 100 % by
construction, then checks the run. A part is a range of triplets; its rows come pattern after pattern.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...choices import Precision, VerbConvention
from ...errors import InputError
from ...files.home import with_home
from ...inference.batches import ignored
from ...inference.choosing import SHORT_RUN, Workload
from ...inference.exported import ExportedModel, load_exported, refuse_too_long
from ...inference.model import Decider, main_token
from ...inference.precision import take_audits
from ...library.again import NEAR_TIE
from ...printable import counted
from ...runs.masked_stages import TAKEN_FROM, DecidingStage, PatternDeciders
from ...runs.ranges import part_ranges
from ...runs.record import Recorded, StageRecord
from ...runs.results import finished_stage, read_document, read_frame
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...statistics import LIBRARIES
from ...text.composition import Composer, composer
from ...text.lexicon import FORMS_SEPARATOR
from ...text.patterns import Pattern, PatternSet
from ...text.slots import AT_MASK, VERB, column
from ...text.spans import Bucket, EncodedSentences
from ...text.tokenizer import MaskTokenizer
from ...text.verbs import mask_fillers
from .answers import ANSWERS_FILE, SAMPLE, columns_of, decide_all, disagreement, is_exact, kept_answers
from .rates import rates
from .select import SELECTION_FILE, SEVERAL_TOKENS, TRIPLETS_FILE, Selection, composed

SCORES_FILE, RATES_FILE = "scores.parquet", "rates.parquet"
TRIPLETS_PER_PART = 8_192
ANSWERS_SHA256 = "answers_sha256"
"""The key of a recorded choice with the digest of the answers that are taken."""
SAME_TEXT = "{}: other token with the verb's text"
"""Name of the count, by pattern, of top-1 tokens that read like the verb: "smoke" where "Ġsmoke" is expected."""


@dataclass(frozen=True, eq=False)
class Selected:
    """A finished selection, read from its run folder.

    Attributes:
        folder: The run folder.
        metadata: The selection's metadata for later stages.
        summary: The content of selection.json.
        coded: The content of triplets.parquet, with words as categories: a quarter of the memory.
        sha256: Digest of triplets.parquet.
        record: The selection's entry in run.json.
    """

    folder: Path
    metadata: dict[str, Any]
    summary: dict[str, Any]
    coded: pl.DataFrame
    sha256: str
    record: StageRecord

    def __len__(self) -> int:
        return len(self.coded)

    @property
    def triplets(self) -> pl.DataFrame:
        """Columns triplet, name, gender, pronoun, profession, verb."""
        return self.coded.cast({pl.Categorical: pl.String})

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
    triplets = read_coded(folder, stage, TRIPLETS_FILE)
    summary = read_document(folder, stage, SELECTION_FILE)
    if triplets.is_empty() and not summary.get(SEVERAL_TOKENS, {}).get("selected"):
        raise InputError(
            f"{folder} has no selected triplets: this model does not repeat any verb, so there is nothing to score"
        )
    for key in ("model folder", "model sha256"):
        if not isinstance(stage.metadata[key], str):
            raise InputError(f"{folder}: run.json says {stage.metadata[key]!r} for {key}; run its command again")
    return Selected(folder, stage.metadata, Recorded(summary), triplets, stage.files[TRIPLETS_FILE], stage)


def read_coded(folder: Path, stage: StageRecord, name: str) -> pl.DataFrame:
    """A result of the selection, with words as categories; errors as for `read_frame`."""
    return read_frame(folder, stage, name).with_columns(pl.col(pl.String).cast(pl.Categorical))


def accepted_forms(triplets: pl.DataFrame, verbs: pl.Series) -> list[list[str]]:
    """The forms of each verb that count as a repetition at the mask, the main form first.

    Args:
        triplets: The content of triplets.parquet, words as categories or not.
        verbs: The verbs.
    """
    if AT_MASK not in triplets.columns:
        return [[verb] for verb in verbs]
    forms = dict(triplets.select(column(VERB), AT_MASK).unique().iter_rows())
    return [forms[verb].split(FORMS_SEPARATOR) for verb in verbs]


def distinct(words: pl.Series) -> tuple[pl.Series, NDArray[np.int32]]:
    """The distinct words of a column of categories, in the order of their first rows; and each row's index among them.

    Returns:
        Strings [m], and int32 [n].
    """
    own = words.unique(maintain_order=True)
    place = np.zeros(int(own.to_physical().max() or 0) + 1, np.int32)  # type: ignore[arg-type]
    place[own.to_physical().to_numpy()] = np.arange(len(own))
    return own.cast(pl.String), place[words.to_physical().to_numpy()]


def in_order(columns: Mapping[str, pl.Series]) -> dict[str, pl.Series]:
    """The columns from top1 to precision in the order of scores.parquet."""
    names = ("top1", "repeated", "expected_rank", "expected_logprob", "top1_logprob", "precision")
    return {name: columns[name] for name in names}


@dataclass(frozen=True, eq=False)
class ScoredPattern:
    """One pattern over all triplets.

    Attributes:
        fillers: Slot → int32 [n_triplets], indices in the slot's distinct words.
        expected: int32 [n_triplets], the verb's token at this pattern's mask; int32 [n_triplets, k] where verbs have
            several accepted forms.
    """

    pattern: Pattern
    composer: Composer
    fillers: dict[str, NDArray[np.int32]]
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
        fillers = {slot: indices[rows].astype(np.int64) for slot, indices in self.fillers.items()}
        return list(self.composer.compose(fillers))


@dataclass(frozen=True, eq=False)
class Scoring(DecidingStage[list[list[Bucket] | None]]):
    """The scoring of a selection.

    Attributes:
        triplets_per_part: Size of a part.
        kept: The selection's answers in the selecting pattern, one row for each triplet; None where it has none.
    """

    name: ClassVar[str] = "score"
    rows_file: ClassVar[str | None] = SCORES_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES

    selected: Selected
    exported: ExportedModel
    tokenizer: MaskTokenizer
    triplets_per_part: int
    kept: pl.DataFrame | None = None

    @classmethod
    def plan(cls, selected: Selected, exported: ExportedModel, *, triplets_per_part: int = TRIPLETS_PER_PART) -> Self:
        """Plan a scoring; the model itself is not needed yet.

        Args:
            selected: The selection.
            exported: The model that selected.
            triplets_per_part: Size of a part.

        Raises:
            InputError: The selection's answers are damaged.
        """
        return cls(selected, exported, exported.tokenizer, triplets_per_part, cls.answers_of(selected))

    @staticmethod
    def answers_of(selected: Selected) -> pl.DataFrame | None:
        """What the selection has kept; see `kept_answers`."""
        return kept_answers(selected.folder, selected.record, len(selected))

    @property
    def seed(self) -> int:
        """See `DecidingStage`."""
        return int(self.selected.metadata["seed"])

    @property
    def parts(self) -> tuple[range, ...]:
        """All parts: ranges of triplets."""
        n, size = len(self.selected), self.triplets_per_part
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
        slots = dict.fromkeys((VERB, *self.selected.patterns.slots))
        coded = {slot: distinct(self.selected.coded[column(slot)]) for slot in slots}
        words = {slot: own for slot, (own, _) in coded.items()}
        rows = {slot: indices for slot, (_, indices) in coded.items()}
        scored = []
        for pattern in self.selected.patterns.all:
            lists = {slot: words[slot].to_list() for slot in pattern.slots}
            fillers = {slot: rows[slot] for slot in (VERB, *pattern.slots)}
            made = composer(self.tokenizer, pattern, lists, self.seed, sentences=fillers)
            base = {slot: own[0] for slot, own in lists.items()}
            found = self.expecting(pattern, made, fillers, words[VERB], base)
            refuse_too_long(self.exported, made.longest() + found.further_masks, pattern.name)
            scored.append(found)
        return tuple(scored)

    def expecting(
        self,
        pattern: Pattern,
        made: Composer,
        fillers: dict[str, NDArray[np.int32]],
        verbs: pl.Series,
        base: Mapping[str, str],
    ) -> ScoredPattern:
        """A pattern with the verbs that are expected at its mask.

        Args:
            pattern: The pattern.
            made: Composes its sentences.
            fillers: Slot → int32 [n_triplets], indices in the slot's distinct words.
            verbs: The distinct verbs.
            base: One filler for each slot.

        Raises:
            InputError: A verb is more than one token at the mask.
        """
        convention = VerbConvention(self.selected.metadata["verb convention"])
        accepted = accepted_forms(self.selected.coded, verbs)
        main, further = zip(*((forms[0], forms[1:]) for forms in accepted), strict=True)
        verb, token = mask_fillers(self.tokenizer, pattern, main, base, convention, further)
        if len(verb) < len(verbs):
            lost = verbs[int(np.setdiff1d(np.arange(len(verbs)), verb)[0])]
            raise InputError(f"{pattern.name}: the verb {lost!r} is more than one token at its mask")
        return ScoredPattern(pattern, made, fillers, token[fillers[VERB]])

    def check(self, say: Callable[[str], None]) -> None:
        """See `Stage`."""
        triplets, patterns = counted(len(self.selected), "triplet"), counted(len(self.patterns), "pattern")
        say(f"{triplets}, {patterns}, {counted(len(self.parts), 'part')}")
        for pattern in self.patterns:
            say(composed(pattern.pattern.name, pattern.composer))

    def workloads(self) -> list[Workload]:
        """See `DecidingStage`."""
        return [
            Workload(pattern.decided_as, partial(pattern.sample, seed=self.seed), len(self.selected))
            for pattern in self.patterns
        ]

    def known(self, model: PatternDeciders, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
        """See `MixedStage`: the selecting pattern, if the selection's answers are those of this machine.

        Numbers of a low-precision model are taken only where the scoring could have mixed precision, too.
        """
        pattern = self.patterns[0]
        if self.kept is None or self.kept.is_empty():
            return {}
        is_short = model.precision is Precision.AUTO and len(self.kept) < SHORT_RUN
        if not is_exact(self.kept) and (model.precision is Precision.FP32 or is_short):
            return {}
        rows = pattern.sample_rows(SAMPLE, self.seed)
        expected = pattern.expected[rows]
        found = decide_all(model.models.reference, pattern.compose(rows), expected, ignored)
        if other := disagreement(self.kept[rows], found, expected, self.tokenizer, NEAR_TIE):
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
        part = self.parts[number]
        composed = [pattern.compose(slice(part.start, part.stop)) for pattern in self.patterns[self.kept is not None :]]
        return [*[None] * (self.kept is not None), *composed]

    def decide(
        self, model: PatternDeciders, number: int, prepared: list[list[Bucket] | None] | None, advance: Advance
    ) -> PartResult:
        """See `Stage`.

        Returns:
            One row for each triplet and pattern: triplet, pattern, top1 (text), repeated, expected_rank,
            expected_logprob, top1_logprob (natural logarithms), precision (of the graph that gave the row's numbers).
        """
        part, frames = self.parts[number], []
        counts: dict[str, int] = {}
        same_text: int | None
        for pattern, buckets in zip(self.patterns, prepared or self.prepare(number), strict=True):
            if pattern.decided_as in model.taken:
                answers, same_text = self._taken(model.taken[pattern.decided_as], part), 0
                advance(len(part), 0)
            else:
                composed = buckets or pattern.compose(slice(part.start, part.stop))
                decider = model.deciders[pattern.decided_as]
                answers, same_text = self.answers(decider, pattern, part, composed, advance)
            counts |= {} if same_text is None else {SAME_TEXT.format(pattern.pattern.name): same_text}
            frames.append(
                pl.DataFrame(
                    {
                        "triplet": self.selected.coded["triplet"][part.start : part.stop],
                        "pattern": pl.Series([pattern.pattern.name], dtype=pl.String).new_from_index(0, len(part)),
                        **answers,
                    }
                )
            )
        audited = take_audits(model.deciders)
        return PartResult(pl.concat(frames), {**counts, **audited.counts}, audited.bounds, audited.needed)

    def _taken(self, begun: Mapping[str, Any], part: range) -> dict[str, pl.Series]:
        """The selection's answers about a part, as `answers` gives them.

        Args:
            begun: What the run has recorded of them.
            part: The triplets.

        Raises:
            InputError: The selection has been run again since.
        """
        if self.kept is None or begun.get(ANSWERS_SHA256) != self.selected.record.files[ANSWERS_FILE]:
            raise InputError(
                f"{self.selected.folder / ANSWERS_FILE} is not the file that this scoring was started with: the "
                "selection has been run again since; choose another --output"
            )
        own = self.kept[part.start : part.stop].cast({pl.Categorical: pl.String})
        repeated = pl.Series("repeated", [True], dtype=pl.Boolean).new_from_index(0, len(part))
        return in_order({**own.to_dict(), "repeated": repeated})

    def answers(
        self, decider: Decider, pattern: ScoredPattern, part: range, buckets: Sequence[Bucket], advance: Advance
    ) -> tuple[dict[str, pl.Series], int | None]:
        """The model's answers to the sentences of a part in one pattern.

        Args:
            decider: Of the pattern.
            pattern: The pattern.
            part: The triplets.
            buckets: Their sentences.
            advance: Called with numbers of sentences.

        Returns:
            The columns from top1 to precision; and how many top-1 tokens are other tokens with the verb's text, where
            that is counted.
        """
        expected = pattern.expected[part.start : part.stop]
        decisions = decide_all(decider, buckets, expected, lambda n: advance(n, n))
        repeated = pl.Series("repeated", decisions.repeated(expected))
        same_text = int(self.tokenizer.same_text(decisions.top1, expected).sum())
        return in_order({**columns_of(decisions, self.tokenizer), "repeated": repeated}), same_text

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """scores.parquet and rates.parquet."""
        triplets = read_selected(parts.folder).coded
        patterns = parts.metadata["patterns"]  # the selecting one first
        table = rates(parts.rows, triplets.lazy(), patterns, selecting=patterns[0])
        return {SCORES_FILE: parts.rows, RATES_FILE: table}
