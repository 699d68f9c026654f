"""The selection: which verbs does the model repeat for each [NAME, PROF] pair?

Section 3.2 of Kletz, Amsili and Candito (2023): of all candidates, those are kept whose verb is the model's top-1 in
the selecting pattern, at most 20 for each pair; a keyed hash decides which 20, whatever the batches and shards.

A verb of k tokens is *repeated* if each is the model's first choice at its mask: the sentence has k masks, and the
verb's tokens before it are filled in (see `inference.words`). The number of masks tells the model how long the word is,
so `--verbs whole-words` reports these verbs apart. Of their forms for the mask, the main one counts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, TypeVar

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
from ...runs.masked_stages import DecidingStage, PatternDeciders
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult, Result
from ...text.composition import Composer, WholeSentenceComposer, composer
from ...text.language_check import pronoun_note
from ...text.lexicon import FORMS_SEPARATOR, Lexicon
from ...text.pattern import AT_MASK, NAME, PROFESSION, PRONOUN, VERB, WORD_SLOTS, Pattern, PatternSet, column
from ...text.token_ids import Bucket, EncodedSentences, TokenSequences
from ...text.verbs import beside_mask, mask_fillers, mask_words, other_sentences
from ..experiment import PAIRS, SEED, Option
from .answers import ANSWERS_FILE, IN_PART, answer_columns, as_column, divided, rejoined
from .grid import PairFillers, Verbs, pair_fillers, sample_pairs, verb_order
from .lazy import fewest_tests, first_repeating, share_interval

TRIPLETS_FILE, SELECTION_FILE = "triplets.parquet", "selection.json"
SEVERAL_TOKENS, BY_TOKENS = "several_tokens", "by_tokens"
"""Keys of selection.json where a run has verbs of several tokens: their figures, and rows by number of tokens."""
SEVERAL = "verbs of several tokens"
TOKENS = "tokens"
"""The column with the number of tokens of a verb, where a run has verbs of several tokens."""

PAIRS_PER_LAZY_PART = 512  # more than otherwise: the rounds of a lazy part get smaller and smaller
LAZY_CANDIDATES_PER_PART = 2**23  # 64 MB for the order of their keys: with many verbs, there are fewer pairs
CANDIDATES_PER_PART = 32_768  # minutes of work on a laptop, tenths of a second on a large GPU

_TESTED, _REPEATING = "tested, tokens: {}", "repeating, tokens: {}"
_COUNTS = ("tested", "repeating", "variance", "near_ties", "stopped")
_OF_THE_RUN = {"model", "pattern", "coreference", "pairs", "precision"}

Rows = TypeVar("Rows", pl.DataFrame, pl.LazyFrame)
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
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
            "in-context: verbs that are one token at the mask; bare: also one token alone; whole-words: those of "
            "in-context, and apart from them the verbs of several tokens.",
            kind=VerbConvention,
        ),
    ] = VerbConvention.IN_CONTEXT
    lazy: Annotated[
        bool, Option("Stop testing a pair once it has --max-verbs verbs: same triplets, fewer sentences.")
    ] = False
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        check_options(self)


def decided_as(pattern: str, apart: str) -> str:
    """The name under which the precision of decisions is chosen and measured, for a pattern and its verbs."""
    return f"{pattern}, {apart}" if apart else pattern


@dataclass(frozen=True, eq=False)
class Found:
    """What was found about the candidates of a part."""

    repeated: NDArray[np.bool_]  # [pairs, verbs], known to repeat
    tested: NDArray[np.bool_]  # [pairs, verbs]
    candidates: NDArray[np.int64]  # [m], pair * verbs + verb of those that repeat, ascending
    scores: WordScores  # of these
    counts: Mapping[str, float]  # those of `_COUNTS`, and queries


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
    verbs: tuple[Verbs, ...]  # of one token; then, with `--verbs whole-words`, of several
    unreachable: tuple[str, ...]  # why verbs cannot be predicted, one reason for each; known with `--verbs whole-words`
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

        def verbs(apart: str, index: NDArray[np.int64], words: TokenSequences) -> Verbs:
            most = LAZY_CANDIDATES_PER_PART if settings.lazy else candidates_per_part
            per_part = max(1, most // len(index))
            per_part = min(per_part, pairs_per_lazy_part) if settings.lazy else per_part
            return Verbs(apart, index, words, len(lexicon.professions), pairs, per_part)

        is_whole = convention is VerbConvention.WHOLE_WORDS
        convention = VerbConvention.IN_CONTEXT if is_whole else convention
        tokenizer, pattern, words = exported.tokenizer, patterns.selecting, _words(lexicon, fillers)
        base = {slot: words[slot][0] for slot in pattern.slots}
        main, further = zip(*((forms[0], forms[1:]) for forms in map(lexicon.accepted, lexicon.verbs)), strict=True)
        lost: dict[str, list[str]] = {}

        def one_token(own: Pattern) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
            base, beside = {slot: words[slot][0] for slot in own.slots}, beside_mask(tokenizer, own, words, main[0])
            others = other_sentences(own, words, beside)
            # Where the mask is apart from all words, no verb depends on them.
            in_context = lexicon.verbs if beside else ()
            return mask_fillers(tokenizer, own, main, base, convention, further, in_context, others)

        index, token = one_token(pattern)
        for own in patterns.scored:
            kept = np.isin(index, one_token(own)[0])
            lost[own.name] = [lexicon.verbs[i] for i in index[~kept]]
            index, token = index[kept], token[kept]
            if not len(index):
                raise InputError(
                    f"no verb that is one token at the mask of {pattern.name} is one at that of {own.name}, too: write "
                    "patterns with the same text around the mask"
                )
        kinds, unreachable = [verbs("", index, TokenSequences.single(token))], []
        if is_whole:
            found = mask_words(tokenizer, pattern, main, base)
            unreachable = [own for own in found if isinstance(own, str)]
            several = {i: own for i, own in enumerate(found) if isinstance(own, tuple) and len(own) > 1}
            for own in patterns.scored:
                bases = {slot: words[slot][0] for slot in own.slots}
                asked = mask_words(tokenizer, own, [main[i] for i in several], bases)
                gone = [i for i, tokens in zip(several, asked, strict=True) if isinstance(tokens, str)]
                lost[own.name] += [lexicon.verbs[i] for i in gone]
                several = {i: tokens for i, tokens in several.items() if i not in gone}
            if not several:
                raise InputError("--verbs whole-words: no verb is of several tokens; use --verbs in-context")
            kinds.append(verbs(SEVERAL, np.array([*several], np.int64), TokenSequences.of([*several.values()])))
        chosen = replace(settings, verbs=convention)
        return cls(exported, lexicon, patterns, chosen, tuple(kinds), tuple(unreachable), fillers, lost)

    @property
    def seed(self) -> int:
        return self.settings.seed

    @property
    def parts(self) -> list[tuple[Verbs, range]]:
        return [(verbs, part) for verbs in self.verbs for part in verbs.parts]

    @property
    def unit(self) -> str:
        # The number of sentences of a lazy run is not known before.
        return "verbs" if self.settings.lazy else "sentences"

    @property
    def sizes(self) -> Sequence[int]:
        most = self.settings.max_verbs
        return [len(part) * (most if self.settings.lazy else verbs.n) for verbs, part in self.parts]

    @property
    def planned(self) -> Sequence[int]:
        return [] if self.settings.lazy else self.sizes

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:
        """The rows are those that repeat, so their number is that of the counts at most."""
        begins = (own.format("") for own in (_TESTED, _REPEATING))
        tested, repeating = (int(sum(n for name, n in counts.items() if name.startswith(own))) for own in begins)
        return tested if len(rows) <= repeating <= tested else len(rows)

    @property
    def metadata(self) -> dict[str, Any]:
        single, *several = self.verbs
        return {
            "model": self.exported.name,
            **model_metadata(self.exported),
            "model sha256": self.exported.sha256,
            "pattern": self.patterns.selecting.name,
            "pattern set": self.patterns.to_json(),
            "coreference": str(self.settings.coreference),
            "verbs": single.n,
            "verb convention": str(self.settings.verbs),
            "lazy": self.settings.lazy,
            "max verbs": self.settings.max_verbs,
            "pairs": len(single.pairs),
            "seed": self.settings.seed,
            # Number of tokens → how many verbs have so many.
            **{
                own.apart: {str(k): n for k, n in sorted(Counter(own.words.counts.tolist()).items())} for own in several
            },
        }

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "model": self.exported.name,
            "model sha256": self.exported.sha256,
            "lexicon sha256": self.lexicon.sha256,
            "patterns sha256": self.patterns.sha256,
            **{own.name.replace("_", " "): getattr(self.settings, own.name) for own in fields(Settings)},
            "verbs": str(self.settings.verbs if len(self.verbs) == 1 else VerbConvention.WHOLE_WORDS),
            **{decided_as("pairs per part", own.apart): own.pairs_per_part for own in self.verbs},
        }

    @property
    def row_columns(self) -> dict[str, Any]:
        words = [column(NAME), "gender", *(column(slot) for slot in (PRONOUN, PROFESSION, VERB))]
        words += [*([AT_MASK] if self.lexicon.at_mask else []), *(column(slot) for slot in self._further_slots)]
        return {**dict.fromkeys(words, pl.String), TOKENS: pl.Int32, **IN_PART}

    @property
    def _further_slots(self) -> list[str]:
        return [slot for slot in self.patterns.slots if slot not in WORD_SLOTS]

    @cached_property
    def composer(self) -> Composer:
        words = _words(self.lexicon, self.fillers)
        return composer(self.exported.tokenizer, self.patterns.selecting, words, self.settings.seed)

    @property
    def notes(self) -> Sequence[str]:
        taken = {int(number) for kind in self.verbs for number in kind.index}
        dropped = [repr(verb) for number, verb in enumerate(self.lexicon.verbs) if number not in taken]
        of = f"{counted(len(dropped), 'verb')} of {len(self.lexicon.verbs):,}"
        also = "" if len(self.verbs) > 1 else "; --verbs whole-words takes verbs of several tokens"
        found = (
            [f"select: {of} cannot be asked for as one token, so they are left out: {some(dropped)}{also}"]
            if dropped
            else []
        )
        for pattern, verbs in self.lost.items():
            if verbs:
                named = ", ".join(map(repr, verbs))
                found.append(f"select: {counted(len(verbs), 'verb')} of these for the mask of {pattern} alone: {named}")
        single, same = self.verbs[0], dict[int, list[str]]()
        for number, token in zip(single.index.tolist(), single.words.tokens[:, 0].tolist(), strict=True):
            same.setdefault(token, []).append(self.lexicon.verbs[number])
        if twice := [" = ".join(verbs) for verbs in same.values() if len(verbs) > 1]:
            found.append(f"select: verbs that are one token of this model, and are counted apart: {', '.join(twice)}")
        if self.settings.coreference == Coreference.PRONOUN:
            said = dict.fromkeys(pronoun_note(self.lexicon, pattern) for pattern in self.patterns.all)
            found += [f"select: {note}" for note in said if note]
        return found

    def check(self, say: Callable[[str], None]) -> None:
        pattern = self.patterns.selecting.name
        for verbs in self.verbs:
            tokens = "several tokens" if verbs.apart else "one token"
            say(f"{verbs.n:,} of {len(self.lexicon.verbs):,} verbs are {tokens} at the mask")
            if verbs.apart and self.unreachable:
                say(f"{len(self.unreachable):,} verbs cannot be predicted at all, such as: {self.unreachable[0]}")
            say(
                f"{counted(len(verbs.pairs), 'pair')}, {counted(verbs.size, 'candidate')}, "
                f"{counted(len(verbs.parts), 'part')}"
            )
            for number in np.unique(verbs.words.counts).tolist():
                longest = self.composer.longest({VERB: verbs.index[verbs.words.counts == number]}) + number - 1
                which = f"{pattern}, verbs of {number} tokens" if verbs.apart else pattern
                refuse_too_long(self.exported, longest, which)
        say(composed(pattern, self.composer))
        words = _words(self.lexicon, self.fillers)
        for own in self.patterns.scored:  # the scoring would refuse them
            whole = WholeSentenceComposer(self.exported.tokenizer, own, {slot: words[slot] for slot in own.slots})
            if whole.longest() > self.exported.max_length:  # a bound that no sentence reaches
                made = composer(self.exported.tokenizer, own, words, self.settings.seed)
                refuse_too_long(self.exported, made.longest(), own.name)

    def workloads(self) -> list[Workload]:
        return [self._workload(verbs) for verbs in self.verbs]

    def _workload(self, verbs: Verbs) -> Workload:
        decided, sample = decided_as(self.patterns.selecting.name, verbs.apart), partial(self.sample, verbs=verbs)
        total, pairs, enough = verbs.size, len(verbs.pairs), self.settings.max_verbs
        if not self.settings.lazy:
            return Workload(decided, sample, total)
        expected = min(total, 2 * pairs * enough)  # a lazy run is expected to test twice as many verbs as it keeps
        return Workload(decided, sample, expected, lambda rate: int(pairs * fewest_tests(verbs.n, enough, rate)))

    def sample(self, n: int, verbs: Verbs | None = None) -> EncodedSentences:
        """Random queries of the run, to calibrate on: of random candidates, each of whose tokens is as likely."""
        verbs = verbs or self.verbs[0]
        buckets, words = self._sentences(verbs, *verbs.locate(self.sample_indices(n, verbs)))
        token = np.random.default_rng([self.settings.seed, 1]).integers(0, words.counts)
        return sampled_queries(buckets, words, token, causal=self.exported.is_causal)

    def sample_indices(self, n: int, verbs: Verbs | None = None) -> NDArray[np.int64]:
        """The grid indices of `sample`, int64 [n], ascending; every verb is as frequent as every other."""
        verbs, random = verbs or self.verbs[0], np.random.default_rng(self.settings.seed)
        verb = np.concatenate([random.permutation(verbs.n) for _ in range(-(-n // verbs.n))])[:n]
        return np.sort(random.integers(0, len(verbs.pairs), n) * verbs.n + verb)

    def prepare(self, number: int) -> Sentences | None:
        """All candidates of a part as token ids; None in a lazy run, which chooses its tests step by step."""
        verbs, part = self.parts[number]
        return None if self.settings.lazy else self._sentences(verbs, *verbs.part_indices(part))

    def decide(self, model: PatternDeciders, number: int, prepared: Sentences | None, advance: Advance) -> PartResult:
        verbs, part = self.parts[number]
        pattern = decided_as(self.patterns.selecting.name, verbs.apart)
        decider, pairs = model.deciders[pattern], verbs.part_pairs(part)
        if prepared is None:
            found = self._decide_lazily(decider, verbs, pairs, advance)
        else:
            scores = finished(repeated_words(decider, *prepared, causal=self.exported.is_causal, advance=advance))
            (own,) = np.nonzero(scores.top1)
            repeated, known = scores.top1.reshape(-1, verbs.n), _counts(scores, repeating=len(own))
            found = Found(repeated, np.ones_like(repeated), own, scores.take(own), known)
        audited = take_audits({pattern: decider})
        rows = self._kept(verbs, pairs, found)
        begin = f"{verbs.apart}: " if verbs.apart else ""
        counts = {f"{begin}{name}": value for name, value in found.counts.items()}
        for tokens in np.unique(verbs.words.counts).tolist():
            which = verbs.words.counts == tokens
            counts[_TESTED.format(tokens)] = int(found.tested[:, which].sum())
            counts[_REPEATING.format(tokens)] = int(found.repeated[:, which].sum())
        return PartResult(rows, {**counts, **audited.counts}, audited.bounds, audited.needed)

    def _decide_lazily(self, decider: Decider, verbs: Verbs, pairs: Pairs, advance: Advance) -> Found:
        """Test the verbs of a part's pairs in the order of their keys until enough repeat (see `lazy`)."""
        name, profession = pairs
        rounds: list[tuple[NDArray[np.int64], WordScores]] = []  # candidates and their scores

        def decide(pair: NDArray[np.int64], verb: NDArray[np.int64]) -> NDArray[np.bool_]:
            sentences, causal = self._sentences(verbs, name[pair], profession[pair], verb), self.exported.is_causal
            scores = finished(repeated_words(decider, *sentences, causal=causal, advance=lambda _, n: advance(0, n)))
            rounds.append((pair * verbs.n + verb, scores))
            return scores.top1

        order = self.verb_order(verbs, pairs)
        found = first_repeating(order, self.settings.max_verbs, decide, lambda verbs: advance(verbs, 0))
        tested = np.zeros_like(found.repeated)
        np.put_along_axis(tested, order, np.arange(order.shape[1]) < found.tested[:, None], axis=1)
        candidates, scores = np.concatenate([own for own, _ in rounds]), WordScores.joined([own for _, own in rounds])
        (own,) = np.nonzero(scores.top1)
        own = own[np.argsort(candidates[own])]
        counts = _counts(scores, repeating=float(found.repeating.sum()), variance=float(found.variance.sum()))
        counts["stopped"] = int(found.stopped.sum())
        return Found(found.repeated, tested, candidates[own], scores.take(own), counts)

    def _kept(self, verbs: Verbs, pairs: Pairs, found: Found) -> pl.DataFrame:
        """The triplets of a part, by pair, then key: of each pair, the repeating verbs with the smallest keys."""
        name, profession = pairs
        order = self.verb_order(verbs, pairs)
        in_order = np.take_along_axis(found.repeated, order, axis=1)
        kept = in_order & (in_order.cumsum(axis=1) <= self.settings.max_verbs)
        pair, position = np.nonzero(kept)
        verb = order[pair, position]
        chosen, who, what = verbs.index[verb], name[pair], profession[pair]

        def words(slot: str) -> pl.Series:
            filler = self.fillers[slot]
            return pl.Series(filler.words, dtype=pl.String).gather(filler.index[who, what])

        forms = [FORMS_SEPARATOR.join(self.lexicon.accepted(verb)) for verb in self.lexicon.verbs]
        at_mask = {AT_MASK: pl.Series(forms, dtype=pl.String).gather(chosen)} if self.lexicon.at_mask else {}
        rows = np.searchsorted(found.candidates, pair * verbs.n + verb)
        answers = answer_columns(found.scores.take(rows), self.exported.tokenizer)
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

    def _sentences(
        self, verbs: Verbs, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]
    ) -> Sentences:
        slots = [slot for slot in self.patterns.selecting.slots if slot != VERB]
        indices = {VERB: verbs.index[verb], **{slot: self.fillers[slot].index[name, profession] for slot in slots}}
        return list(self.composer.compose(indices)), verbs.words.take(verb)

    def verb_order(self, verbs: Verbs, pairs: Pairs) -> NDArray[np.int64]:
        """Each pair's verbs by ascending key, int64 [pairs, verbs]."""
        return np.argsort(verb_order(self.lexicon, self.settings.seed, *pairs, verbs.index), axis=1, kind="stable")

    @classmethod
    def rows_of(cls, files: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        return rejoined(files[TRIPLETS_FILE], files[ANSWERS_FILE])

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """triplets.parquet, answers.parquet, and selection.json: rows 1 to 6 of the paper's Table 5, and more."""
        rows, counts, metadata = parts.rows.select(pl.exclude("triplet")), parts.counts, parts.metadata
        verbs: Mapping[str, int] = metadata.get(SEVERAL, {})
        triplets, answers = map(numbered, divided(rows if verbs else rows.drop(TOKENS, strict=False)))
        summary = _figures(metadata, counts, "", metadata["verbs"], of_one_token(triplets))
        files: dict[str, Result] = {TRIPLETS_FILE: triplets, ANSWERS_FILE: answers, SELECTION_FILE: summary}
        if not verbs:
            return files
        figures = _figures(metadata, counts, SEVERAL, sum(verbs.values()), triplets.filter(pl.col(TOKENS) > 1))
        apart = {name: value for name, value in figures.items() if name not in _OF_THE_RUN}
        numbers = {1: metadata["verbs"], **{int(tokens): n for tokens, n in verbs.items()}}
        summary[SEVERAL_TOKENS] = {**apart, "queries": counts[f"{SEVERAL}: queries"]}
        summary[BY_TOKENS] = []
        for tokens, n in numbers.items():
            tested, repeating = counts[_TESTED.format(tokens)], counts[_REPEATING.format(tokens)]
            ratio = 100 * repeating / tested if tested else 0.0
            row = {"tokens": tokens, "verbs": n, "tested": tested, "repeating": repeating, "ratio": ratio}
            summary[BY_TOKENS].append(row)
        return files


def _counts(scores: WordScores, *, repeating: float, variance: float = 0.0) -> dict[str, float]:
    return {
        "tested": len(scores.words),
        "repeating": repeating,
        "variance": variance,  # of `repeating`, where it is an estimate
        "near_ties": scores.near_ties(NEAR_TIE),
        "queries": scores.queries,
    }


def _figures(
    metadata: Mapping[str, Any], all_counts: Mapping[str, float], apart: str, verbs: int, triplets: pl.LazyFrame
) -> dict[str, Any]:
    begin = f"{apart}: " if apart else ""
    counts = {name: all_counts.get(f"{begin}{name}", 0) for name in _COUNTS}
    candidates = metadata["pairs"] * verbs
    figures = {
        "model": metadata["model"],
        "pattern": metadata["pattern"],
        "coreference": metadata["coreference"],
        "verbs": verbs,
        "pairs": metadata["pairs"],
        "tested": counts["tested"],
        "repeating": round(counts["repeating"]),
        "ratio": 100 * counts["repeating"] / candidates,
        "selected": int(triplets.select(pl.len()).collect().item()),
        "near_ties": counts["near_ties"],
        "precision": audit_summary(all_counts),
    }
    if metadata["lazy"]:
        share, variance = counts["repeating"] / candidates, counts["variance"] / candidates**2
        stopped, enough = int(counts["stopped"]), metadata["max verbs"]
        low, high = share_interval(share, variance, metadata["pairs"], stopped, enough)
        figures["lazy"] = {
            "candidates": candidates,
            "times_fewer_calls": candidates / counts["tested"],
            "ratio_low": 100 * low,
            "ratio_high": 100 * high,
        }
    return figures


def numbered(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows with a first column `triplet`, their number from 0 on."""
    return rows.with_row_index("triplet").cast({"triplet": pl.Int64})


def of_one_token(rows: Rows) -> Rows:
    """The rows of a file that are about verbs of one token, as a run without the others has them."""
    return rows.filter(pl.col(TOKENS) == 1).drop(TOKENS) if TOKENS in rows.collect_schema() else rows


def composed(pattern: str, made: Composer) -> str:
    """How a pattern's sentences are composed, in one line."""
    if made.slotwise:
        return f"{pattern}: token ids were compared with the tokenizer's on {made.proved:,} sentences"
    return f"{pattern}: every sentence is tokenized, which is slower: {made.reason}"


def _words(lexicon: Lexicon, fillers: Mapping[str, PairFillers]) -> dict[str, Sequence[str]]:
    return {VERB: lexicon.verbs, **{slot: filler.words for slot, filler in fillers.items()}}
