"""`negengine likelihood`: the log-probabilities of the tokens of a user's own sentences.

A part is a range of the table's rows, read where they lie; its sentences of one length go through the model together.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.errors import InputError
from ...basics.frames import scan_frame
from ...basics.printable import counted
from ...basics.reading import MOST_JSON, parse_json, read_regular
from ...inference.causal import CausalLM
from ...inference.model import LanguageModel
from ...inference.spans import Encoder, Method, Sentence, causal_logprobs, log_beginnings, pseudo_logprobs
from ...requests.items import ITEMS_FILE, SUMMARY_FILE
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...text.table import Rows
from ...text.tokenizer import MaskTokenizer
from ...text.word_marks import Mark, WordClass, WordMarks
from ..own_table import COLUMNS, FILE, ROW, SKIPPED_FILE, TOKENS, TableStage, divided, part_rows
from .likelihood_items import (
    BAD,
    GOOD,
    LISTS,
    SCORES,
    SIDE,
    SIDES,
    TOKENS_FILE,
    VERDICTS,
    WORDS_FILE,
    Columns,
    Faults,
    with_joined_verdicts,
    with_verdicts,
)
from .likelihood_summary import summarise

PSEUDO, LOG_LIKELIHOOD = "pseudo-log-likelihood", "log-likelihood"
BOW_CORRECTION = "bow correction"  # a key of the identity
NAME, DETAILS = "dataset", "details"  # keys of the metadata
UNSCORED = "pairs that differ in a first token without a score"  # a count
_WORD = re.compile(r"\S+")
_TRIED = 64  # sentences whose time is measured


@dataclass(frozen=True, eq=False)
class Prepared:
    """A part that is ready for the model."""

    rows: Rows
    texts: Sequence[str]  # of pairs in one row the good one, then the bad one
    given: Sequence[int]  # how many of their first characters are not scored
    sentences: Sequence[Sentence]  # the same as tokens

    @property
    def each(self) -> Iterator[tuple[str, int, Sentence]]:
        return zip(self.texts, self.given, self.sentences, strict=True)


@dataclass(frozen=True, eq=False)
class Likelihoods(TableStage[Prepared]):
    """A run."""

    name: ClassVar[str] = "likelihood"
    rows_file: ClassVar[str | None] = ITEMS_FILE

    columns: Columns
    method: Method | None = Method.ORIGINAL  # None for a causal model
    windows: bool = False  # whether long sentences are read in windows
    per_token: bool = False
    per_word: bool = False
    bos: bool = False  # whether the model's BOS token is put before each text
    bow_correction: bool = False  # whether a word has the probability of its own end, not that of the word before

    @property
    def sizes(self) -> Sequence[int]:
        return [size * len(self.columns.texts) for size in self.stimuli.sizes]

    @property
    def planned(self) -> Sequence[int]:
        return self.stimuli.sizes

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:  # noqa: ARG003
        return rows[ROW].n_unique()

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **super().identity,
            "scores": LOG_LIKELIHOOD if self.method is None else PSEUDO,
            "method": None if self.method is None else str(self.method),
            "windows": self.windows,
            "per token": self.per_token,
            "per word": self.per_word,
            **({"bos": True} if self.bos else {}),
            **({BOW_CORRECTION: True} if self.bow_correction else {}),
        }

    @property
    def metadata(self) -> dict[str, Any]:
        return {**super().metadata, NAME: self.stimuli.title, DETAILS: self.details}

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder.of(self.exported, bos=self.bos)

    @cached_property
    def faults(self) -> Faults:
        return Faults(self.columns, self.encoder, None if self.windows else self.exported.max_length)

    def check(self, say: Callable[[str], None]) -> None:
        """All rows were checked when the tables were read."""
        rows, parts = counted(self.stimuli.n, "row"), counted(len(self.stimuli.parts), "part")
        say(f"{rows}, skipped: {self.stimuli.skipped:,}; {parts}")

    def refuse_incomplete(self) -> None:
        """Raise InputError for a pair without exactly one good and one bad row among the rows that count."""
        if self.columns.pair is None:
            return
        names = pl.col(self.columns.pair).cast(pl.String).alias("pair"), self.columns.side().alias("side")
        seen: dict[tuple[str | None, str], tuple[set[str], str]] = {}
        for number in range(len(self.stimuli.parts)):
            rows = self.stimuli.read(number, self.faults)
            for place, (key, side) in enumerate(rows.frame.select(*names).iter_rows()):
                where = self.stimuli.location(number, int(rows.numbers[place]), rows.line(place))
                found = seen.setdefault((self.stimuli.file(number), key), (set(), where))[0]
                if side in found:
                    raise InputError(f"{where}: the pair {key!r} has two {side} sentences; it needs one of each")
                found.add(side)
        for (_, key), (found, where) in seen.items():
            if len(found) < len(SIDES):
                lacking = BAD if GOOD in found else GOOD
                raise InputError(f"{where}: the pair {key!r} has no {lacking} sentence; it needs one of each")

    def prepare(self, number: int) -> Prepared:
        """The sentences of a part as tokens; an `InputError` if one cannot be scored, without `skip_bad`."""
        rows, sides = self.stimuli.read(number, self.faults), self.columns.texts
        texts, given = self.columns.read(rows.frame)
        sentences = self.encoder.encode(texts, given)
        reasons: list[str | None] = [None] * len(rows.frame)
        for place, sentence in enumerate(sentences):
            row, side = divmod(place, len(sides))
            is_long = not self.windows and len(sentence.ids) > self.exported.max_length
            if reasons[row] is None and (is_long or not len(sentence.scored)):
                reasons[row] = self.faults.of(texts[place], sentence, sides[side])
                if not self.skip_bad:
                    where = self.stimuli.location(number, int(rows.numbers[row]), rows.line(row))
                    raise InputError(f"{where}: {reasons[row]}")
        kept = [place for place in range(len(texts)) if reasons[place // len(sides)] is None]
        rows = rows.without(pl.Series("reason", reasons, pl.String))
        return Prepared(rows, [texts[i] for i in kept], [given[i] for i in kept], [sentences[i] for i in kept])

    def work(self, part: Prepared) -> dict[str, int]:
        scored = sum(len(one.scored) for one in part.sentences)
        return {
            "sentences": len(part.texts),
            "tokens to score": scored,
            **({} if self.method is None else {"masked copies that the model reads": scored}),
            TOKENS: self._tokens_read(part.sentences),
        }

    def read_some(self, model: LanguageModel, part: Prepared) -> int:
        order = sorted(part.sentences, key=lambda sentence: len(sentence.ids))
        first = max(0, (len(order) - _TRIED) // 2)
        some = order[first : first + _TRIED]
        self.logprobs(model, some, lambda *_: None)
        return self._tokens_read(some)

    def _tokens_read(self, sentences: Sequence[Sentence]) -> int:
        """How many tokens the model reads; windows of a causal model overlap, which is not counted."""
        if self.method is None:
            return sum(len(one.ids) for one in sentences)
        return sum(len(one.scored) * min(len(one.ids), self.exported.max_length) for one in sentences)

    def decide(self, model: LanguageModel, number: int, prepared: Prepared | None, advance: Advance) -> PartResult:
        """One row for each sentence; then, with `skip_bad`, the rows that are skipped."""
        part = prepared or self.prepare(number)
        logprobs = self.logprobs(model, part.sentences, advance)
        skipped, file = len(part.rows.skipped), self.stimuli.file(number)
        advance(skipped * len(self.columns.texts), 0)
        items = _item_rows(part, file, self.columns, logprobs)
        if self.columns.good is not None:
            items = with_verdicts(items)
        schema = _item_schema(self.stimuli.schema, self.columns, several=file is not None)
        if self.details:
            ends = None
            if self.bow_correction and isinstance(model, CausalLM):
                places = [_Words.of(*one).bounds for one in part.each]
                ends = log_beginnings(model, part.sentences, places, self.begins)
            lists = _opened_lists(self.encoder.tokenizer, part, logprobs, ends)
            for name in self.details:
                items = items.with_columns(lists[column] for column in LISTS[name])
                schema |= LISTS[name]
        token = self.encoder.tokenizer.unknown_id
        unknown = 0 if token is None else sum(int((sentence.tokens == token).any()) for sentence in part.sentences)
        unscored = 0
        if self.columns.good is not None:  # two sentences whose first tokens differ, and have no score
            pairs = zip(part.sentences[::2], part.sentences[1::2], strict=True)
            firsts = [(one.ids[0], other.ids[0]) for one, other in pairs if 0 == one.content.start < one.scored[0] == 1]
            unscored = sum(int(one != other) for one, other in firsts)
        return PartResult(
            part_rows(items, part.rows, schema, skip_bad=self.skip_bad, file=file),
            {"sentences": len(part.texts), "with unknown tokens": unknown, "skipped": skipped, UNSCORED: unscored},
        )

    @cached_property
    def begins(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The tokens that have the space before their word, and all others, each with those that end a text.

        InputError if the vocabulary has no such tokens.
        """
        marks = WordMarks.of(self.exported.tokenizer, self.exported.vocab_size)
        if marks.mark is not Mark.BEGINNING:
            raise InputError(
                f"--bow-correction: the tokens of {self.exported.name} do not hold the space before a word, so nothing "
                "is to be corrected; leave it out"
            )
        path, marked = self.exported.folder / "config.json", marks.classes == WordClass.BEGINS
        ends = parse_json(read_regular(path, MOST_JSON).decode(), str(path)).get("eos_token_id")
        one, other = marked.copy(), ~marked & (marks.classes != WordClass.UNUSED)
        one[ends if isinstance(ends, list) else [] if ends is None else [ends]] = True
        other |= one & ~marked
        return np.flatnonzero(one).astype(np.int32), np.flatnonzero(other).astype(np.int32)

    def logprobs(self, model: LanguageModel, sentences: Sequence[Sentence], advance: Advance) -> NDArray[np.float32]:
        """The log-probabilities of all scored tokens; a sentence counts as done in proportion to its tokens."""
        total, tokens, said, lock = sum(len(sentence.scored) for sentence in sentences), 0, 0, Lock()

        def scored(count: int) -> None:
            nonlocal tokens, said
            with lock:
                tokens += count
                done = tokens * len(sentences) // total
                advance(done - said, count if self.method else done - said)
                said = done

        longest = self.exported.max_length
        if isinstance(model, CausalLM):
            return causal_logprobs(model, self.encoder, sentences, longest, scored)
        method = self.method or Method.ORIGINAL
        return pseudo_logprobs(model, self.encoder, sentences, method, longest, scored)

    @property
    def details(self) -> list[str]:
        return [name for name, wanted in ((TOKENS_FILE, self.per_token), (WORDS_FILE, self.per_word)) if wanted]

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        columns, metadata = Columns.from_json(parts.metadata[COLUMNS]), parts.metadata
        names = parts.rows.collect_schema().names()
        rows, files = divided(parts.rows, [name for name in (FILE, ROW) if name in names])
        if not files and (parts.folder / SKIPPED_FILE).exists():  # the rows come from items.parquet
            files[SKIPPED_FILE] = scan_frame(parts.folder / SKIPPED_FILE)
        for name in metadata[DETAILS]:
            lists = {column: column.partition(": ")[2] for column in LISTS[name]}
            if not lists.keys() <= set(names):
                files[name] = scan_frame(parts.folder / name)
                continue
            own = rows.select(*(own for own in (FILE, ROW, SIDE) if own in names), *lists).explode(list(lists))
            files[name] = own.rename(lists).with_columns(surprisal=-pl.col("logprob") / np.log(2))
        items = rows.drop([column for own in LISTS.values() for column in own if column in names])
        if columns.pair is not None:
            items = with_joined_verdicts(items, columns)
        return {ITEMS_FILE: items, SUMMARY_FILE: summarise(items, columns, metadata[NAME]), **files}


