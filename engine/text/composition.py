"""The token ids of sentences, put together from the ids of their fillers instead of tokenized one by one.

Each filler is tokenized once, in an example sentence, the template. `composer` compares sentences with the tokenizer's
own: those that cover every filler, some at random, and all pairs of two fillers that can meet in one token, as neither
the pre-tokenizer nor the mask keeps them apart. Sentences are fillers: slot → int64 [n], indices in that slot's list.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..basics.errors import InputError
from .keys import checked_seed, string_keys
from .pattern import MASK, Pattern
from .token_ids import Bucket, in_buckets, n_sentences
from .tokenizer import MaskTokenizer

_MOST_PAIRS = 2**22  # of two fillers that can meet; with more of them, sentences are tokenized whole
_AT_ONCE = 2**15  # sentences that are compared at a time: 20 MB
RANDOM_COMBINATIONS = 2_000  # sentences of random fillers that are compared, besides those that cover every filler


@dataclass(frozen=True, eq=False)
class Span:
    """The part of the template that one filler replaces, and the token ids of every filler."""

    slot: str
    start: int
    stop: int
    widths: tuple[int, ...]  # the different numbers of tokens that a filler can have here, ascending
    width_class: NDArray[np.int64]  # int64 [n_fillers], the index in `widths` of each filler's number of tokens
    tokens: NDArray[np.int32]  # int32 [widths[-1], n_fillers], one filler in each column, filled up with zeros

    @classmethod
    def where_different(cls, slot: str, variants: Sequence[NDArray[np.int32]]) -> "Span":
        """The span in which variants of a sentence differ: one variant for each filler, the template first."""
        shortest = min(map(len, variants))
        start = _common_length(np.stack([ids[:shortest] for ids in variants]))
        backwards = [ids[start:][::-1] for ids in variants]
        tail = _common_length(np.stack([ids[: shortest - start] for ids in backwards]))
        fillers = [ids[start : len(ids) - tail] for ids in variants]
        widths, width_class = np.unique([len(ids) for ids in fillers], return_inverse=True)
        tokens = np.zeros((widths[-1], len(fillers)), dtype=np.int32)
        for number, ids in enumerate(fillers):
            tokens[: len(ids), number] = ids
        return cls(slot, start, len(variants[0]) - tail, tuple(widths.tolist()), width_class, tokens)


def _common_length(rows: NDArray[np.int32]) -> int:
    """The number of first columns that hold one value only."""
    constant = (rows == rows[0]).all(axis=0)
    return len(constant) if constant.all() else int(constant.argmin())


@dataclass(frozen=True, order=True)
class _Layout:
    """A combination of widths: in its sentences every span begins at the same column."""

    length: int
    widths: tuple[int, ...]
    mask_position: int


@dataclass(frozen=True, eq=False)
class SlotwiseComposer:
    """Puts sentences together from the token ids of their fillers, in spans of the template."""

    template: NDArray[np.int32]  # int32 [length of the example sentence], its token ids
    mask: int
    spans: tuple[Span, ...]  # the parts of the template that fillers replace, from left to right, without overlap
    proved: int = 0  # how many sentences were compared with the tokenizer's
    slotwise: bool = True  # whether sentences are put together instead of being tokenized
    reason: str = ""

    def longest(self, used: Mapping[str, NDArray[np.int64]] | None = None) -> int:
        """The number of tokens of the longest sentence of the fillers `used` (slot → int64 [m]), by default of all."""
        used = used or {}
        growth: dict[str, NDArray[np.int64]] = {}
        for span in self.spans:  # one filler may replace several spans
            widths = np.array(span.widths).take(span.width_class) - (span.stop - span.start)
            growth[span.slot] = growth.get(span.slot, 0) + widths
        return len(self.template) + sum(
            int((widths[used[slot]] if slot in used else widths).max()) for slot, widths in growth.items()
        )

    def compose(self, fillers: Mapping[str, NDArray[np.int64]]) -> Iterator[Bucket]:
        """The sentences, one bucket for each length, by ascending length."""
        layout_of = self._layout_of(fillers)
        order = np.argsort(layout_of, kind="stable")  # a radix sort, since there are few layouts
        counts = np.bincount(layout_of, minlength=len(self._layouts))
        used = [(layout, count) for layout, count in zip(self._layouts, counts.tolist(), strict=True) if count]
        stop = 0
        for length, group in itertools.groupby(used, key=lambda layout_and_count: layout_and_count[0].length):
            layouts, sizes = zip(*group, strict=True)
            start, stop = stop, stop + sum(sizes)
            rows = order[start:stop]
            ids = np.empty((len(rows), length), dtype=np.int32)
            last = 0
            for layout, size in zip(layouts, sizes, strict=True):
                first, last = last, last + size
                self._write(ids[first:last], layout, rows[first:last], fillers)
            masks = np.array([layout.mask_position for layout in layouts], dtype=np.int32)
            yield Bucket(rows, ids, np.repeat(masks, sizes))

    def _write(
        self, ids: NDArray[np.int32], layout: _Layout, rows: NDArray[np.int64], fillers: Mapping[str, NDArray[np.int64]]
    ) -> None:
        column = copied = 0
        for span, width in zip(self.spans, layout.widths, strict=True):
            gap = self.template[copied : span.start]
            ids[:, column : column + len(gap)] = gap
            column, copied = column + len(gap), span.stop
            filler = fillers[span.slot][rows]
            for tokens in span.tokens[:width]:
                ids[:, column] = tokens[filler]
                column += 1
        ids[:, column:] = self.template[copied:]

    @cached_property
    def _layouts(self) -> list[_Layout]:  # by ascending length
        found, before_mask = [], [span.stop <= self.mask for span in self.spans]
        for widths in itertools.product(*(span.widths for span in self.spans)):
            growth = [width - (span.stop - span.start) for span, width in zip(self.spans, widths, strict=True)]
            shift = sum(itertools.compress(growth, before_mask))
            found.append(_Layout(len(self.template) + sum(growth), widths, self.mask + shift))
        return sorted(found)

    @cached_property
    def _layout_numbers(self) -> NDArray[np.unsignedinteger]:
        """The number in `_layouts` for each combination of width classes, one axis a span."""
        numbers = {layout.widths: number for number, layout in enumerate(self._layouts)}
        combinations = itertools.product(*(span.widths for span in self.spans))
        smallest = np.min_scalar_type(len(numbers))  # sorting is fastest on 8 and 16 bits
        return np.array([numbers[widths] for widths in combinations], smallest).reshape(
            [len(span.widths) for span in self.spans]
        )

    def _layout_of(self, fillers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.unsignedinteger]:
        """The number of each sentence's layout, [n]."""
        n = n_sentences(fillers)
        classes = tuple(span.width_class[fillers[span.slot]] for span in self.spans)
        return np.broadcast_to(self._layout_numbers[classes], n)


