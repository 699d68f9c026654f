"""The selection: which verbs does the model repeat for each [NAME, PROF] pair?

Section 3.2 of Kletz, Amsili and Candito (2023): of all candidates, those are kept whose verb is the model's top-1 in
the selecting pattern, at most 20 for each pair; a keyed hash decides which 20, whatever the batches and shards.

A verb of k tokens is *repeated* if each is the model's first choice at its mask: the sentence has k masks, and the
verb's tokens before it are filled in (see `inference.words`). The number of masks tells the model how long the word is,
so these verbs have a run of their own. Of their forms for the mask, the main one counts.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.choices import Coreference, VerbConvention
from ...basics.errors import InputError
from ...basics.option import check_options
from ...basics.printable import counted, some
from ...inference.again import NEAR_TIE
from ...inference.audit import audit_summary
from ...inference.batches import finished
from ...inference.exported import ExportedModel, refuse_too_long
from ...inference.mixed import take_audits
from ...inference.model import Decider
from ...inference.precision import Workload
from ...inference.words import WordScores, repeated_words, sampled_queries
from ...requests.items import model_identity
from ...runs.masked_stages import DecidingStage, PatternDeciders
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...text.composition import Composer, WholeSentenceComposer, composer
from ...text.lexicon import Lexicon
from ...text.pattern import AT_MASK, NAME, PROFESSION, PRONOUN, VERB, WORD_SLOTS, PatternSet, column
from ...text.token_ids import Bucket, EncodedSentences, TokenSequences
from ..experiment import PAIRS, SEED, Option
from .answers import ANSWERS_FILE, IN_PART, answer_columns, as_column, divided, rejoined
from .grid import SEVERAL, PairFillers, Verbs, pair_fillers, sample_pairs, slot_words, usable_verbs, verb_order
from .lazy import first_repeating, share_interval

TRIPLETS_FILE, SELECTION_FILE = "triplets.parquet", "selection.json"
TOKENS = "tokens"
"""The column with the number of tokens of a verb, in a run with verbs of several tokens."""

PAIRS_PER_LAZY_PART = 512  # more than otherwise: the rounds of a lazy part get smaller and smaller
LAZY_CANDIDATES_PER_PART = 2**23  # 64 MB for the order of their keys: with many verbs, there are fewer pairs
CANDIDATES_PER_PART = 32_768  # minutes of work on a laptop, tenths of a second on a large GPU

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
Candidates = NDArray[np.int64]  # [n], of a part: the pair's place in it * verbs + verb
Counts = dict[str, float]
Sentences = tuple[list[Bucket], TokenSequences]
"""Sentences with one mask each, and the word that is expected there."""


@dataclass(frozen=True)
class Settings:
    """The settings that decide, with model, lexicon and patterns, which triplets are selected."""

    pairs: Annotated[int | None, PAIRS] = None
    max_verbs: Annotated[
        int, Option("Largest number of verbs that are kept for each pair.", metavar="N", minimum=1, maximum=10**6)
    ] = 20
    coreference: Annotated[str, Option("Whom the target sentence is about.", kind=Coreference)] = Coreference.PRONOUN
    verbs: Annotated[
        str,
        Option(
            "in-context: verbs that are one token at the mask; bare: also one token alone; several-tokens: the others, "
            "filled in token by token.",
            kind=VerbConvention,
        ),
    ] = VerbConvention.IN_CONTEXT
    lazy: Annotated[
        bool, Option("Stop testing a pair once it has --max-verbs verbs: same triplets, fewer sentences.")
    ] = False
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, eq=False)
class Selection(DecidingStage[Sentences]):
    """A selection: the candidates, and how their sentences are composed."""

    name: ClassVar[str] = "select"
    beside: ClassVar[tuple[str, ...]] = ("score",)
    rows_file: ClassVar[str | None] = TRIPLETS_FILE
    further_rows_files: ClassVar[tuple[str, ...]] = (ANSWERS_FILE,)

    exported: ExportedModel
    lexicon: Lexicon
    patterns: PatternSet
    settings: Settings
    verbs: Verbs
    fillers: Mapping[str, PairFillers]  # of all slots but {ACT}
    lost: Mapping[str, Sequence[str]]  # scored pattern → verbs that cannot be asked for at its mask, and are left out

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
        """Plan a selection. `InputError`: no verb fits, the pairs are too few, or a pattern has no slot for a name."""
        settings = settings or Settings()
        coreference, convention = Coreference(settings.coreference), VerbConvention(settings.verbs)
        if coreference is not Coreference.PRONOUN and PRONOUN not in patterns.slots:
            raise InputError(
                f"--coreference {coreference}: the patterns of {patterns.name!r} have no {{{PRONOUN}}}, so no "
                "name can stand in the target; choose other patterns"
            )
        fillers = pair_fillers(lexicon, coreference, settings.seed)
        pairs = sample_pairs(lexicon, settings.pairs, settings.seed)
        index, tokens, lost = usable_verbs(exported.tokenizer, lexicon, patterns, fillers, convention)
        per_part = max(1, (LAZY_CANDIDATES_PER_PART if settings.lazy else candidates_per_part) // len(index))
        per_part = min(per_part, pairs_per_lazy_part) if settings.lazy else per_part
        verbs = Verbs(index, tokens, len(lexicon.professions), pairs, per_part)
        return cls(exported, lexicon, patterns, settings, verbs, fillers, lost)

    @property
    def seed(self) -> int:
        return self.settings.seed

    @property
    def has_several(self) -> bool:
        return self.settings.verbs == SEVERAL

    @property
    def unit(self) -> str:
        # The number of sentences of a lazy run is not known before.
        return "verbs" if self.settings.lazy else "sentences"

    @property
    def sizes(self) -> Sequence[int]:
        of_pair = self.settings.max_verbs if self.settings.lazy else self.verbs.n
        return [len(part) * of_pair for part in self.verbs.parts]

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            **model_identity(self.exported),
            **model_metadata(self.exported),
            "pattern": self.patterns.selecting.name,
            "pattern set": self.patterns.to_json(),
            "coreference": str(self.settings.coreference),
            "verbs": self.verbs.n,
            "verb convention": str(self.settings.verbs),
            "lazy": self.settings.lazy,
            "max verbs": self.settings.max_verbs,
            "pairs": len(self.verbs.pairs),
            "seed": self.settings.seed,
        }

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **model_identity(self.exported),
            "lexicon sha256": self.lexicon.sha256,
            "patterns sha256": self.patterns.sha256,
            **{own.name.replace("_", " "): getattr(self.settings, own.name) for own in fields(Settings)},
            "verbs": str(self.settings.verbs),
            "pairs per part": self.verbs.pairs_per_part,
        }

    @property
    def row_columns(self) -> dict[str, Any]:
        words = [column(NAME), "gender", *(column(slot) for slot in (PRONOUN, PROFESSION, VERB))]
        forms = {AT_MASK: pl.List(pl.String)} if self.lexicon.at_mask else {}
        further = dict.fromkeys(map(column, self._further_slots), pl.String)
        return {**dict.fromkeys(words, pl.String), **forms, **further, TOKENS: pl.Int32, **IN_PART}

    @property
    def _further_slots(self) -> list[str]:
        return [slot for slot in self.patterns.slots if slot not in WORD_SLOTS]

    @cached_property
    def words(self) -> dict[str, Sequence[str]]:
        return slot_words(self.lexicon, self.fillers)

    @cached_property
    def composer(self) -> Composer:
        return composer(self.exported.tokenizer, self.patterns.selecting, self.words, self.settings.seed)

    @property
    def notes(self) -> Sequence[str]:
        taken, found = {int(number) for number in self.verbs.index}, list[str]()
        if dropped := [repr(verb) for number, verb in enumerate(self.lexicon.verbs) if number not in taken]:
            of = f"{counted(len(dropped), 'verb')} of {len(self.lexicon.verbs):,}"
            which = "several tokens" if self.has_several else "one token"
            also = "" if self.has_several else "; --verbs several-tokens takes verbs of several tokens"
            found.append(f"select: {of} cannot be asked for as {which}, so they are left out: {some(dropped)}{also}")
        for pattern, verbs in self.lost.items():
            if verbs:
                named = ", ".join(map(repr, verbs))
                found.append(f"select: {counted(len(verbs), 'verb')} of these for the mask of {pattern} alone: {named}")
        same = dict[tuple[int, ...], list[str]]()
        for number, tokens in zip(self.verbs.index.tolist(), self.verbs.words.tokens.tolist(), strict=True):
            same.setdefault(tuple(tokens), []).append(self.lexicon.verbs[number])
        if twice := [" = ".join(verbs) for verbs in same.values() if len(verbs) > 1]:
            found.append(f"select: verbs with the same tokens of this model, which count apart: {', '.join(twice)}")
        for slot, words in self.words.items():
            if unknown := self.exported.tokenizer.unknown(list(words)):
                found.append(f"select: words of {{{slot}}} with letters that the model does not know: {some(unknown)}")
        return found

    def check(self, say: Callable[[str], None]) -> None:
        pattern, verbs = self.patterns.selecting.name, self.verbs
        tokens = "several tokens" if self.has_several else "one token"
        say(f"{verbs.n:,} of {len(self.lexicon.verbs):,} verbs are {tokens} at the mask")
        sizes = {"pair": len(verbs.pairs), "candidate": verbs.size, "part": len(verbs.parts)}
        say(", ".join(counted(n, what) for what, n in sizes.items()))
        for number in np.unique(verbs.words.counts).tolist():
            longest = self.composer.longest({VERB: verbs.index[verbs.words.counts == number]}) + number - 1
            which = f"{pattern}, verbs of {number} tokens" if self.has_several else pattern
            refuse_too_long(self.exported, longest, which)
        say(composed(pattern, self.composer))
        for own in self.patterns.scored:  # the scoring would refuse them
            whole = WholeSentenceComposer(self.exported.tokenizer, own, {slot: self.words[slot] for slot in own.slots})
            if whole.longest() > self.exported.max_length:  # a bound that no sentence reaches
                made = composer(self.exported.tokenizer, own, self.words, self.settings.seed)
                refuse_too_long(self.exported, made.longest(), own.name)

    def workloads(self) -> list[Workload]:
        verbs, most = self.verbs, self.settings.max_verbs
        # A lazy run tests what it keeps, or all.
        least = min(verbs.size, len(verbs.pairs) * most) if self.settings.lazy else verbs.size
        return [Workload(self.patterns.selecting.name, self.sample, least)]

    def sample(self, n: int) -> EncodedSentences:
        """Random queries of the run, to calibrate on: of random candidates, each of whose tokens is as likely."""
        buckets, words = self._sentences(*self.verbs.locate(self.sample_indices(n)))
        token = np.random.default_rng([self.settings.seed, 1]).integers(0, words.counts)
        return sampled_queries(buckets, words, token, causal=self.exported.is_causal)

    def sample_indices(self, n: int) -> NDArray[np.int64]:
        """The grid indices of `sample`, int64 [n], ascending; every verb is as frequent as every other."""
        verbs, random = self.verbs, np.random.default_rng(self.settings.seed)
        verb = np.concatenate([random.permutation(verbs.n) for _ in range(-(-n // verbs.n))])[:n]
        return np.sort(random.integers(0, len(verbs.pairs), n) * verbs.n + verb)

    def prepare(self, number: int) -> Sentences | None:
        """All candidates of a part as token ids; None in a lazy run, which chooses its tests step by step."""
        n, part = self.verbs.n, self.verbs.parts[number]
        every = np.arange(part.start * n, part.stop * n)
        return None if self.settings.lazy else self._sentences(*self.verbs.locate(every))

    def decide(self, model: PatternDeciders, number: int, prepared: Sentences | None, advance: Advance) -> PartResult:
        verbs, pattern = self.verbs, self.patterns.selecting.name
        decider, part = model.deciders[pattern], verbs.parts[number]
        pairs = np.divmod(verbs.pairs[part.start : part.stop], verbs.professions)
        if prepared is None:
            candidates, scores, estimated = self._decide_lazily(decider, pairs, advance)
        else:
            scores = finished(repeated_words(decider, *prepared, causal=self.exported.is_causal, advance=advance))
            candidates, estimated = np.arange(len(scores.words)), {"repeating": int(scores.top1.sum())}
        (own,) = np.nonzero(scores.top1)
        audited = take_audits({pattern: decider})
        counts = {
            "tested": len(scores.words),
            "near_ties": scores.near_ties(NEAR_TIE),
            "queries": scores.queries,
            **estimated,
            **audited.counts,
        }
        return PartResult(self._kept(pairs, candidates[own], scores.take(own)), counts, audited.bounds, audited.needed)

    def _decide_lazily(self, decider: Decider, pairs: Pairs, advance: Advance) -> tuple[Candidates, WordScores, Counts]:
        """Test the verbs of a part's pairs in the order of their keys until enough repeat (see `lazy`).

        Returns the candidates that were tested, their scores, and an estimate of how many repeat, with its variance.
        """
        name, profession = pairs
        rounds: list[tuple[Candidates, WordScores]] = []

        def decide(pair: NDArray[np.int64], verb: NDArray[np.int64]) -> NDArray[np.bool_]:
            sentences, causal = self._sentences(name[pair], profession[pair], verb), self.exported.is_causal
            scores = finished(repeated_words(decider, *sentences, causal=causal, advance=lambda _, n: advance(0, n)))
            rounds.append((pair * self.verbs.n + verb, scores))
            return scores.top1

        order, most = self.verb_order(pairs), self.settings.max_verbs
        found = first_repeating(order, most, decide, lambda verbs: advance(verbs, 0))
        candidates, scores = zip(*rounds, strict=True)
        estimated = {"repeating": float(found.repeating.sum()), "variance": float(found.variance.sum())}
        return np.concatenate(candidates), WordScores.joined(scores), {**estimated, "stopped": int(found.stopped.sum())}

    def _kept(self, pairs: Pairs, candidates: Candidates, scores: WordScores) -> pl.DataFrame:
        """The triplets of a part, by pair, then key: of a pair's candidates that repeat, those with the first keys."""
        (name, profession), verbs = pairs, self.verbs
        pair, verb = np.divmod(candidates, verbs.n)
        by_key = np.lexsort((np.argsort(self.verb_order(pairs), axis=1)[pair, verb], pair))
        number = np.arange(len(by_key)) - np.searchsorted(pair[by_key], pair[by_key])  # among those of its pair
        kept = by_key[number < self.settings.max_verbs]
        pair, verb = pair[kept], verb[kept]
        chosen, who, what = verbs.index[verb], name[pair], profession[pair]

        def words(slot: str) -> pl.Series:
            filler = self.fillers[slot]
            return pl.Series(filler.words, dtype=pl.String).gather(filler.index[who, what])

        forms = pl.Series(map(self.lexicon.accepted, self.lexicon.verbs), dtype=pl.List(pl.String))
        at_mask = {AT_MASK: forms.gather(chosen)} if self.lexicon.at_mask else {}
        answers = answer_columns(scores.take(kept), self.exported.tokenizer)
        return pl.DataFrame(
            {
                column(NAME): words(NAME),
                "gender": pl.Series(self.lexicon.genders, dtype=pl.String).gather(who),
                column(PRONOUN): words(PRONOUN),
                column(PROFESSION): words(PROFESSION),
                column(VERB): pl.Series(self.lexicon.verbs, dtype=pl.String).gather(chosen),
                **at_mask,
                **{column(slot): words(slot) for slot in self._further_slots},
                TOKENS: pl.Series(verbs.words.counts[verb], dtype=pl.Int32),
            }
        ).with_columns(as_column(answers))

    def _sentences(self, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]) -> Sentences:
        slots = [slot for slot in self.patterns.selecting.slots if slot != VERB]
        indices = {VERB: self.verbs.index[verb], **{slot: self.fillers[slot].index[name, profession] for slot in slots}}
        return list(self.composer.compose(indices)), self.verbs.words.take(verb)

    def verb_order(self, pairs: Pairs) -> NDArray[np.int64]:
        """Each pair's verbs by ascending key, int64 [pairs, verbs]."""
        return np.argsort(verb_order(self.lexicon, self.settings.seed, *pairs, self.verbs.index), axis=1, kind="stable")

    @classmethod
    def rows_of(cls, files: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        return rejoined(files[TRIPLETS_FILE], files[ANSWERS_FILE])

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """triplets.parquet, answers.parquet, and selection.json: rows 1 to 6 of the paper's Table 5, and more."""
        told, counts = parts.metadata, defaultdict(int, parts.counts)
        rows = parts.rows.drop("triplet", *([] if told["verb convention"] == SEVERAL else [TOKENS]), strict=False)
        triplets, answers = (own.with_row_index("triplet").cast({"triplet": pl.Int64}) for own in divided(rows))
        candidates = told["pairs"] * told["verbs"]
        figures = {
            **{name: told[name] for name in ("model", "pattern", "coreference", "verbs", "pairs")},
            "tested": counts["tested"],
            "repeating": round(counts["repeating"]),
            "ratio": 100 * counts["repeating"] / candidates,
            "selected": int(triplets.select(pl.len()).collect().item()),
            "near_ties": counts["near_ties"],
            "precision": audit_summary(parts.counts),
        }
        if told["lazy"]:
            share, variance = counts["repeating"] / candidates, counts["variance"] / candidates**2
            low, high = share_interval(share, variance, told["pairs"], int(counts["stopped"]), told["max verbs"])
            figures["lazy"] = {
                "candidates": candidates,
                "times_fewer_calls": candidates / counts["tested"],
                "ratio_low": 100 * low,
                "ratio_high": 100 * high,
            }
        return {TRIPLETS_FILE: triplets, ANSWERS_FILE: answers, SELECTION_FILE: figures}


def composed(pattern: str, made: Composer) -> str:
    """How a pattern's sentences are composed, in one line."""
    if made.slotwise:
        return f"{pattern}: token ids were compared with the tokenizer's on {made.proved:,} sentences"
    return f"{pattern}: every sentence is tokenized, which is slower: {made.reason}"
