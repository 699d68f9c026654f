"""Sentences of one pattern put together from the token ids of their fillers, by indexing small tables.

The template is the token ids of one example sentence. A span is the part of the template that one filler replaces. Each
span has a table with the token ids of every filler. Fillers have different numbers of tokens, so sentences do, too.
Sentences whose fillers have the same numbers of tokens in all spans have the same layout. They are written together,
one column at a time.

Words as sequences of tokens: one row a word, each with its own number of tokens.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Bucket:
    """Sentences with exactly the same number of tokens.

    Attributes:
        rows: int64 [n], their positions in the filler arrays they were composed from.
        ids: int32 [n, length], C-contiguous, special tokens included, no padding.
        mask_position: int32 [n], the column of each sentence's mask.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int32]
    mask_position: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Sentences of one pattern, grouped by length, and the token expected in each.

    Attributes:
        buckets: buckets that hold every row once between them.
        expected: int32 [n], by row; or int32 [n, k] where several tokens are accepted (see
            `negengine.engine.inference.model.main_token`).
    """

    buckets: Sequence[Bucket]
    expected: NDArray[np.int32]


def n_sentences(fillers: Mapping[str, NDArray[np.integer]]) -> int:
    """The number of sentences that some fillers mean: the length of their columns."""
    return len(next(iter(fillers.values())))


@dataclass(frozen=True, eq=False)
class Span:
    """The part of the template that one filler replaces, and the token ids of every filler.

    Attributes:
        slot: The slot that the fillers are for.
        start: The position of the span's first token in the template.
        stop: The position after its last token.
        widths: The different numbers of tokens that a filler can have here, ascending.
        width_class: int64 [n_fillers], the index in `widths` of each filler's number of tokens.
        tokens: int32 [widths[-1], n_fillers], the token ids of one filler in each column, filled up with zeros.
    """

    slot: str
    start: int
    stop: int
    widths: tuple[int, ...]
    width_class: NDArray[np.int64]
    tokens: NDArray[np.int32]

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
    """Puts sentences together from the token ids of their fillers; see `composition.Composer`.

    Attributes:
        template: int32 [length of the example sentence], its token ids.
        mask: The mask's position in the template, outside all spans.
        spans: The parts of the template that fillers replace, from left to right, without overlap.
        proved: How many sentences were compared with the tokenizer's.
    """

    template: NDArray[np.int32]
    mask: int
    spans: tuple[Span, ...]
    proved: int = 0
    slotwise: bool = True
    reason: str = ""

    def lengths(self, fillers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int32]:
        """See `composition.Composer`."""
        return np.array([layout.length for layout in self._layouts], dtype=np.int32).take(self._layout_of(fillers))

    def longest(self, used: Mapping[str, NDArray[np.int64]] | None = None) -> int:
        """See `composition.Composer`; exact."""
        used = used or {}
        growth: dict[str, NDArray[np.int64]] = {}
        for span in self.spans:  # one filler may replace several spans
            widths = np.array(span.widths).take(span.width_class) - (span.stop - span.start)
            growth[span.slot] = growth.get(span.slot, 0) + widths
        return len(self.template) + sum(
            int((widths[used[slot]] if slot in used else widths).max()) for slot, widths in growth.items()
        )

    def compose(self, fillers: Mapping[str, NDArray[np.int64]]) -> Iterator[Bucket]:
        """See `composition.Composer`."""
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
        self,
        ids: NDArray[np.int32],
        layout: _Layout,
        rows: NDArray[np.int64],
        fillers: Mapping[str, NDArray[np.int64]],
    ) -> None:
        """Write the sentences of some rows, all of one layout, into ids, int32 [n, length]."""
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
    def _layouts(self) -> list[_Layout]:
        """All layouts, by ascending length."""
        return sorted(map(self._layout, itertools.product(*(span.widths for span in self.spans))))

    def _layout(self, widths: tuple[int, ...]) -> _Layout:
        growth = [width - (span.stop - span.start) for span, width in zip(self.spans, widths, strict=True)]
        before_mask = [span.stop <= self.mask for span in self.spans]
        shift = sum(itertools.compress(growth, before_mask))
        return _Layout(length=len(self.template) + sum(growth), widths=widths, mask_position=self.mask + shift)

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


NOTHING = -1
"""Stands in a table of tokens where a word has no token any more."""


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """The tokens of n words.

    Attributes:
        tokens: int32 [n, widest], the tokens of each word from left to right, then `NOTHING`.
        counts: int64 [n], how many tokens each word has; at least 1.
        accepted: int32 [n, a], of words of one token: the tokens that are accepted in its place, itself first, rows
            with fewer of them filled up with it. None where each word has one form.
    """

    tokens: NDArray[np.int32]
    counts: NDArray[np.int64]
    accepted: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def widest(self) -> int:
        """The largest number of tokens of a word."""
        return int(self.counts.max(initial=0))

    @classmethod
    def of(cls, words: Sequence[Sequence[int]]) -> "TokenSequences":
        """A table of the tokens of each word.

        Raises:
            ValueError: A word has no tokens.
        """
        counts = np.array([len(word) for word in words], np.int64)
        if len(counts) and counts.min() < 1:
            raise ValueError(f"word {int(counts.argmin())} has no tokens")
        tokens = np.full((len(words), int(counts.max(initial=0))), NOTHING, np.int32)
        for row, word in enumerate(words):
            tokens[row, : len(word)] = word
        return cls(tokens, counts)

    @classmethod
    def single(cls, tokens: NDArray[np.int32]) -> "TokenSequences":
        """Words of one token each: int32 [n], or int32 [n, a] where several forms are accepted."""
        main = tokens if tokens.ndim == 1 else tokens[:, 0]
        return cls(main[:, None], np.ones(len(main), np.int64), tokens if tokens.ndim == 2 else None)

    @classmethod
    def joined(cls, several: Sequence["TokenSequences"]) -> "TokenSequences":
        """Several tables of the same width as one."""
        accepted = [own.accepted for own in several if own.accepted is not None]
        tokens, counts = (
            np.concatenate(own) for own in zip(*((own.tokens, own.counts) for own in several), strict=True)
        )
        return cls(tokens, counts, np.concatenate(accepted) if accepted else None)

    def expected(self, token: int) -> NDArray[np.int32]:
        """What is expected as one token of each word: int32 [n]; int32 [n, a] where several forms are accepted."""
        if self.accepted is not None:
            return self.accepted
        return np.maximum(self.tokens[:, token], 0)

    def take(self, rows: NDArray[np.int64]) -> "TokenSequences":
        """The words of some rows, in this order; the table keeps its width."""
        accepted = None if self.accepted is None else self.accepted[rows]
        return TokenSequences(self.tokens[rows], self.counts[rows], accepted)