def composer(
    tokenizer: MaskTokenizer,
    pattern: Pattern,
    fillers: Mapping[str, Sequence[str]],
    seed: int,
    random_combinations: int = RANDOM_COMBINATIONS,
    sentences: Mapping[str, NDArray[np.integer]] | None = None,
) -> "Composer":
    """The fastest composer with the tokenizer's ids, by random combinations, or all `sentences` if they are fewer."""
    whole = WholeSentenceComposer(tokenizer, pattern, {slot: fillers[slot] for slot in pattern.slots})
    for slot, words in whole.fillers.items():
        for word, token in zip(words, tokenizer.special_token_in(words), strict=True):
            if token is not None:
                raise InputError(
                    f"the word {word!r} for {{{slot}}} holds the special token {token!r} of the model; remove the word"
                )
    try:
        slotwise = _learn(whole)
        compared = _sample(whole, seed, random_combinations)
        if sentences and 0 < n_sentences(sentences) < n_sentences(compared):
            compared = {slot: indices.astype(np.int64) for slot, indices in sentences.items()}
            pairs: list[dict[str, NDArray[np.int64]]] = []  # of these sentences, all are compared
        else:
            pairs = [_pairs(whole, *both, sentences) for both in _meeting(whole)]
        proved = 0
        for own in (compared, *pairs):
            for start in range(0, n_sentences(own), _AT_ONCE):
                some = {slot: indices[start : start + _AT_ONCE] for slot, indices in own.items()}
                if len(wrong := _unlike(slotwise, whole, some)):
                    [text] = whole.texts({slot: indices[wrong[:1]] for slot, indices in some.items()})
                    raise _NotSlotwiseError(f"the fillers of {text!r} change each other's tokens")
                proved += n_sentences(some)
        return replace(slotwise, proved=proved)
    except _NotSlotwiseError as error:
        return replace(whole, reason=str(error))


