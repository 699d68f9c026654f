"""The selection: which verbs does the model repeat for each [NAME, PROF] pair?

Section 3.2 of Kletz, Amsili and Candito (2023), "The Self-Contained Negation Test Set": of all candidates [NAME, PROF,
verb], those are kept whose verb is the model's top-1 in the selecting pattern, at most 20 verbs for each pair. A keyed
hash of (seed, NAME, PROF, verb) decides which 20. So the choice does not depend on batches, shards or interruptions. A
part is a range of pairs: what is kept of a pair is decided within one part.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...choices import Coreference, VerbConvention
from ...errors import InputError, check_number
from ...inference.audit import audit_summary
from ...inference.choosing import Workload
from ...inference.exported import ExportedModel, refuse_too_long
from ...inference.model import Decider, Decisions
from ...inference.precision import take_audits
from ...inference.words import Repeats
from ...library.again import NEAR_TIE
from ...printable import counted
from ...runs.masked_stages import DecidingStage, PatternDeciders
from ...runs.model_metadata import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...text.composition import Composer, composer
from ...text.keys import checked_seed
from ...text.lexicon import FORMS_SEPARATOR, Lexicon
from ...text.patterns import PatternSet
from ...text.slots import AT_MASK, NAME, PROFESSION, PRONOUN, VERB, WORD_SLOTS, column
from ...text.spans import EncodedSentences
from ...text.tokenizer import MaskTokenizer
from ...text.verbs import mask_fillers
from .answers import ANSWERS_FILE, columns_of, decide_all, divided, marked, rejoined
from .grid import Grid, PairFillers, all_pairs, pair_fillers, sample_pairs, verb_order
from .lazy import fewest_tests, first_repeating, share_interval

TRIPLETS_FILE, SELECTION_FILE = "triplets.parquet", "selection.json"
SEVERAL_TOKENS = "several_tokens"
"""The key of selection.json with the figures of the verbs of several tokens, where a run has them."""

PAIRS_PER_LAZY_PART = 512  # more than otherwise: the rounds of a lazy part get smaller and smaller
CANDIDATES_PER_PART = 32_768  # minutes of work on a laptop, tenths of a second on a large GPU


@dataclass(frozen=True)
class Settings:
    """The settings that decide, with model, lexicon and patterns, which triplets are selected."""

    seed: int = 0
    pairs: int | None = None
    max_verbs: int = 20
    coreference: Coreference = Coreference.PRONOUN
    verbs: VerbConvention = VerbConvention.IN_CONTEXT
    lazy: bool = False

    def __post_init__(self) -> None:
        checked_seed(self.seed)
        check_number("--max-verbs", self.max_verbs, 1, 10**6)


@dataclass(frozen=True, eq=False)
class PartRepeats:
    """What was found about the candidates of a part.

    Attributes:
        repeated: bool [pairs, verbs], which verbs are known to repeat.
        tested: bool [pairs, verbs], which verbs were tested.
        counts: tested, repeating, variance, near_ties; of a lazy run, stopped too.
        queries: How many sentences were run.
        decisions: About each pair and verb, pair by pair; undefined for verbs that were not tested. None for verbs of
            several tokens.
    """

    repeated: NDArray[np.bool_]
    tested: NDArray[np.bool_]
    counts: Mapping[str, float]
    queries: int
    decisions: Decisions | None = None


@dataclass(frozen=True, eq=False)
class Selection(DecidingStage[EncodedSentences]):
    """A selection: the candidates, and how their sentences are composed.

    Attributes:
        verb: int64 [n_verbs], the usable verbs' indices in the lexicon.
        token: int32 [n_verbs], their token ids at the mask; int32 [n_verbs, k] where verbs have several accepted forms.
        fillers: Slot → what fills it for each [NAME, PROF] pair; of all slots but {ACT}.
        pairs_per_part: How many pairs make a part.
    """

    name: ClassVar[str] = "select"
    rows_file: ClassVar[str | None] = TRIPLETS_FILE
    further_rows_files: ClassVar[tuple[str, ...]] = (ANSWERS_FILE,)

    exported: ExportedModel
    tokenizer: MaskTokenizer
    lexicon: Lexicon
    patterns: PatternSet
    settings: Settings
    grid: Grid
    verb: NDArray[np.int64]
    token: NDArray[np.int32]
    fillers: Mapping[str, PairFillers]
    pairs_per_part: int

    @classmethod
    def plan(
        cls,
        exported: ExportedModel,
        lexicon: Lexicon,
        patterns: PatternSet,
        settings: Settings | None = None,
        *,
        candidates_per_part: int = CANDIDATES_PER_PART,
        pairs_per_lazy_part: int = PAIRS_PER_LAZY_PART,
    ) -> "Selection":
        """Plan a selection; the model itself is not needed yet.

        Args:
            exported: The model.
            lexicon: The words.
            patterns: The pattern set; its selecting pattern is run.
            settings: What else decides the triplets.
            candidates_per_part: Size of a part of an exhaustive run, in candidates.
            pairs_per_lazy_part: Size of a part of a lazy run, in pairs.

        Raises:
            InputError: No verb is one token, there are too few pairs, or a name is asked for where the patterns have no
                place for it.
        """
        settings = settings or Settings()
        if settings.coreference is not Coreference.PRONOUN and PRONOUN not in patterns.slots:
            raise InputError(
                f"--coreference {settings.coreference}: the patterns of {patterns.name!r} have no {{{PRONOUN}}}, so no "
                "name can stand in the target; choose other patterns"
            )
        tokenizer = exported.tokenizer
        fillers = pair_fillers(lexicon, settings.coreference, settings.seed)
        pattern = patterns.selecting
        words = _words(lexicon, fillers)
        base = {slot: words[slot][0] for slot in pattern.slots}
        main, further = zip(*((forms[0], forms[1:]) for forms in map(lexicon.accepted, lexicon.verbs)), strict=True)
        verb, token = mask_fillers(tokenizer, pattern, main, base, settings.verbs, further)
        pairs = all_pairs(lexicon) if settings.pairs is None else sample_pairs(lexicon, settings.pairs, settings.seed)
        return cls(
            exported=exported,
            tokenizer=tokenizer,
            lexicon=lexicon,
            patterns=patterns,
            settings=settings,
            grid=Grid(len(lexicon.names), len(lexicon.professions), len(verb), pairs),
            verb=verb,
            token=token,
            fillers=fillers,
            pairs_per_part=pairs_per_lazy_part if settings.lazy else max(1, candidates_per_part // len(verb)),
        )

    @property
    def seed(self) -> int:
        """See `DecidingStage`."""
        return self.settings.seed

    @property
    def decided_as(self) -> str:
        """The name under which the precision of these decisions is chosen and measured."""
        return self.patterns.selecting.name

    @property
    def parts(self) -> tuple[range, ...]:
        """All parts: ranges of positions in the grid's pairs."""
        return self.grid.parts(self.pairs_per_part)

    @property
    def unit(self) -> str:
        """Verbs to find in a lazy run, because the number of sentences is not known before."""
        return "verbs" if self.settings.lazy else "sentences"

    @property
    def sizes(self) -> Sequence[int]:
        """See `Stage`."""
        each = self.settings.max_verbs if self.settings.lazy else len(self.verb)
        return [len(part) * each for part in self.parts]

    @property
    def metadata(self) -> dict[str, Any]:
        """What publication and the scoring need."""
        return {
            "model": self.exported.name,
            **model_metadata(self.exported),
            "model sha256": self.exported.sha256,
            "pattern": self.patterns.selecting.name,
            "pattern set": self.patterns.to_json(),
            "coreference": str(self.settings.coreference),
            "verbs": len(self.verb),
            "verb convention": str(self.settings.verbs),
            "lazy": self.settings.lazy,
            "max verbs": self.settings.max_verbs,
            "pairs": len(self.grid.pairs),
            "seed": self.settings.seed,
        }

    @property
    def identity(self) -> dict[str, Any]:
        """What the triplets depend on."""
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
            "lazy": self.settings.lazy,
            "pairs per part": self.pairs_per_part,
        }

    @cached_property
    def composer(self) -> Composer:
        """Makes the sentences of the selecting pattern."""
        words = _words(self.lexicon, self.fillers)
        return composer(self.tokenizer, self.patterns.selecting, words, self.settings.seed)

    def check(self, say: Callable[[str], None]) -> None:
        """Refuse sentences that are too long for the model; see `Stage`."""
        pattern = self.patterns.selecting
        say(f"{self.grid.verbs:,} of {len(self.lexicon.verbs):,} verbs are one token at the mask")
        say(
            f"{counted(len(self.grid.pairs), 'pair')}, {counted(self.grid.size, 'candidate')}, "
            f"{counted(len(self.parts), 'part')}"
        )
        say(composed(pattern.name, self.composer))
        refuse_too_long(self.exported, self.composer.longest({VERB: self.verb}), pattern.name)

    def workloads(self) -> list[Workload]:
        """See `DecidingStage`. A lazy run is expected to test twice as many verbs as it keeps."""
        pattern, total = self.decided_as, self.grid.size
        if not self.settings.lazy:
            return [Workload(pattern, self.sample, total)]
        pairs, verbs, enough = len(self.grid.pairs), len(self.verb), self.settings.max_verbs
        return [
            Workload(
                pattern,
                self.sample,
                min(total, 2 * pairs * enough),
                lambda rate: int(pairs * fewest_tests(verbs, enough, rate)),
            )
        ]

    def sample(self, n: int) -> EncodedSentences:
        """Random candidates of the run as sentences, to calibrate on; every verb is as frequent as every other."""
        return self._sentences(*self.grid.locate(self.sample_indices(n)))

    def sample_indices(self, n: int) -> NDArray[np.int64]:
        """The grid indices of `sample`, int64 [n], ascending."""
        random = np.random.default_rng(self.settings.seed)
        verbs, pairs = len(self.verb), len(self.grid.pairs)
        verb = np.concatenate([random.permutation(verbs) for _ in range(-(-n // verbs))])[:n]
        return np.sort(random.integers(0, pairs, n) * verbs + verb)

    def prepare(self, number: int) -> EncodedSentences | None:
        """All candidates of a part as token ids; None in a lazy run, which chooses its tests step by step."""
        return None if self.settings.lazy else self._sentences(*self.grid.part_indices(self.parts[number]))

    def decide(
        self, model: PatternDeciders, number: int, prepared: EncodedSentences | None, advance: Advance
    ) -> PartResult:
        """See `Stage`."""
        decider = model.deciders[self.decided_as]
        part = self.parts[number]
        if prepared is None:
            found = self._decide_lazily(decider, part, advance)
        else:
            found = self._decide_all(decider, part, prepared, advance)
        audited = take_audits(model.deciders)
        rows = self.keep_verbs(part, found)
        return PartResult(rows, {**self.counts(found), **audited.counts}, audited.bounds, audited.needed)

    def repeats(self, decider: Decider, sentences: EncodedSentences, advance: Advance) -> Repeats:
        """Which sentences repeat the verb.

        Args:
            decider: Of the selecting pattern.
            sentences: Candidates.
            advance: Called with numbers of candidates, and of sentences that were run for them.
        """
        expected = sentences.expected
        decisions = decide_all(decider, sentences.buckets, expected, lambda n: advance(n, n))
        near_ties = np.count_nonzero((np.abs(decisions.margin(expected)) < NEAR_TIE) & decisions.exact)
        return Repeats(decisions.repeated(expected), len(expected), int(near_ties), decisions)

    def counts(self, found: PartRepeats) -> dict[str, float]:
        """What a part counts."""
        return dict(found.counts)

    def _decide_all(self, decider: Decider, part: range, prepared: EncodedSentences, advance: Advance) -> PartRepeats:
        """Test all verbs of a part's pairs."""
        found = self.repeats(decider, prepared, advance)
        repeats = int(found.repeated.sum())
        counts = {"tested": found.repeated.size, "repeating": repeats, "variance": 0.0, "near_ties": found.near_ties}
        repeated = found.repeated.reshape(len(part), -1)
        return PartRepeats(repeated, np.ones_like(repeated), counts, found.queries, found.decisions)

    def _decide_lazily(self, decider: Decider, part: range, advance: Advance) -> PartRepeats:
        """Test the verbs of a part's pairs in the order of their keys until enough repeat (see `lazy`)."""
        name, profession = self._pairs(part)
        near_ties = queries = 0
        decisions: Decisions | None = None

        def decide(pair: NDArray[np.int64], verb: NDArray[np.int64]) -> NDArray[np.bool_]:
            nonlocal near_ties, queries, decisions
            sentences = self._sentences(name[pair], profession[pair], verb)
            found = self.repeats(decider, sentences, lambda _, n: advance(0, n))
            near_ties += found.near_ties
            queries += found.queries
            if found.decisions is not None:
                decisions = decisions or Decisions.empty(len(name) * self.grid.verbs)
                decisions.put(pair * self.grid.verbs + verb, found.decisions)
            return found.repeated

        order = self.verb_order(name, profession)
        found = first_repeating(order, self.settings.max_verbs, decide, lambda verbs: advance(verbs, 0))
        counts = {
            "tested": int(found.tested.sum()),
            "repeating": float(found.repeating.sum()),
            "variance": float(found.variance.sum()),
            "stopped": int(found.stopped.sum()),
            "near_ties": near_ties,
        }
        tested = np.zeros_like(found.repeated)
        np.put_along_axis(tested, order, np.arange(order.shape[1]) < found.tested[:, None], axis=1)
        return PartRepeats(found.repeated, tested, counts, queries, decisions)

    def keep_verbs(self, part: range, found: PartRepeats) -> pl.DataFrame:
        """The triplets kept of a part: of each pair, the repeating verbs with the smallest keys.

        Args:
            part: Range of positions in the grid's pairs.
            found: What was found about them.

        Returns:
            One row for each triplet with name, gender, pronoun (what fills {PRON}), profession, verb, verb_at_mask (its
            accepted forms at the mask, where the lexicon has other ones there), and the words of other slots that the
            patterns have; ordered by pair, then key. Beside them the model's answer (see `answers`).
        """
        name, profession = self._pairs(part)
        order = self.verb_order(name, profession)
        in_order = np.take_along_axis(found.repeated, order, axis=1)
        kept = in_order & (in_order.cumsum(axis=1) <= self.settings.max_verbs)
        pair, position = np.nonzero(kept)
        verb = order[pair, position]
        chosen, who, what = self.verb[verb], name[pair], profession[pair]

        def words(slot: str) -> pl.Series:
            filler = self.fillers[slot]
            return pl.Series(filler.words, dtype=pl.String).gather(filler.index[who, what])

        verbs = pl.Series(self.lexicon.verbs, dtype=pl.String)
        forms = [FORMS_SEPARATOR.join(self.lexicon.accepted(verb)) for verb in self.lexicon.verbs]
        at_mask = {AT_MASK: pl.Series(forms, dtype=pl.String).gather(chosen)} if self.lexicon.at_mask else {}
        return pl.DataFrame(
            {
                column(NAME): words(NAME),
                "gender": pl.Series(self.lexicon.genders, dtype=pl.String).gather(who),
                column(PRONOUN): words(PRONOUN),
                column(PROFESSION): words(PROFESSION),
                column(VERB): verbs.gather(chosen),
                **at_mask,
                **{column(slot): words(slot) for slot in self.patterns.slots if slot not in WORD_SLOTS},
            }
        ).with_columns(self._answers(found, pair * self.grid.verbs + verb))

    def _answers(self, found: PartRepeats, rows: NDArray[np.int64]) -> list[pl.Series]:
        """The model's answers to some of a part's candidates, as columns of the part."""
        return [] if found.decisions is None else marked(columns_of(found.decisions.take(rows), self.tokenizer))

    def _sentences(
        self, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]
    ) -> EncodedSentences:
        indices = {VERB: self.verb[verb]}
        for slot in self.patterns.selecting.slots:
            if slot != VERB:
                indices[slot] = self.fillers[slot].index[name, profession]
        return EncodedSentences(list(self.composer.compose(indices)), self.token[verb])

    def _pairs(self, part: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Name and profession of a part's pairs, each int64 [pairs]."""
        return np.divmod(self.grid.pairs[part.start : part.stop], self.grid.professions)

    def verb_order(self, name: NDArray[np.int64], profession: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each pair's usable verbs by ascending key, int64 [pairs, verbs]."""
        keys = verb_order(self.lexicon, self.settings.seed, name, profession, self.verb)
        return np.argsort(keys, axis=1, kind="stable")

    @classmethod
    def rows_of(cls, files: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """See `Stage`."""
        return rejoined(files, TRIPLETS_FILE)

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """triplets.parquet, answers.parquet (see `answers`), and selection.json.

        selection.json has rows 1 to 6 of the paper's Table 5, and what readers of the run need.
        """
        rows, answers = divided(parts.rows.select(pl.exclude("triplet")))
        triplets = numbered(rows)
        selected = int(triplets.select(pl.len()).collect().item())
        counts, metadata = parts.counts, parts.metadata
        candidates = metadata["pairs"] * metadata["verbs"]
        summary = {
            "model": metadata["model"],
            "pattern": metadata["pattern"],
            "coreference": metadata["coreference"],
            "verbs": metadata["verbs"],
            "pairs": metadata["pairs"],
            "tested": counts["tested"],
            "repeating": round(counts["repeating"]),
            "ratio": 100 * counts["repeating"] / candidates,
            "selected": selected,
            "near_ties": counts["near_ties"],
            "precision": audit_summary(counts),
        }
        if metadata["lazy"]:
            low, high = share_interval(
                counts["repeating"] / candidates,
                counts["variance"] / candidates**2,
                pairs=metadata["pairs"],
                stopped=int(counts["stopped"]),
                enough=metadata["max verbs"],
            )
            summary["lazy"] = {
                "candidates": candidates,
                "times_fewer_calls": candidates / counts["tested"],
                "ratio_low": 100 * low,
                "ratio_high": 100 * high,
            }
        kept = {} if answers is None else {ANSWERS_FILE: numbered(answers)}
        return {TRIPLETS_FILE: triplets, **kept, SELECTION_FILE: summary}


def numbered(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows with a first column `triplet`, their number from 0 on."""
    return rows.with_row_index("triplet").cast({"triplet": pl.Int64})


def composed(pattern: str, made: Composer) -> str:
    """How a pattern's sentences are composed, in one line."""
    if made.slotwise:
        return f"{pattern}: token ids were compared with the tokenizer's on {made.proved:,} sentences"
    return f"{pattern}: every sentence is tokenized, which is slower: {made.reason}"


def _words(lexicon: Lexicon, fillers: Mapping[str, PairFillers]) -> dict[str, Sequence[str]]:
    """Slot → its words."""
    return {VERB: lexicon.verbs, **{slot: filler.words for slot, filler in fillers.items()}}
