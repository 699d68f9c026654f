"""The kind `Word`: a text with one [MASK], and a word whose rank and log-probability at the mask are asked for.

texts and words → token ids → one of three ways to ask → answers by request

A text is read once in a part, however many requests have it. Where each text has one word of one token and its first
choice alone is kept, the model's own decisions say everything. Else all logits are judged on the core that computed
them; and words of several tokens are scored token by token, by a method of `inference.words`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.choices import TargetMethod
from ..basics.errors import InputError
from ..inference.again import Correlated, Draw, Item, Question, Sample, named
from ..inference.batches import TextBatch, finished, in_batches
from ..inference.exported import ExportedModel
from ..inference.free_text import MASK, one_mask
from ..inference.judge import judge
from ..inference.model import LanguageModel
from ..inference.words import WordScores, score_whole_words, score_words
from ..statistics.rank_correlation import spearman
from ..text.token_ids import NOTHING, Bucket, TokenSequences, in_buckets
from ..text.word_marks import Mark, WordClass, WordMarks
from .stage import TOKENS, Columns, Kind, RequestStage
from .stage import AdvanceTexts as Advance
from .vocabulary import Ranked, Vocabulary

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]
Logits = NDArray[np.float32]
EVERYTHING = Ranked()
LOGITS_AT_ONCE = 2**22  # of the first texts of a batch, on one core: 16 MB, and twice that for log-probabilities
NOT_READ = "words follow the answer, which a causal model does not read"
NOTHING_BEFORE = "nothing stands before the mask, where a causal model begins to read: give words before it, or --bos"
SEVERAL = "the answer is not one token of the model"
NOT_RANKED = "the answer is not among the ranked tokens"
TOO_LONG = "with a mask for each token of the word, the sentence is too long for the model"
_HERE = "here"


@dataclass(frozen=True, eq=False)
class Words:
    """Requests as token ids: m different texts, n requests."""

    why: Sequence[str | None]  # [n]
    ids: Sequence[Ids]  # [m]
    text: Rows  # [n], the text of each request
    against: Rows  # [n], the text that it is compared with, or -1
    words: TokenSequences  # [n], the tokens of each word; `NOTHING` where there is none
    has_word: NDArray[np.bool_]  # [n]
    mask_id: int
    texts: int  # how many of the m are asked

    def __len__(self) -> int:
        return self.texts

    def masked(self, text: int) -> tuple[Ids, int]:
        """A text, and the position of its mask."""
        return self.ids[text], int(np.argmax(self.ids[text] == self.mask_id))

    def buckets(self, rows: Rows) -> list[Bucket]:
        """A text for each of some requests, by length."""
        return list(in_buckets([self.ids[i] for i in self.text[rows].tolist()], self.mask_id))


@dataclass(frozen=True, eq=False)
class Found:
    """What a model answers to n requests with m texts."""

    top: NDArray[np.int64]  # [m, k], the first choices; `NOTHING` where they are not known
    top_logprob: NDArray[np.float64]  # [m, k]
    rank: Ids  # [n], from 1; of several tokens, the largest one
    logprob: NDArray[np.float64]  # [n]
    first: NDArray[np.bool_]  # [n]
    spearman: NDArray[np.float64]  # [n], NaN where it is not defined
    choices: dict[int, tuple[str, float]] = field(default_factory=dict)  # request of several tokens → its first choice

    @classmethod
    def empty(cls, asked: Words, k: int) -> "Found":
        n, m = len(asked.text), len(asked.ids)
        return cls(
            np.full((m, k), NOTHING, np.int64),
            np.full((m, k), np.nan),
            np.zeros(n, np.int32),
            np.full(n, np.nan),
            np.zeros(n, np.bool_),
            np.full(n, np.nan),
        )


@dataclass(frozen=True)
class Word(Kind[Any]):
    """Words at masks."""

    name: ClassVar[str] = "word"
    asks: ClassVar[Mapping[str, Any]] = {"text": pl.String, "word": pl.String}
    of_model: ClassVar[frozenset[str]] = frozenset({NOT_READ, SEVERAL, NOT_RANKED})
    stage: ClassVar[type[RequestStage]] = RequestStage

    top: int = 1  # how many first choices are kept
    ranked: Ranked = EVERYTHING  # the tokens that compete for ranks and first choices
    among_ranked: bool = False  # they also compete for probability; else the whole vocabulary does
    method: TargetMethod | None = None  # how a word of several tokens is scored; None: it cannot be asked for
    bos: bool = False  # the model's BOS token stands before each text

    @property
    def answers(self) -> Mapping[str, Any]:
        """Of the word: tokens, rank, logprob, first (it is the first choice); of the text: top1, top1_logprob …."""
        kinds = {"": pl.String, "_logprob": pl.Float64}
        tops = {f"top{i}{end}": kind for i in range(1, self.top + 1) for end, kind in kinds.items()}
        return {"tokens": pl.Int32, "rank": pl.Int32, "logprob": pl.Float64, "first": pl.Boolean, **tops}

    @property
    def identity(self) -> dict[str, Any]:
        own = {name: value for name, value in super().identity.items() if name != "ranked"}
        return {"vocabulary": self.ranked.name, "vocabulary sha256": self.ranked.sha256, **own}

    @classmethod
    def of(cls, identity: Mapping[str, Any], metadata: Mapping[str, Any]) -> Self:
        return replace(super().of(identity, metadata), ranked=Ranked.recorded(identity, metadata))

    def again(self, draw: Draw, requests: pl.LazyFrame) -> Sample:
        own, among = replace(draw, bos=self.bos), self._among(draw)
        return Sample("items", [self.recorded(row, among(self.question(own, row))) for row in own.rows(requests)])

    def recorded(self, request: Mapping[str, Any], question: Question) -> Item:  # noqa: ARG002 - others record more
        return question

    def question(self, draw: Draw, request: Mapping[str, Any]) -> Question:
        """A request with its answers, among all tokens; a word of several tokens by the method that has scored it."""
        word, k = request["word"], request["tokens"] or 1
        row = {
            "item": request["item"],
            "condition": request["condition"],
            "sentence": request["text"].strip().replace(MASK, draw.tokenizer.mask_token),
            "expected": None if word is None else word.strip(),
            "correct": request["first"],
            "answer": request["top1"],
            "answer_logprob": request["top1_logprob"],
            **{name: request[name] for name in ("rank", "logprob", "precision") if name in request},
        }
        by_token = word is not None and (k > 1 or self.method is TargetMethod.WHOLE_WORD)
        return replace(
            draw.question(row, k if by_token else 0),
            name=named(request),
            fills=self.method is not TargetMethod.ALL_MASKS,
        )

    def _among(self, draw: Draw) -> Callable[[Question], Question]:
        """Lets only those tokens compete that the kind ranks, or that can stand in the place of a word's token."""
        exported = draw.exported
        if self.method is TargetMethod.WHOLE_WORD:
            marks = WordMarks.of(draw.tokenizer, exported.vocab_size)
            return lambda question: _in_words(question, marks, causal=exported.is_causal)
        if (ranked := self.ranked_ids(exported)) is None:
            return lambda question: question
        others = np.setdiff1d(np.arange(exported.vocab_size), ranked)
        return lambda question: replace(question, unranked=(others,), among_ranked=self.among_ranked)

    def shown(self, mask_token: str) -> Mapping[str, pl.Expr]:
        return {
            "sentence": pl.col("text").str.replace_all(MASK, mask_token, literal=True),
            "expected": pl.col("word"),
            "answer": pl.col("top1"),
            "correct": pl.col("first"),
            "rank": pl.col("rank"),
            "logprob": pl.col("logprob"),
            "answer_logprob": pl.col("top1_logprob"),
        }

    def ranked_ids(self, exported: ExportedModel) -> Ids | None:
        """The tokens that compete, [m], ascending; None for all."""
        whole = self.ranked.name == Vocabulary.ALL
        return None if whole else self.ranked.ids(exported.tokenizer, exported.vocab_size)

    def work(self, asked: Words) -> dict[str, int]:
        several = int((asked.words.counts[asked.has_word] > 1).sum())
        return {
            "requests": len(asked.text),
            "different texts": len(asked),
            **({"words of several tokens": several} if several else {}),
            TOKENS: sum(len(own) for own in asked.ids),
        }

    def prepare(self, exported: ExportedModel, requests: pl.DataFrame) -> Words:
        tokenizer = exported.tokenizer_with(bos=self.bos)
        n, against = len(requests), pl.Series([None] * len(requests), dtype=pl.String)
        against = requests["against"] if "against" in requests.columns else against
        places = dict[str | None, int]()
        given = [*requests["text"].str.strip_chars(), *against.str.strip_chars()]
        place = np.array([places.setdefault(text, len(places)) for text in given], np.int64)
        texts = [(text or "").replace(MASK, tokenizer.mask_token) for text in places]
        ids = tokenizer.encode_any(texts)
        faults = [self._text_fault(exported, text, own) for text, own in zip(texts, ids, strict=True)]
        text, other = place[:n], np.where(against.is_null().to_numpy(), -1, place[n:])
        why = [faults[one] or (faults[two] if two >= 0 else None) for one, two in zip(text, other, strict=True)]
        words: list[tuple[int, ...]] = [()] * n
        expected = requests["word"].str.strip_chars().to_list()
        rows = [row for row, word in enumerate(expected) if word is not None and why[row] is None]
        contexts = [texts[i].partition(tokenizer.mask_token)[::2] for i in text[rows]]
        found = tokenizer.word_sequences(contexts, [expected[row] for row in rows], [ids[i] for i in text[rows]])
        ranked = self.ranked_ids(exported)
        competing = None if ranked is None else frozenset(ranked.tolist())
        for row, own in zip(rows, found, strict=True):
            why[row] = self._word_fault(own, len(ids[text[row]]), exported.max_length, competing)
            words[row] = own if isinstance(own, tuple) else ()
        sequences = TokenSequences.of([own or (NOTHING,) for own in words])
        has_word = np.array([bool(own) for own in words], np.bool_)
        used = [own is not None for own in places]  # null stands for no text
        return Words(why, ids, text, other, sequences, has_word, tokenizer.mask_id, sum(used))

    def _text_fault(self, exported: ExportedModel, text: str, ids: Ids) -> str | None:
        tokenizer = exported.tokenizer_with(bos=self.bos)
        try:
            mask = one_mask(exported, tokenizer, ids, _HERE)
        except InputError as error:
            return str(error).removeprefix(f"{_HERE}: ")
        if not tokenizer.reads(text):
            return NOT_READ
        return NOTHING_BEFORE if exported.is_causal and mask == 0 else None

    def _word_fault(
        self, tokens: tuple[int, ...] | str, length: int, longest: int, ranked: frozenset[int] | None
    ) -> str | None:
        """Why a word cannot be asked for; a text in place of its tokens says why it has none."""
        if isinstance(tokens, str):
            return tokens if self.method else SEVERAL
        if len(tokens) > 1 and (self.method is None or ranked is not None):
            return SEVERAL
        if ranked is not None and tokens[0] not in ranked:
            return NOT_RANKED
        return TOO_LONG if length - 1 + len(tokens) > longest else None

    def answer(self, model: LanguageModel, asked: Words, advance: Advance) -> Columns:
        ranked = self.ranked_ids(model.exported)
        found = Found.empty(asked, min(self.top, model.exported.vocab_size if ranked is None else len(ranked)))
        one = asked.has_word & (asked.words.counts == 1) & (self.method is not TargetMethod.WHOLE_WORD)
        single, several = np.flatnonzero(one | ~asked.has_word), np.flatnonzero(asked.has_word & ~one)
        alone = one[single].all() and len(np.unique(asked.text[single])) == len(single)
        if alone and self.top == 1 and ranked is None and (asked.against < 0).all():
            self._decide(model, asked, single, found, advance)
        else:
            self._judge(model, asked, single, ranked, found, advance)
        self._score(model, asked, several, found, advance)
        return self._columns(model.exported, asked, found)

    @staticmethod
    def _decide(model: LanguageModel, asked: Words, rows: Rows, found: Found, advance: Advance) -> None:
        """One word for each text: the model's own decisions say everything, and no logits are copied."""
        buckets = asked.buckets(rows)
        of = [rows[bucket.rows] for bucket in buckets]
        tokens = [asked.words.tokens[own, 0] for own in of]
        groups = [(own.ids, own.mask_position, some) for own, some in zip(buckets, tokens, strict=True)]
        for own, some, decided in zip(of, tokens, model.decide_each(groups, advance), strict=True):
            text = asked.text[own]
            found.rank[own], found.logprob[own] = decided.expected_rank, decided.expected_logprob
            found.first[own] = decided.repeated(some)
            found.top[text, 0], found.top_logprob[text, 0] = decided.top1, decided.top1_logprob

    def _judge(
        self, model: LanguageModel, asked: Words, rows: Rows, ranked: Ids | None, found: Found, advance: Advance
    ) -> None:
        """From all logits, some at a time; a text that is compared with another one is read beside it."""
        both = zip(asked.text[rows].tolist(), asked.against[rows].tolist(), strict=True)
        pairs = dict.fromkeys((one, two) for one, two in both if two >= 0)
        paired = {text for pair in pairs for text in pair}
        units = [*pairs, *((text,) for text in dict.fromkeys(asked.text[rows].tolist()) if text not in paired)]
        home = {text: (unit, side) for unit, own in reversed(list(enumerate(units))) for side, text in enumerate(own)}
        words = dict[tuple[int, int], list[int]]()  # unit and side → the requests whose words are asked for there
        for row in rows[asked.has_word[rows]].tolist():
            words.setdefault(home[int(asked.text[row])], []).append(row)
        encoded = [[asked.masked(text) for text in own] for own in units]
        planned = in_batches(encoded, max(1, LOGITS_AT_ONCE // model.exported.vocab_size), model.divide_together)
        related = np.full(len(units), np.nan)

        def of_words(side: int, of: Rows) -> tuple[Rows, Rows, Ids]:
            """Of some units the requests, the place of each among the units, and its token."""
            both = [(row, place) for place, unit in enumerate(of.tolist()) for row in words.get((unit, side), ())]
            own, place = np.array(both, np.int64).reshape(-1, 2).T
            return own, place, asked.words.tokens[own, 0]

        def answered(number: int, logits: list[Logits]) -> None:
            for side, of, own in _sides(planned[number], logits):
                which, place, tokens = of_words(side, of)
                told = judge(own, found.top.shape[1], place, tokens, ranked, among_ranked=self.among_ranked)
                texts = [units[unit][side] for unit in of.tolist()]
                found.top[texts], found.top_logprob[texts] = told.top, told.top_logprob
                found.rank[which], found.logprob[which] = told.rank, told.logprob
                found.first[which] = told.top[place, 0] == tokens
            for of, *both in _compared(planned[number], logits):
                kept = both if ranked is None else [own[:, ranked] for own in both]
                related[of] = spearman(*kept)
            advance(sum(map(len, logits)))

        finished(model.reduce_logits([batch.sentences(encoded) for batch in planned], answered))
        numbers = {pair: number for number, pair in enumerate(pairs)}
        for row in rows[asked.against[rows] >= 0].tolist():
            found.spearman[row] = related[numbers[int(asked.text[row]), int(asked.against[row])]]

    def _score(self, model: LanguageModel, asked: Words, rows: Rows, found: Found, advance: Advance) -> None:
        """Words of several tokens, by the method."""
        if not len(rows) or self.method is None:
            return
        exported, words, sentences = model.exported, asked.words.take(rows), asked.buckets(rows)
        scores: WordScores
        if self.method is TargetMethod.WHOLE_WORD:
            marks = WordMarks.of(exported.tokenizer, exported.vocab_size)
            scores = score_whole_words(model, sentences, words, marks, advance=advance)
        else:
            scores = finished(
                score_words(model, sentences, words, self.method, causal=exported.is_causal, advance=advance)
            )
        found.rank[rows], found.logprob[rows], found.first[rows] = scores.worst_rank, scores.logprob, scores.top1
        of_each = zip(rows.tolist(), scores.choices.tolist(), scores.choice_logprob.tolist(), strict=True)
        for (row, choices, logprob), count in zip(of_each, words.counts.tolist(), strict=True):
            found.choices[row] = exported.tokenizer.word_text(choices[:count]), logprob

    def _columns(self, exported: ExportedModel, asked: Words, found: Found) -> Columns:
        def of_words(values: NDArray[Any]) -> pl.Series:
            return pl.Series(values).set(pl.Series(~asked.has_word), None)

        columns = {
            "tokens": of_words(asked.words.counts),
            "rank": of_words(found.rank),
            "logprob": of_words(found.logprob),
            "first": of_words(found.first),
            "spearman": found.spearman,
        }
        names = {i: exported.tokenizer.token_text(i) for i in np.unique(found.top).tolist() if i != NOTHING}
        for i in range(self.top):
            said: list[str | None] = [None] * len(asked.text)
            chance = [np.nan] * len(asked.text)
            if i < found.top.shape[1]:
                said = [names.get(token) for token in found.top[asked.text, i].tolist()]
                chance = found.top_logprob[asked.text, i].tolist()
            for row, choice in found.choices.items():
                said[row], chance[row] = choice if i == 0 else (None, np.nan)
            columns |= {f"top{i + 1}": pl.Series(said, dtype=pl.String), f"top{i + 1}_logprob": np.array(chance)}
        return columns


@dataclass(frozen=True)
class ComparedWord(Word):
    """Words at masks, and Spearman's correlation of the ranked scores at the mask of `text` and of `against`."""

    asks: ClassVar[Mapping[str, Any]] = {**Word.asks, "against": pl.String}

    @property
    def answers(self) -> Mapping[str, Any]:
        return {**super().answers, "spearman": pl.Float64}

    def recorded(self, request: Mapping[str, Any], question: Question) -> Item:
        if request["spearman"] is None:
            return question
        mask = question.tokenizer.mask_token
        return Correlated(question, request["against"].strip().replace(MASK, mask), request["spearman"])


def _in_words(question: Question, marks: WordMarks, *, causal: bool) -> Question:
    """A token competes only with those that can stand there, and the end of the word counts where it is a choice."""
    unranked = []
    for query, tokens in enumerate(question.tokens):
        own = marks.classes[list(tokens)]
        if not causal:
            competes = np.isin(marks.classes, own)
        elif query or marks.mark is Mark.END:
            competes = np.ones(len(marks.classes), np.bool_)
        else:
            competes = marks.unmarked if (own == WordClass.CONTINUES).all() else marks.breaks
        unranked.append(np.flatnonzero(~competes))
    ends = marks.breaks if causal and marks.mark is not Mark.END else None
    return replace(question, unranked=tuple(unranked), among_ranked=True, ends=ends)


def _sides(batch: TextBatch, logits: Sequence[Logits]) -> Iterator[tuple[int, Rows, Logits]]:
    """First or second texts (0 or 1), which units they belong to, and their logits, float32 [n, V]."""
    yield 0, batch.rows, logits[0]
    for part, own in zip(batch.alike, logits[1:], strict=True):
        yield 1, batch.rows[part], own


def _compared(batch: TextBatch, logits: Sequence[Logits]) -> Iterator[tuple[Rows, Logits, Logits]]:
    """Units of two texts, and the logits of both."""
    for part, own in zip(batch.alike, logits[1:], strict=True):
        yield batch.rows[part], logits[0][part], own