@dataclass(frozen=True, eq=False)
class WholeSentenceComposer:
    """As `SlotwiseComposer`, but tokenizes every sentence: correct for every tokenizer, but slow."""

    tokenizer: MaskTokenizer
    pattern: Pattern
    fillers: Mapping[str, Sequence[str]]
    reason: str = ""  # why this is needed
    slotwise: bool = False
    proved: int = 0

    @cached_property
    def spelled(self) -> list[list[str]]:  # what can fill each hole
        mask = [self.tokenizer.mask_token]
        return [
            mask if hole.slot == MASK else [hole.spell(word) for word in self.fillers[hole.slot]]
            for hole in self.pattern.holes
        ]

    def texts(self, fillers: Mapping[str, NDArray[np.int64]]) -> list[str]:
        words = {slot: [self.fillers[slot][i] for i in fillers[slot]] for slot in self.pattern.slots}
        rows = ({slot: column[row] for slot, column in words.items()} for row in range(n_sentences(fillers)))
        return [self.pattern.text(row, self.tokenizer.mask_token) for row in rows]

    def longest(self, used: Mapping[str, NDArray[np.int64]] | None = None) -> int:
        # An upper bound: a token covers at least one byte, or marks the start of a word.
        used, most, bound = used or {}, self.tokenizer.most_tokens, 0
        for hole, words in zip(self.pattern.holes, self.spelled, strict=True):
            if hole.slot != MASK:
                bound += most([words[i] for i in used[hole.slot]] if hole.slot in used else words)
        fixed = most([self.pattern.fill([" "] * len(self.pattern.holes))])
        return self.tokenizer.n_special_tokens() + fixed + bound + 1  # the mask

    def compose(self, fillers: Mapping[str, NDArray[np.int64]]) -> Iterator[Bucket]:
        return in_buckets(self.tokenizer.encode_masked(self.texts(fillers)), self.tokenizer.mask_id)


Composer = SlotwiseComposer | WholeSentenceComposer


class _NotSlotwiseError(Exception):
    """The tokenizer does not treat the fillers one by one; the message shows where."""


def _learn(whole: WholeSentenceComposer) -> SlotwiseComposer:
    """Find the span of each hole: fill it with every filler, and the other holes with their first one."""
    tokenizer, pattern, words = whole.tokenizer, whole.pattern, whole.spelled
    base = [own[0] for own in words]
    text = pattern.fill(base)
    [template] = tokenizer.encode_masked([text])
    mask = template.tolist().index(tokenizer.mask_id)
    spans: list[Span] = []
    for i, hole in enumerate(pattern.holes):
        texts = [pattern.fill([*base[:i], word, *base[i + 1 :]]) for word in words[i]]
        span = Span.where_different(hole.slot, tokenizer.encode_masked(texts))
        if not span.tokens.size:  # one filler only, or the mask
            continue
        if spans and span.start < spans[-1].stop:
            raise _NotSlotwiseError(f"{spans[-1].slot} and {hole.slot} share tokens in {text!r}")
        if span.start <= mask < span.stop:
            raise _NotSlotwiseError(f"{hole.slot} changes tokens on both sides of the mask in {text!r}")
        spans.append(span)
    return SlotwiseComposer(template, mask, tuple(spans))


