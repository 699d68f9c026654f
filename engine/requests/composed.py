"""Requests that are composed: patterns over a table of words, whose token ids are put together, not tokenized.

words × patterns → requests with their texts, part by part → token ids → first choices, also in mixed precision
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.errors import InputError
from ..inference.again import Draw, Question
from ..inference.batches import finished, gathered
from ..inference.exported import PRECISIONS, refuse_too_long
from ..inference.free_text import MASK
from ..inference.mixed import FIRST_CHOICES, Method
from ..inference.model import Decider, Decisions, LanguageModel
from ..inference.precision import Workload
from ..runs.masked_stages import Deciders
from ..runs.stage import part_ranges
from ..text.composition import Composer, composer
from ..text.pattern import VERB, Pattern, column, expected_verbs, sentence_texts
from ..text.token_ids import Bucket, EncodedSentences
from .items import WHY
from .stage import AdvanceTexts, Columns, Kind, MixedRequests, Part, RequestStage, Source, complete
from .word import Word

NOT_A_TEXT = "a word of the sentence is not a text of its own, such as a byte"
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Composed(Source):
    """Each pattern over each row of words, a source of `RequestStage`. A part is a range of rows, pattern by pattern.

    A request has the columns of its row, `condition`, `pattern` and `role`; a reason in `why` where it lacks a word.
    """

    words: pl.DataFrame  # null where a word cannot be written
    columns: Mapping[str, str]  # slot → its column of `words`; that of `VERB` is the word at the mask
    patterns: Sequence[tuple[str, Pattern]]  # the condition of each
    keys: Mapping[str, pl.Expr]  # further columns of a request, `token` among them: the token at the mask
    kind: Kind[Any]
    dataset: str
    per_part: int  # rows of words
    seed: int  # of the sentences that are compared with the tokenizer's, and of the audit

    @cached_property
    def parts(self) -> tuple[range, ...]:
        return part_ranges(len(self.words), self.per_part)

    @property
    def sizes(self) -> Sequence[int]:
        return [len(part) * len(self.patterns) for part in self.parts]

    def read(self, number: int) -> pl.DataFrame:
        part, made = self.parts[number], []
        rows = self.words.slice(part.start, len(part))
        slots = rows.select(pl.col(name).alias(column(slot)) for slot, name in self.columns.items())
        for condition, pattern in self.patterns:
            named = {"pattern": pl.lit(pattern.name), "role": pl.lit(str(pattern.role))}
            texts = slots.select(text=sentence_texts(pattern, MASK), word=expected_verbs(pattern))
            own = rows.with_columns(*texts, condition=pl.lit(condition), **named)
            lacks = pl.any_horizontal(pl.col("text", "word").is_null())
            made.append(own.with_columns(pl.when(lacks).then(pl.lit(NOT_A_TEXT)).alias(WHY), **self.keys))
        return complete(pl.concat(made), self.kind, self.dataset)


def distinct(words: pl.Series) -> tuple[list[str], NDArray[np.int32]]:
    """The distinct words of a column by their first rows, [m]; and each row's index among them, [n]."""
    coded = words.cast(pl.Categorical) if words.dtype == pl.String else words
    own, numbers = coded.unique(maintain_order=True), coded.to_physical()
    place = np.zeros(int(numbers.max() or 0) + 1, np.int32)  # type: ignore[arg-type]
    place[own.to_physical().to_numpy()] = np.arange(len(own))
    return own.cast(pl.String).to_list(), place[numbers.to_numpy()]


@dataclass(frozen=True, eq=False)
class ComposedPattern:
    """A pattern over all rows of words that it can hold."""

    decided_as: str  # for what the precision of its decisions is chosen
    pattern: Pattern
    composer: Composer
    fillers: Mapping[str, NDArray[np.int32]]  # slot → [n], indices in the slot's different words

    def compose(self, of: Rows | slice) -> list[Bucket]:
        return list(self.composer.compose(self.numbers(of)))

    def numbers(self, of: Rows | slice) -> dict[str, Rows]:
        return {slot: own[of].astype(np.int64) for slot, own in self.fillers.items()}


@dataclass(frozen=True, eq=False)
class OfSomeRows(ComposedPattern):
    """A pattern that some rows of words have no word for."""

    rows: Rows  # [n], the numbers of the others, ascending


@dataclass(frozen=True, eq=False)
class ComposedWords:
    """Requests as token ids: those of one pattern after those of another."""

    buckets: Sequence[tuple[str, Sequence[Bucket]]]  # condition, and sentences with their places among all requests
    tokens: NDArray[np.int32]  # [n], the word of each request
    why: Sequence[None] = ()  # a reason is known without a tokenizer

    def __len__(self) -> int:
        return len(self.tokens)


