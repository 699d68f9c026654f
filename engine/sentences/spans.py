"""Sentences of one pattern put together from the token ids of their fillers, by indexing small tables.

A frame is the ids of a base sentence. A place is what one filler decides of it; its table holds, for every filler, the
ids that stand there instead: the filler's piece. Pieces differ in length, so sentences do; those that have equally long
pieces in every place have one layout, and are written together, one column at a time.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Slice:
    """Sentences of exactly equal length.

    Attributes:
        rows: int64 [n], their positions in the filler arrays they were composed from.
        ids: int32 [n, length], C-contiguous, special tokens included, no padding.
        mask_position: int32 [n], the column of each sentence's mask.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int32]
    mask_position: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences of one pattern, grouped by length, and the token expected in each.

    Attributes:
        slices: between them every row once.
        expected: int32 [n], by row.
    """

    slices: Sequence[Slice]
    expected: NDArray[np.int32]


_PORTION = 4096  # sentences; a second or two of work on a slow machine, and several batches everywhere


def in_portions(slices: Iterable[Slice]) -> Iterator[Slice]:
    """The same sentences in smaller slices, so that progress can be told and an interrupt be heard between them."""
    for whole in slices:
        for start in range(0, len(whole.rows), _PORTION):
            part = slice(start, start + _PORTION)
            yield Slice(whole.rows[part], whole.ids[part], whole.mask_position[part])


@dataclass(frozen=True, eq=False)
class Place:
    """The tokens of the base sentence that one filler decides, and what stands there for each filler.

    Attributes:
        slot: Whose fillers they are.
        start: The position of the first such token in the base sentence.
        stop: The position after the last one.
        widths: The different numbers of tokens that a piece can have, ascending.
        width_class: int64 [n_fillers], the index in `widths` of each piece's number of tokens.
        tokens: int32 [widths[-1], n_fillers], the pieces, one a column, filled up with zeros.
    """

    slot: str
    start: int
    stop: int
    widths: tuple[int, ...]
    width_class: NDArray[np.int64]
    tokens: NDArray[np.int32]

    @classmethod
    def where_different(cls, slot: str, variants: Sequence[NDArray[np.int32]]) -> "Place":
        """The place in which variants of the base sentence differ, one for each filler, the base itself first."""
        shortest = min(map(len, variants))
        start = _common_length(np.stack([ids[:shortest] for ids in variants]))
        backwards = [ids[start:][::-1] for ids in variants]
        tail = _common_length(np.stack([ids[: shortest - start] for ids in backwards]))
        pieces = [ids[start : len(ids) - tail] for ids in variants]
        widths, width_class = np.unique([len(piece) for piece in pieces], return_inverse=True)
        tokens = np.zeros((widths[-1], len(pieces)), dtype=np.int32)
        for filler, piece in enumerate(pieces):
            tokens[: len(piece), filler] = piece
        return cls(slot, start, len(variants[0]) - tail, tuple(widths.tolist()), width_class, tokens)


def _common_length(rows: NDArray[np.int32]) -> int:
    """How many of the first columns hold one value only."""
    constant = (rows == rows[0]).all(axis=0)
    return len(constant) if constant.all() else int(constant.argmin())


@dataclass(frozen=True, order=True)
class _Layout:
    """A combination of widths: its sentences have the same columns for the same places."""

    length: int
    widths: tuple[int, ...]
    mask_position: int


@dataclass(frozen=True, eq=False)
class SlotwiseComposer:
    """Puts sentences together from pieces; see `tokens.Composer`.

    Attributes:
        frame: int32 [length of the base sentence], its ids.
        mask: The mask's position in it, outside all places.
        places: What fillers replace in it, from left to right, without overlap.
        proved: How many sentences were compared with the tokenizer's.
    """

    frame: NDArray[np.int32]
    mask: int
    places: tuple[Place, ...]
    proved: int = 0
    slotwise: bool = True
    reason: str = ""

    def lengths(self, fillers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int32]:
        """See `tokens.Composer`."""
        return np.array([layout.length for layout in self._layouts], dtype=np.int32).take(self._layout_of(fillers))

    def compose(self, fillers: Mapping[str, NDArray[np.int64]]) -> Iterator[Slice]:
        """See `tokens.Composer`."""
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
            yield Slice(rows, ids, np.repeat(masks, sizes))

    def _write(
        self,
        ids: NDArray[np.int32],
        layout: _Layout,
        rows: NDArray[np.int64],
        fillers: Mapping[str, NDArray[np.int64]],
    ) -> None:
        """Write the sentences of some rows, all of one layout, into ids, int32 [n, length]."""
        column = copied = 0
        for place, width in zip(self.places, layout.widths, strict=True):
            gap = self.frame[copied : place.start]
            ids[:, column : column + len(gap)] = gap
            column, copied = column + len(gap), place.stop
            filler = fillers[place.slot][rows]
            for tokens in place.tokens[:width]:
                ids[:, column] = tokens[filler]
                column += 1
        ids[:, column:] = self.frame[copied:]

    @cached_property
    def _layouts(self) -> list[_Layout]:
        """All layouts, by ascending length."""
        return sorted(map(self._layout, itertools.product(*(place.widths for place in self.places))))

    def _layout(self, widths: tuple[int, ...]) -> _Layout:
        growth = [width - (place.stop - place.start) for place, width in zip(self.places, widths, strict=True)]
        before_mask = [place.stop <= self.mask for place in self.places]
        shift = sum(itertools.compress(growth, before_mask))
        return _Layout(length=len(self.frame) + sum(growth), widths=widths, mask_position=self.mask + shift)

    @cached_property
    def _layout_numbers(self) -> NDArray[np.unsignedinteger]:
        """The number in `_layouts` for each combination of width classes, one axis a place."""
        numbers = {layout.widths: number for number, layout in enumerate(self._layouts)}
        combinations = itertools.product(*(place.widths for place in self.places))
        smallest = np.min_scalar_type(len(numbers))  # sorting is fastest on 8 and 16 bits
        return np.array([numbers[widths] for widths in combinations], smallest).reshape(
            [len(place.widths) for place in self.places]
        )

    def _layout_of(self, fillers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.unsignedinteger]:
        """The number of each sentence's layout, [n]."""
        n = len(next(iter(fillers.values())))
        classes = tuple(place.width_class[fillers[place.slot]] for place in self.places)
        return np.broadcast_to(self._layout_numbers[classes], n)