def _unlike(
    slotwise: SlotwiseComposer, whole: WholeSentenceComposer, fillers: Mapping[str, NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The sentences whose composed ids are not the tokenizer's: int64 [m]."""
    expected, mask_id, found = whole.tokenizer.encode_masked(whole.texts(fillers)), whole.tokenizer.mask_id, []
    for bucket in slotwise.compose(fillers):
        for row, ids, mask in zip(bucket.rows, bucket.ids, bucket.mask_position, strict=True):
            if not np.array_equal(ids, expected[row]) or ids[mask] != mask_id:
                found.append(int(row))
    return np.array(sorted(found), np.int64)


def _meeting(whole: WholeSentenceComposer) -> list[tuple[str, str]]:
    """The slots of neighbouring holes whose fillers can be in one token: nothing between them ends a token."""
    tokenizer, pattern, words = whole.tokenizer, whole.pattern, whole.spelled
    slots = [hole.slot for hole in pattern.holes]
    base, found = [own[0] for own in words], list[tuple[str, str]]()
    for i, between in enumerate(pattern.pieces[1:-1]):
        if MASK in slots[i : i + 2] or slots[i] == slots[i + 1]:  # one filler twice is compared with every filler
            continue
        variants = [[*base[:i], word, *base[i + 1 :]] for word in words[i]]
        variants += [[*base[: i + 1], word, *base[i + 2 :]] for word in words[i + 1]]
        if not between or any(share_a_token(tokenizer, pattern, i, variants)):
            found.append((slots[i], slots[i + 1]))
    return list(dict.fromkeys(found))


def share_a_token(
    tokenizer: MaskTokenizer, pattern: Pattern, first: int, filled: Sequence[Sequence[str]]
) -> Iterator[bool]:
    """Whether what fills the hole `first` and the next one can be in one token, for each way to fill all holes."""
    between = pattern.pieces[first + 1]
    joined = joins(tokenizer, between)
    for own, encoding in zip(
        filled, tokenizer.backend.encode_batch([pattern.fill(own) for own in filled]), strict=True
    ):
        stop = sum(map(len, [*pattern.pieces[: first + 1], *own[: first + 1]]))  # where the first of the two ends
        last = encoding.char_to_word(stop - 1) if stop else None  # an empty filler
        ends = last, encoding.char_to_word(stop + len(between))
        yield joined or None in ends or ends[0] == ends[1]


def joins(tokenizer: MaskTokenizer, between: str) -> bool:
    """Whether the normalizer may replace a text that reaches over two fillers and what stands between them."""
    normalizer = tokenizer.backend.normalizer
    steps = [] if normalizer is None else [json.loads(normalizer.__getstate__())]
    while steps:
        step = steps.pop()
        steps += step.get("normalizers", [])
        if step["type"] == "Replace":
            literal, expression = (step["pattern"].get(kind) for kind in ("String", "Regex"))
            if len(literal or "") >= len(between) + 2 or (expression and not _SPACES.fullmatch(expression)):
                return True
    return False


_SPACES = re.compile(r"[ ^$()?:|+*]*(\\s| |\[ \\t\]|\{\d*,?\d*\}|[+*$^])*")  # an expression for white space alone


def _pairs(
    whole: WholeSentenceComposer, one: str, other: str, sentences: Mapping[str, NDArray[np.integer]] | None
) -> dict[str, NDArray[np.int64]]:
    """A sentence for each pair of two slots' fillers, of those in `sentences` where they are given."""
    size = len(whole.fillers[other])
    n = len(whole.fillers[one]) * size
    keys = np.arange(n) if sentences is None else np.unique(sentences[one].astype(np.int64) * size + sentences[other])
    if len(keys) > _MOST_PAIRS:
        raise _NotSlotwiseError(f"{len(keys):,} pairs of {one} and {other} can meet in one token")
    both = dict(zip((one, other), np.divmod(keys, size), strict=True))
    return {slot: both.get(slot, np.zeros(len(keys), np.int64)) for slot in whole.pattern.slots}


def _sample(whole: WholeSentenceComposer, seed: int, random_combinations: int) -> dict[str, NDArray[np.int64]]:
    """Sentences that cover every filler, and random combinations."""
    rng = np.random.default_rng(string_keys([str(checked_seed(seed))], "proof"))
    sizes = {slot: len(words) for slot, words in whole.fillers.items()} or {MASK: 1}
    covering = max(sizes.values())
    return {
        slot: np.concatenate([np.resize(rng.permutation(size), covering), rng.integers(size, size=random_combinations)])
        for slot, size in sizes.items()
    }