def _item_schema(table: Mapping[str, pl.DataType], columns: Columns, *, several: bool) -> dict[str, pl.DataType]:
    file: dict[str, pl.DataType] = {FILE: pl.String()} if several else {}
    side: dict[str, pl.DataType] = {SIDE: pl.String()} if columns.has_pairs else {}
    verdicts: dict[str, pl.DataType] = dict.fromkeys(VERDICTS, pl.Boolean()) if columns.good is not None else {}
    return {**table, **file, ROW: pl.Int64(), **side, **SCORES, **verdicts}


def _item_rows(part: Prepared, file: str | None, columns: Columns, logprobs: NDArray[np.float32]) -> pl.DataFrame:
    """A row for each sentence of a part; of pairs in one row the good one, then the bad one."""
    rows, sides = part.rows, len(columns.texts)
    counts = np.array([len(sentence.scored) for sentence in part.sentences], np.int64)
    firsts = np.cumsum(counts) - counts
    sums = np.add.reduceat(logprobs.astype(np.float64), firsts) if part.texts else np.empty(0)
    own_words = [_Words.of(*one) for one in part.each]
    words = np.array([int(own.whole.sum()) for own in own_words])
    in_words = [
        float(own.sums(logprobs[first : first + n])[own.whole].sum())
        for own, first, n in zip(own_words, firsts.tolist(), counts.tolist(), strict=True)
    ]
    by_word = [total / n if n else None for total, n in zip(in_words, words.tolist(), strict=True)]
    characters = np.array([len(text[given:].strip()) for text, given, _ in part.each])
    place = pl.Series(np.repeat(np.arange(len(rows.frame)), sides), dtype=pl.UInt32)
    values = (sums, counts, words, characters, sums / counts, by_word, sums / characters)
    frame = rows.frame.select(pl.all().gather(place)).with_columns(
        **({} if file is None else {FILE: pl.lit(file)}),
        **{ROW: pl.Series(np.repeat(rows.numbers, sides), dtype=pl.Int64)},
    )
    if sides == len(SIDES):
        frame = frame.with_columns(pl.Series(SIDE, SIDES * len(rows.frame), pl.String))
    elif columns.pair is not None:
        frame = frame.with_columns(columns.side().alias(SIDE))
    return frame.with_columns(
        pl.Series(name, own, dtype=dtype) for (name, dtype), own in zip(SCORES.items(), values, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Words:
    """The n words of a text behind the characters that are given."""

    spans: Sequence[tuple[int, int]]  # [n], of characters
    token: NDArray[np.int64]  # the word of each scored token
    # bool [n], whether all tokens of a word are scored: without BOS nothing stands before a text's first token
    whole: NDArray[np.bool_]
    bounds: NDArray[np.int64]  # position of the first token of each word with scored tokens, and that behind the last

    @classmethod
    def of(cls, text: str, given: int, sentence: Sentence) -> "_Words":
        spans = [match.span() for match in _WORD.finditer(text, given)]
        ends, first = np.array([end for _, end in spans], np.int64), sentence.content.start
        word = np.minimum(np.searchsorted(ends, sentence.start, side="right"), len(spans) - 1)
        whole, own = np.ones(len(spans), np.bool_), word[sentence.scored]
        if not given and first not in sentence.scored:
            whole[word[first]] = False
        bounds = sentence.scored[np.unique(own, return_index=True)[1]]
        return cls(spans, own, whole, np.append(bounds, sentence.content.stop))

    def sums(self, logprobs: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.bincount(self.token, logprobs.astype(np.float64), minlength=len(self.spans)).astype(np.float64)


def _opened_lists(
    tokenizer: MaskTokenizer,
    part: Prepared,
    logprobs: NDArray[np.float32],
    ends: Sequence[NDArray[np.float64]] | None = None,
) -> dict[str, pl.Series]:
    """The columns of `LISTS`: for each sentence its tokens and its words with their log-probabilities.

    Words are counted behind the first characters that are given. `ends` are the log-probabilities that words end at
    their `bounds`: a word then has its own end, and not that of the word before.
    """
    lists: dict[str, list[list[object]]] = {name: [] for own in LISTS.values() for name in own}
    known: dict[int, str] = {}
    first = 0
    for number, (text, given, sentence) in enumerate(part.each):
        own = logprobs[first : first + len(sentence.scored)]
        first += len(own)
        words, tokens = _Words.of(text, given, sentence), sentence.tokens.tolist()
        for token in set(tokens) - set(known):
            known[token] = tokenizer.token_text(token)
        sums, counts = words.sums(own), np.bincount(words.token, minlength=len(words.spans))
        if ends is not None:
            sums[np.unique(words.token)] += np.diff(ends[number])
        told = np.flatnonzero((counts > 0) | ~words.whole).tolist()
        values: tuple[Iterable[object], ...] = (
            range(1, len(tokens) + 1),
            [known[token] for token in tokens],
            words.token + 1,
            own,
            [word + 1 for word in told],
            [text[slice(*words.spans[word])] for word in told],
            counts[told],
            [float(sums[word]) if words.whole[word] else None for word in told],
        )
        for name, value in zip(lists, values, strict=True):
            lists[name].append(list(value))
    schema = {name: dtype for own in LISTS.values() for name, dtype in own.items()}
    return {name: pl.Series(name, lists[name], dtype) for name, dtype in schema.items()}
