"""Requests of the kind `Span`: how probable is a text behind a context?

The answer is the sum of the log-probabilities (natural logarithms) of the tokens of the text: the exact log-likelihood
of a causal model, the pseudo-log-likelihood of a masked one. A word is what stands between two spaces.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import sqrt
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..inference.again import ROUNDING, Compared, Draw, Reading, Reference, Sample, Verdict, named
from ..inference.causal import CausalLM
from ..inference.exported import ExportedModel
from ..inference.free_text import MASK
from ..inference.model import LanguageModel
from ..inference.spans import (
    Encoder,
    Method,
    Sentence,
    beginnings,
    behind,
    causal_logprobs,
    log_beginnings,
    pseudo_logprobs,
)
from ..text.spelling import WHITE_SPACE, trimmed
from .stage import TOKENS as READ
from .stage import AdvanceTexts as Advance
from .stage import Kind, RequestStage

TOKENS, WORDS = "each token", "each word"
EACH: Mapping[str, pl.DataType] = {
    TOKENS: pl.List(pl.Struct({"number": pl.Int32, "token": pl.String, "word": pl.Int32, "logprob": pl.Float32})),
    WORDS: pl.List(pl.Struct({"number": pl.Int32, "word": pl.String, "tokens": pl.Int32, "logprob": pl.Float64})),
}
"""What can be asked for each request: its tokens and its words, counted from 1, with their log-probabilities."""
_ALONE = "the text is one token, and nothing stands before it: give more words, or --bos"
_EMPTY = "the text has no token; a text is needed"
ALONE = "alone"
"""The role of a request that is its text without its context, on the same tokens as behind it."""
PSEUDO, LOG_LIKELIHOOD = "pseudo-log-likelihood", "log-likelihood"
_FEWER = 10
_WORD = re.compile(r"\S+")
_ONE_WORD, _LETTER = r"^\s*\S*\s*$", r"[\p{L}\p{N}]"  # \w has accents and joiners too, which some tokenizers drop


@dataclass(frozen=True, eq=False)
class Spans:
    """Requests of a part as token ids: n requests, m different texts that can be scored."""

    why: list[str | None]  # [n], why a request cannot be asked
    place: pl.Series  # [n], the text of each request; null where it cannot be asked
    texts: list[tuple[str, int]]  # [m], with its context, and how many first characters are given
    sentences: list[Sentence]  # [m]
    encoder: Encoder
    longest: int  # how many tokens the model takes

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True)
class Span(Kind[Spans]):
    """Texts behind contexts; a request without a context is a text alone."""

    name: ClassVar[str] = "span"
    asks: ClassVar[Mapping[str, Any]] = {"context": pl.String, "text": pl.String}
    stage: ClassVar[type[RequestStage]] = RequestStage

    method: Method | None = None  # of a masked model; None for a causal one
    windows: bool = False  # whether a text that is too long is read in windows
    bos: bool = False  # whether the model's BOS token is put before each text
    joiner: str | None = None  # what stands between context and text; None for the rule of `spelling`
    each: tuple[str, ...] = ()  # keys of `EACH`
    bow_correction: bool = False  # whether a word has the probability of its own end, not that of the word before

    @property
    def identity(self) -> dict[str, Any]:
        return {"scores": LOG_LIKELIHOOD if self.method is None else PSEUDO, **super().identity}

    def again(self, draw: Draw, requests: pl.LazyFrame) -> Sample:
        """One sentence of so many items that are asked for: each of its tokens is a run of the model."""
        some = replace(draw, size=max(1, draw.size // _FEWER)).rows(requests)
        return Sample("sentences", [Scored(row, self) for row in some])

    def shown(self, mask_token: str) -> Mapping[str, pl.Expr]:  # noqa: ARG002 - such a text has no mask
        def whole(rows: pl.Series) -> pl.Series:
            own = rows.struct.unnest()
            if not own["context"].count():  # as in millions of sentences
                return own["text"].str.strip_chars(WHITE_SPACE).alias(rows.name)
            return pl.Series(rows.name, [self.read(*each)[0] for each in own.iter_rows()], pl.String)

        before, nothing = pl.when(pl.col("role").ne_missing(ALONE)).then("context"), pl.lit(None, pl.String)
        return {
            "condition": pl.coalesce("role", "condition"),
            "sentence": pl.struct(before.alias("context"), "text").map_batches(whole, pl.String, is_elementwise=True),
            "expected": nothing,
            "answer": nothing,
            "rank": nothing.cast(pl.Int32),
            "logprob": pl.col("logprob"),
        }

    @property
    def answers(self) -> Mapping[str, Any]:
        return {
            "logprob": pl.Float64,  # of all scored tokens
            "tokens": pl.Int32,  # that are scored
            "words": pl.Int32,  # all of whose tokens are scored
            "characters": pl.Int32,
            "bytes": pl.Int32,  # of its characters in UTF-8
            "word_logprob": pl.Float64,  # of these words
            "unscored": pl.Int32,  # the first token, where nothing stands before it, so that it has no score
            "unknown": pl.Boolean,  # whether a scored token is the unknown one
            **{name: EACH[name] for name in self.each},
        }

    def read(self, context: str | None, text: str) -> tuple[str, int]:
        """A request as a model reads it, and how many of its first characters are given."""
        before = "" if context is None else trimmed(context)
        return behind(before, trimmed(text), self.joiner) if before else (trimmed(text), 0)

    def faults(self, exported: ExportedModel, requests: pl.DataFrame) -> list[str | None]:
        """Why requests cannot be asked; they are tokenized only where length or characters leave it open."""
        encoder = Encoder.of(exported, bos=self.bos)
        text = pl.col("text")
        found = text.str.contains(_ONE_WORD) | ~text.str.contains(_LETTER)
        found |= pl.concat_str("context", "text", ignore_nulls=True).str.contains_any(_special(encoder))
        if not self.windows:
            # A token covers at least one byte of the normalised text, or marks the start of a word. Normalisation can
            # make a text longer: some letters become whole words.
            both = pl.concat_str("context", pl.lit(self.joiner or " "), "text", ignore_nulls=True)
            longest = pl.max_horizontal(both.str.len_bytes(), both.str.normalize("NFKD").str.len_bytes())
            found |= longest * 2 + encoder.tokenizer.n_special_tokens() + 1 > exported.max_length
        why: list[str | None] = [None] * len(requests)
        rows = requests.select(found.fill_null(value=True)).to_series().arg_true()
        for row, own in zip(rows.to_list(), self.prepare(exported, requests[rows]).why, strict=True):
            why[row] = own
        return why

    def work(self, asked: Spans) -> dict[str, int]:
        """Windows of a causal model overlap, which is not counted."""
        scored = sum(len(own.scored) for own in asked.sentences)
        read = (len(own.scored) * min(len(own.ids), asked.longest) for own in asked.sentences)  # masked copies
        return {
            "texts": len(asked.sentences),
            "tokens to score": scored,
            **({} if self.method is None else {"masked copies that the model reads": scored}),
            READ: sum(len(own.ids) for own in asked.sentences) if self.method is None else sum(read),
        }

    def prepare(self, exported: ExportedModel, requests: pl.DataFrame) -> Spans:
        encoder, known = Encoder.of(exported, bos=self.bos), dict[tuple[str | None, str, bool], int]()
        asked = requests.select("context", "text", pl.col("role").eq_missing(ALONE))
        place = [known.setdefault(own, len(known)) for own in asked.iter_rows()]
        texts = [self.read(context, text) for context, text, _ in known]
        sentences = encoder.encode([text for text, _ in texts], [given for _, given in texts])
        alone = (is_alone for _, _, is_alone in known)
        sentences = [encoder.alone(own) if cut else own for own, cut in zip(sentences, alone, strict=True)]
        special = pl.Series([text for text, _ in texts], dtype=pl.String).str.contains_any(_special(encoder))
        longest = None if self.windows else exported.max_length
        why = [
            _fault(encoder, text, own, longest, may_be_special=odd)
            for (text, _), own, odd in zip(texts, sentences, special, strict=True)
        ]
        good = [i for i, reason in enumerate(why) if reason is None]
        number = dict(zip(good, range(len(good)), strict=True))
        own = pl.Series([number.get(i) for i in place], dtype=pl.UInt32)
        return Spans(
            [why[i] for i in place],
            own,
            [texts[i] for i in good],
            [sentences[i] for i in good],
            encoder,
            exported.max_length,
        )

    def answer(self, model: LanguageModel, asked: Spans, advance: Advance) -> Mapping[str, pl.Series]:
        """The columns of `answers` for each request; threads tell `advance` how many texts the model has read."""
        known = asked.encoder, asked.sentences
        if isinstance(model, CausalLM):
            logprobs = causal_logprobs(model, *known, asked.longest, advance)
        else:
            logprobs = pseudo_logprobs(model, *known, self.method or Method.ORIGINAL, asked.longest, advance)
        texts = list(map(_Text.of, asked.texts, asked.sentences, _divided(logprobs, asked.sentences)))
        ends: Sequence[NDArray[np.float64] | None] = [None] * len(texts)
        if self.bow_correction and isinstance(model, CausalLM):
            ends = log_beginnings(model, asked.sentences, [own.bounds for own in texts], beginnings(model.exported))
        unknown, token = asked.encoder.tokenizer.unknown_id, _named(asked)
        found: dict[str, Iterable[Any]] = {
            "logprob": (float(own.logprobs.sum(dtype=np.float64)) for own in texts),
            "tokens": (len(own.logprobs) for own in texts),
            "words": (int(own.whole.sum()) for own in texts),
            "characters": (len(text[given:].strip()) for text, given in asked.texts),
            "bytes": (len(text[given:].strip().encode()) for text, given in asked.texts),
            "word_logprob": (float(own.by_word[own.whole].sum()) for own in texts),
            "unscored": (own.first for own in texts),
            "unknown": (bool((own.sentence.tokens == unknown).any()) for own in texts),
            TOKENS: (own.tokens(token) for own in texts),
            WORDS: (own.words(end) for own, end in zip(texts, ends, strict=True)),
        }
        return {
            name: pl.Series(name, list(found[name]), kind).gather(asked.place) for name, kind in self.answers.items()
        }


def _special(encoder: Encoder) -> list[str]:
    decoder = encoder.tokenizer.backend.get_added_tokens_decoder().values()
    return [MASK, *(token.content for token in decoder if token.special)]


def _fault(encoder: Encoder, text: str, sentence: Sentence, longest: int | None, *, may_be_special: bool) -> str | None:
    """Why a text cannot be scored; None if it can. Each is a phrase without numbers of its text, to be counted by."""
    if may_be_special:
        token = MASK if MASK in text else encoder.tokenizer.special_token_in([text])[0]
        if token is not None:
            return f"the text holds the special token {token!r}; give a sentence in plain words"
    if not len(sentence.scored):
        return _ALONE if encoder.is_causal and len(sentence.ids) else _EMPTY
    if longest is not None and len(sentence.ids) > longest:
        return f"the text has more tokens than the model takes ({longest:,}): shorten it, or give --windows"
    return None


def _divided(logprobs: NDArray[np.float32], sentences: Sequence[Sentence]) -> list[NDArray[np.float32]]:
    return np.split(logprobs, np.cumsum([len(own.scored) for own in sentences])[:-1]) if sentences else []


def _named(asked: Spans) -> Callable[[int], str]:
    return cache(asked.encoder.tokenizer.token_text)


@dataclass(frozen=True, eq=False)
class _Text:
    """A text with its log-probabilities: s scored tokens, n words behind the characters that are given."""

    sentence: Sentence
    logprobs: NDArray[np.float32]  # [s]
    spelled: Sequence[str]  # [n], the words
    word: NDArray[np.int64]  # [s], the word of each scored token
    by_word: NDArray[np.float64]  # [n], the sum over the scored tokens of each word
    # bool [n], whether all tokens of a word are scored: without BOS nothing stands before a text's first token
    whole: NDArray[np.bool_]
    first: int | None  # the first token, where it has no score for that reason

    @classmethod
    def of(cls, text: tuple[str, int], sentence: Sentence, logprobs: NDArray[np.float32]) -> "_Text":
        whole_text, given = text
        found, first = list(_WORD.finditer(whole_text, given)), sentence.content.start
        ends = np.array([own.end() for own in found], np.int64)
        word = np.minimum(np.searchsorted(ends, sentence.start, side="right"), len(found) - 1)
        whole, lacks_first = np.ones(len(found), np.bool_), not given and first not in sentence.scored
        if lacks_first:
            whole[word[first]] = False
        own = word[sentence.scored]
        by_word = np.bincount(own, logprobs.astype(np.float64), minlength=len(found)).astype(np.float64)
        unscored = int(sentence.ids[first]) if lacks_first else None
        return cls(sentence, logprobs, [one.group() for one in found], own, by_word, whole, unscored)

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The position of the first token of each word with scored tokens, and that behind the last one."""
        begins = self.sentence.scored[np.unique(self.word, return_index=True)[1]]
        return np.append(begins, self.sentence.content.stop)

    def tokens(self, named: Callable[[int], str]) -> list[dict[str, Any]]:
        own = zip(map(named, self.sentence.tokens.tolist()), self.word.tolist(), self.logprobs.tolist(), strict=True)
        return [
            {"number": i, "token": token, "word": word + 1, "logprob": logprob}
            for i, (token, word, logprob) in enumerate(own, 1)
        ]

    def words(self, ends: NDArray[np.float64] | None = None) -> list[dict[str, Any]]:
        """With the log-probabilities that words end at their `bounds`, a word has its own end, not its neighbour's."""
        sums, counts = self.by_word.copy(), np.bincount(self.word, minlength=len(self.spelled))
        if ends is not None:
            sums[np.unique(self.word)] += np.diff(ends)
        return [
            {"number": i + 1, "word": self.spelled[i], "tokens": int(counts[i]),
             "logprob": float(sums[i]) if self.whole[i] else None}
            for i in np.flatnonzero((counts > 0) | ~self.whole).tolist()
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Scored:
    """A request and its recorded log-likelihood; it is asked again one token at a time."""

    row: Mapping[str, Any]
    span: Span
    lists: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)  # key of `EACH` → what was recorded

    def again(self, reference: Reference) -> Compared:
        row, name = self.row, named(self.row)
        text = row["text"].strip()
        logprobs, starts, openings = self._ask(reference, len(text))
        spelled = text.split()
        ends = list[int]()
        for own in spelled:
            ends.append(text.index(own, ends[-1] if ends else 0) + len(own))
        word = np.minimum(np.searchsorted(ends, starts, side="right"), len(ends) - 1)
        has_score = ~np.isnan(logprobs)
        lacking = word[~has_score]  # the first word of a text, before which nothing stands
        now = {
            "tokens": int(has_score.sum()),
            "words": len(ends) - len(np.unique(lacking)),
            "characters": len(text),
            "bytes": len(text.encode()),
        }
        if other := next((what for what, n in now.items() if row[what] != n), None):
            return Compared(name, Verdict.WRONG, f"{other}: {row[other]}, but now {now[other]}")
        sums = {"logprob": np.nansum(logprobs), "word_logprob": logprobs[~np.isin(word, lacking)].sum()}
        for what, value in sums.items():
            if not abs(value - row[what]) <= ROUNDING * max(1.0, sqrt(len(logprobs))):
                said = f"log-likelihood{' of whole words' * (what != 'logprob')}"
                return Compared(name, Verdict.WRONG, f"{said} {row[what]:.4f}, but now {value:.4f}")
        tokens = [{"word": int(word[i]) + 1, "logprob": logprobs[i]} for i in np.flatnonzero(has_score)]
        words = []
        for number in np.unique(word).tolist():
            own = np.flatnonzero(word == number)
            value = logprobs[own].sum() + (openings[own[-1] + 1] - openings[own[0]] if self.span.bow_correction else 0)
            n = int(has_score[own].sum())
            words.append({"number": number + 1, "word": spelled[number], "tokens": n, "logprob": value})
        for what, recorded in self.lists.items():
            if said := _differs(recorded, tokens if what == TOKENS else words):
                return Compared(name, Verdict.WRONG, f"{what}: {said}")
        return Compared(name, Verdict.AGREES)

    def _ask(self, reference: Reference, end: int) -> tuple[NDArray[np.float64], list[int], list[float]]:
        """Of each token its log-probability, and where it begins; and the log-probability that a word begins there.

        The latter with the correction alone, and also where the text ends (Pimentel and Meister 2024).
        """
        row, is_by_word, ends = self.row, self.span.method is Method.WITHIN_WORD, self.span.bow_correction
        how = Reading(is_by_word, self.span.bos, row["role"] == ALONE, ends)
        context = trimmed(row["context"] or "") or None
        logprobs, starts, openings = list[float](), list[int](), list[float]()
        spaced, others = reference.openings if ends else ([], [])
        for every, token, start in reference.span(context, row["text"], self.span.joiner, how):
            if ends:  # the first word of a text can have no space: it is chosen among those without it
                begin = spaced if starts or token in spaced else others
                openings.append(np.nan if np.isnan(every[token]) else float(np.logaddexp.reduce(every[begin])))
            if start < end:
                logprobs.append(float(every[token]))
                starts.append(start)
        return np.array(logprobs), starts, openings


def _differs(recorded: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str:
    """How recorded tokens or words differ first from those of now; empty if they are the same. NaN: no score."""
    if len(recorded) != len(now):
        return f"{len(recorded)} rows, but now {len(now)}"
    for number, (was, own) in enumerate(zip(recorded, now, strict=True), 1):
        for key, value in own.items():
            there = was[key]
            if key == "logprob":
                lacks = np.isnan(value)
                if (there is None) != lacks or not (lacks or abs(there - value) <= ROUNDING * max(1.0, abs(value))):
                    return f"logprob {there} in row {number}, but now {value:.4f}"
            elif there != value:
                return f"{key} {there!r} in row {number}, but now {value!r}"
    return ""
