"""Sentences as token ids, and which of their tokens are scored; sentences of one length together.

The special tokens that the tokenizer puts around a sentence are not scored. A causal model cannot score the first
token where nothing stands before it: it can where its tokenizer begins each text with a token of its own.

A sentence that is longer than the model is refused, or scored in windows. With W the number of tokens that fit between
the special tokens:

    masked model   each token has a window of its own: the W tokens nearest to it, as many on its left as on its right
                   (one more on its left if W is even) except near the ends of the sentence
    causal model   windows of W tokens begin every W / 2 tokens (rounded down). The first one scores all its tokens,
                   each later one those that the window before did not reach. So at least W / 2 tokens, rounded down,
                   stand before a token of a later window
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from ...inference.batches import rows_by_length
from ...text.tokenizer import MaskTokenizer

Ids = NDArray[np.int32]
NO_WORD = -1
_WINDOWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence as the model reads it.

    Attributes:
        ids: int32 [L], special tokens included.
        scored: int64 [n], the positions of the scored tokens, ascending.
        word: int32 [L], the number of the word that a token belongs to, as the tokenizer divides the text into words
            before it divides words into tokens; `NO_WORD` for special tokens.
        start: int32 [L], the first character that a token covers.
        content: The positions from the first token of the text to behind its last one.
    """

    ids: Ids
    scored: NDArray[np.int64]
    word: Ids
    start: Ids
    content: slice

    @property
    def tokens(self) -> Ids:
        """The scored tokens, int32 [n]."""
        return self.ids[self.scored]


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of one length that a model reads: sentences, or windows of long ones.

    Attributes:
        ids: int32 [m, L].
        word: int32 [m, L], see `Sentence`.
        slot: int64 [m, L], where the score of a token belongs in the scores of all sentences; -1 if it is not scored.
    """

    ids: Ids
    word: Ids
    slot: NDArray[np.int64]


@dataclass(frozen=True)
class Encoder:
    """How texts become sentences.

    Attributes:
        tokenizer: The model's.
        is_causal: Whether the model reads from left to right.
    """

    tokenizer: MaskTokenizer
    is_causal: bool = False

    def encode(self, texts: Sequence[str]) -> list[Sentence]:
        """Texts as sentences of any length."""
        return [self._sentence(encoding) for encoding in self.tokenizer.backend.encode_batch(list(texts))]

    def _sentence(self, encoding: Encoding) -> Sentence:
        ids = np.array(encoding.ids, np.int32)
        words = [NO_WORD if number is None else number for number in encoding.word_ids]
        start = np.array([first for first, _ in encoding.offsets], np.int32).reshape(len(ids))
        (content,) = np.nonzero(np.array(encoding.special_tokens_mask, np.int32) == 0)
        first, last = (int(content[0]), int(content[-1]) + 1) if len(content) else (len(ids), len(ids))
        scored = content[content > 0] if self.is_causal else content
        return Sentence(ids, scored.astype(np.int64), np.array(words, np.int32), start, slice(first, last))

    def groups(self, sentences: Sequence[Sentence], longest: int) -> Iterator[Group]:
        """Everything that a model must read to score some sentences.

        Args:
            sentences: The sentences.
            longest: The largest number of tokens that the model takes; longer sentences are read in windows.
        """
        slots = np.cumsum([0, *(len(sentence.scored) for sentence in sentences)])
        short = [number for number, sentence in enumerate(sentences) if len(sentence.ids) <= longest]
        for rows in rows_by_length([sentences[number].ids for number in short]):
            group = [(sentences[short[row]], int(slots[short[row]])) for row in rows.tolist()]
            yield Group(
                np.stack([sentence.ids for sentence, _ in group]),
                np.stack([sentence.word for sentence, _ in group]),
                np.stack([_slots(sentence, first) for sentence, first in group]),
            )
        for number, sentence in enumerate(sentences):
            if len(sentence.ids) > longest:
                windows = _strided if self.is_causal else _centred
                yield from windows(sentence, _slots(sentence, int(slots[number])), longest)


def _slots(sentence: Sentence, first: int) -> NDArray[np.int64]:
    slot = np.full(len(sentence.ids), -1, np.int64)
    slot[sentence.scored] = first + np.arange(len(sentence.scored))
    return slot


def _centred(sentence: Sentence, slot: NDArray[np.int64], longest: int) -> Iterator[Group]:
    """A window for each scored token of a masked model, some at a time."""
    around = _room(sentence, longest)
    first, n = sentence.content.start, sentence.content.stop - sentence.content.start
    for begin in range(0, len(sentence.scored), _WINDOWS_AT_ONCE):
        own = sentence.scored[begin : begin + _WINDOWS_AT_ONCE]
        starts = first + np.clip(own - first - around // 2, 0, n - around)
        taken = [_window(sentence, start, around) for start in starts.tolist()]
        only = np.stack([np.where(place == token, slot[token], -1) for place, token in zip(taken, own, strict=True)])
        places = np.stack(taken)
        yield Group(sentence.ids[places], sentence.word[places], only)


def _strided(sentence: Sentence, slot: NDArray[np.int64], longest: int) -> Iterator[Group]:
    """Windows of a causal model, each half a window behind the one before."""
    room = _room(sentence, longest)
    first, stop = sentence.content.start, sentence.content.stop
    reached = first
    for start in range(first, stop, max(1, room // 2)):
        width = min(room, stop - start)
        places = _window(sentence, start, width)
        own = np.where((places >= reached) & (places < stop), slot[places], -1)
        yield Group(sentence.ids[places][None], sentence.word[places][None], own[None])
        reached = start + width
        if reached == stop:
            return


def _room(sentence: Sentence, longest: int) -> int:
    """How many tokens of a text fit between its special tokens."""
    content = int(sentence.content.stop) - int(sentence.content.start)
    return longest - (len(sentence.ids) - content)


def _window(sentence: Sentence, start: int, width: int) -> NDArray[np.int64]:
    """The positions of a window: the special tokens before the text, some of its tokens, those behind it."""
    before = np.arange(sentence.content.start)
    behind = np.arange(sentence.content.stop, len(sentence.ids))
    return np.concatenate([before, np.arange(start, start + width), behind])