class ComposedRequests(MixedRequests[LanguageModel, Decider]):
    """First choices are those of the reference model, whatever graph decides them; `precision` names it."""

    method: ClassVar[Method] = FIRST_CHOICES
    requests: Composed

    @property
    def seed(self) -> int:
        return self.requests.seed

    @cached_property
    def composed(self) -> tuple[OfSomeRows, ...]:
        """The patterns that can hold some words."""
        found, words = [], self.requests.words
        for condition, pattern in self.requests.patterns:
            names = {slot: self.requests.columns[slot] for slot in (VERB, *pattern.slots)}
            good = words.select(pl.all_horizontal(pl.col(*names.values()).is_not_null())).to_series()
            if good.any():
                coded = {slot: distinct(words.filter(good)[name]) for slot, name in names.items()}
                every = {slot: own for slot, (own, _) in coded.items()}
                fillers = {slot: own for slot, (_, own) in coded.items()}
                made = composer(self.exported.tokenizer, pattern, every, self.seed, sentences=fillers)
                rows = good.arg_true().to_numpy().astype(np.int64)
                found.append(OfSomeRows(condition, pattern, made, fillers, rows))
        return tuple(found)

    def check(self, say: Callable[[str], None]) -> None:
        known = {own.decided_as for own in self.composed}
        if lost := [condition for condition, _ in self.requests.patterns if condition not in known]:
            raise InputError(f"{lost[0]}: its sentences can hold none of the words; choose other words")
        for own in self.composed:
            refuse_too_long(
                self.exported, own.composer.longest(own.numbers(slice(None))), f"{own.decided_as} {own.pattern.name}"
            )
        asked = sum(len(own.rows) for own in self.composed)
        say(f"{asked:,} of {sum(self.sizes):,} requests can be asked")

    def workloads(self) -> list[Workload]:
        """The patterns of a condition have one precision: their errors are alike."""
        sizes = dict[str, int]()
        for own in self.composed:
            sizes[own.decided_as] = sizes.get(own.decided_as, 0) + len(own.rows)
        return [Workload(condition, partial(self.sample, condition), n) for condition, n in sizes.items()]

    def sample(self, condition: str, n: int) -> EncodedSentences:
        """Random sentences of all patterns of a condition, for the calibration."""
        patterns = [own for own in self.composed if own.decided_as == condition]
        ends = np.cumsum([len(own.rows) for own in patterns])
        drawn = np.sort(np.random.default_rng(self.seed).permutation(ends[-1])[:n])
        number = np.searchsorted(ends, drawn, side="right")
        tokens, buckets = np.empty(len(drawn), np.int32), []
        every = self.requests.words.select(token=self.requests.keys["token"])["token"].to_numpy()
        for i, own in enumerate(patterns):
            (places,) = np.nonzero(number == i)
            rows = drawn[places] - (ends[i] - len(own.rows))
            tokens[places] = every[own.rows[rows]]
            buckets += [replace(bucket, rows=places[bucket.rows]) for bucket in own.compose(rows)]
        return EncodedSentences(buckets, tokens)

    def prepare(self, number: int) -> Part:
        part, requests, buckets, begin = self.requests.parts[number], self.requests.read(number), [], 0
        for own in self.composed:
            first, stop = np.searchsorted(own.rows, (part.start, part.stop)).tolist()
            made = [replace(bucket, rows=bucket.rows + begin) for bucket in own.compose(slice(first, stop))]
            buckets.append((own.decided_as, made))
            begin += stop - first
        tokens = requests.filter(pl.col(WHY).is_null())["token"].to_numpy()
        return requests, ComposedWords(buckets, tokens)


@dataclass(frozen=True)
class FirstWord(Word):
    """Words in composed sentences, by their tokens: what is exact is whether they are first choices."""

    asks: ClassVar[Mapping[str, Any]] = {**Word.asks, "token": pl.Int32}
    stage: ClassVar[type[RequestStage]] = ComposedRequests

    @property
    def answers(self) -> Mapping[str, Any]:
        return {**super().answers, "top1_id": pl.Int32, "precision": pl.String}

    def question(self, draw: Draw, request: Mapping[str, Any]) -> Question:
        return replace(super().question(draw, {**request, "word": None}), tokens=((request["token"],),))

    def answer(  # type: ignore[override]  # they are composed
        self, model: Deciders[LanguageModel, Decider], asked: ComposedWords, advance: AdvanceTexts
    ) -> Columns:
        def groups(buckets: Sequence[Bucket]) -> list[tuple[NDArray[np.int32], ...]]:
            return [(own.ids, own.mask_position, asked.tokens[own.rows]) for own in buckets]

        steps = (model.deciders[name].deciding_each(groups(own), advance) for name, own in asked.buckets)  # type: ignore[arg-type]
        found = Decisions.empty(len(asked))
        for (_, buckets), decided in zip(asked.buckets, finished(gathered(steps)), strict=True):
            for bucket, own in zip(buckets, decided, strict=True):
                found.put(bucket.rows, own)
        tops, where = np.unique(found.top1, return_inverse=True)
        texts = [model.models.reference.exported.tokenizer.token_text(token) for token in tops.tolist()]
        return {
            "tokens": np.ones(len(found), np.int32),
            "rank": found.expected_rank,
            "logprob": found.expected_logprob,
            "first": found.top1 == asked.tokens,
            "top1": pl.Series(texts, dtype=pl.String).gather(where),
            "top1_logprob": found.top1_logprob,
            "top1_id": found.top1,
            "precision": pl.Series(PRECISIONS, dtype=pl.String).gather(found.precision),
        }
