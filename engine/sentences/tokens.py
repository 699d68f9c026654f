"""Token ids of millions of sentences without tokenizing them.

Sentences of one pattern differ in their fillers only. So each filler is tokenized once, in its place in a base
sentence, and sentences are put together from the pieces (`pieces.py`). That this gives what the tokenizer gives is not
taken for granted: `composer` compares sentences that cover every filler, and where one of them differs it falls back to
tokenizing each sentence.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordPiece

from ..errors import InputError
from .keys import string_keys
from .patterns import MASK, Hole, Pattern
from .spans import Place, Slice, SlotwiseComposer

__all__ = [
    "Composer",
    "MaskTokenizer",
    "Slice",
    "SlotwiseComposer",
    "VerbConvention",
    "WholeSentenceComposer",
    "composer",
    "mask_fillers",
]

RANDOM_COMBINATIONS = 2_000
"""How many sentences of random fillers are compared, besides those that cover every filler."""


_FILE = "tokenizer.json"


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json from an exported model's folder.

    Raises:
        InputError: There is no such file, or it is damaged.
    """
    path = folder / _FILE
    try:
        return Tokenizer.from_buffer(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); export the model again") from error
    except ValueError as error:
        raise InputError(f"{path}: not a tokenizer ({str(error).splitlines()[0]}); export the model again") from error


class MaskTokenizer:
    """A model's own tokenizer and its mask token.

    Attributes:
        mask_token: As written in a text.
        mask_id: Its id.
        vocab_size: The number of ids, added tokens included.
    """

    def __init__(self, tokenizer: Tokenizer, mask_token: str) -> None:
        """Take over a tokenizer, and switch truncation and padding off in it.

        Raises:
            InputError: It does not know the mask token.
        """
        mask_id = tokenizer.token_to_id(mask_token)
        if mask_id is None:
            raise InputError(f"the tokenizer has no token {mask_token!r}; give the model's own mask token")
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.mask_token = mask_token
        self.mask_id: int = mask_id
        self.vocab_size: int = tokenizer.get_vocab_size()

    @classmethod
    def load(cls, folder: Path, mask_token: str) -> "MaskTokenizer":
        """Read tokenizer.json from an exported model's folder.

        Raises:
            InputError: There is no such file, it is damaged, or it does not know the mask token.
        """
        tokenizer = load_tokenizer(folder)
        try:
            return cls(tokenizer, mask_token)
        except InputError as error:
            raise InputError(f"{folder / _FILE}: {error}") from error

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text, special tokens included: int32 [length]."""
        encodings = self._tokenizer.encode_batch_fast(list(texts))
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]

    def encode_masked(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of texts that hold one mask each.

        Raises:
            InputError: One of them holds none or several.
        """
        sentences = self.encode(texts)
        for text, ids in zip(texts, sentences, strict=True):
            if (masks := np.count_nonzero(ids == self.mask_id)) != 1:
                raise InputError(f"{masks} mask tokens in {text!r}; a sentence needs one {self.mask_token}")
        return sentences

    def encode_with_offsets(self, texts: Sequence[str]) -> list[Encoding]:
        """The tokens of each text, special tokens included, with the characters that each covers."""
        return list(self._tokenizer.encode_batch(list(texts)))

    def is_single_token(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each text is one token when it stands alone, special tokens not counted: bool [n]."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return np.array([len(encoding.ids) == 1 for encoding in encodings], dtype=bool)

    def token_text(self, token_id: int) -> str:
        """A token as a person reads it: without the marks for leading spaces and continued words."""
        token: str | None = self._tokenizer.id_to_token(token_id)
        if token is None:  # models may have more output rows than their tokenizer has tokens
            return f"#{token_id}"
        model = self._tokenizer.model
        if isinstance(model, WordPiece):
            return token.removeprefix(model.continuing_subword_prefix) or token
        text = str(self._tokenizer.decode([token_id], skip_special_tokens=False)).strip()
        # A byte-level token may be part of a character only, which cannot be shown.
        return text if text and "\N{REPLACEMENT CHARACTER}" not in text else token

    def wordless_ids(self) -> frozenset[int]:
        """The ids that stand for no word: special tokens and the unknown token."""
        special = {token_id for token_id, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        unknown = getattr(self._tokenizer.model, "unk_token", None) or "<unk>"  # Unigram does not tell its own
        unknown_id = self._tokenizer.token_to_id(unknown)
        return frozenset(special if unknown_id is None else special | {unknown_id})


class VerbConvention(StrEnum):
    """Which verbs a model can be asked for."""

    IN_CONTEXT = "in-context"
    """Those that are exactly one token in the mask's place in the sentence."""
    BARE = "bare"
    """Of those, the ones that are also one token when they stand alone."""


def mask_fillers(
    tokenizer: MaskTokenizer,
    pattern: Pattern,
    verbs: Sequence[str],
    fillers: Mapping[str, str],
    convention: VerbConvention,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The mono-token verbs: those that can be the prediction at the mask.

    Put in the mask's place, such a verb is covered by exactly one token, which stands where the mask stood and covers
    nothing else; the tokens before it are those before the mask. Special tokens and the unknown token do not count.
    What follows may change: some tokenizers mark the start of a word after a special token, but not after a word.

    Args:
        tokenizer: The model's.
        pattern: The pattern with the mask.
        verbs: The candidates.
        fillers: One filler for each of the pattern's slots.
        convention: With `BARE` the verb must be one token alone, too. The token to expect at the mask is that of the
            sentence all the same.

    Returns:
        int64 [m], the mono-token verbs' indices in verbs, ascending, and int32 [m], the token of each.

    Raises:
        InputError: No verb is left.
    """
    before, after = pattern.text(fillers, "\0").split("\0")
    masked = before + tokenizer.mask_token + after
    [base] = tokenizer.encode_masked([masked])
    mask = base.tolist().index(tokenizer.mask_id)
    wordless = tokenizer.wordless_ids()
    encodings = tokenizer.encode_with_offsets([before + verb + after for verb in verbs])
    usable = np.array(
        [
            _covering_token(encoding, len(before), len(before) + len(verb)) == mask
            and encoding.ids[:mask] == base[:mask].tolist()
            and encoding.ids[mask] not in wordless
            for verb, encoding in zip(verbs, encodings, strict=True)
        ]
    )
    if convention == VerbConvention.BARE:
        usable &= tokenizer.is_single_token(verbs)
    index = np.flatnonzero(usable)
    if not len(index):
        raise InputError(f"none of {len(verbs)} verbs is one token ({convention}) in place of the mask in {masked!r}")
    return index, np.array([encodings[i].ids[mask] for i in index], dtype=np.int32)


def _covering_token(encoding: Encoding, start: int, stop: int) -> int | None:
    """The position of the token that covers the characters from start to stop and nothing else but a space before."""
    overlapping = [i for i, (first, last) in enumerate(encoding.offsets) if first < stop and last > start]
    if len(overlapping) != 1:
        return None
    first, last = encoding.offsets[overlapping[0]]
    return overlapping[0] if first in {start - 1, start} and last == stop else None


class Composer(Protocol):
    """Makes the token ids of one pattern's sentences.

    A sentence is a row of the fillers given: slot → int64 [n], indices in that slot's list of fillers.
    """

    @property
    def slotwise(self) -> bool:
        """Whether sentences are put together from pieces instead of being tokenized."""

    @property
    def proved(self) -> int:
        """How many sentences were compared with the tokenizer's."""

    @property
    def reason(self) -> str:
        """Why every sentence is tokenized; empty if it is not."""

    def lengths(self, fillers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int32]:
        """The number of tokens of each sentence, int32 [n]."""

    def compose(self, fillers: Mapping[str, NDArray[np.int64]]) -> Iterator[Slice]:
        """The sentences, one slice for each length, by ascending length."""


def composer(
    tokenizer: MaskTokenizer, pattern: Pattern, fillers: Mapping[str, Sequence[str]], seed: int
) -> "SlotwiseComposer | WholeSentenceComposer":
    """The fastest composer that gives exactly the tokenizer's ids.

    Args:
        tokenizer: The model's.
        pattern: The sentences' pattern.
        fillers: The list of fillers for each of its slots.
        seed: Of the random combinations that are compared. The ids do not depend on it.

    Raises:
        InputError: A filler brings a mask of its own, or hides the pattern's.
    """
    whole = WholeSentenceComposer(tokenizer, pattern, fillers)
    try:
        slotwise = _learn(whole)
        return replace(slotwise, proved=_prove(slotwise, whole, seed))
    except _NotSlotwiseError as error:
        return replace(whole, reason=str(error))


@dataclass(frozen=True, eq=False)
class WholeSentenceComposer:
    """Tokenizes every sentence: right for every tokenizer, and slow. `reason` says why it had to be."""

    tokenizer: MaskTokenizer
    pattern: Pattern
    fillers: Mapping[str, Sequence[str]]
    reason: str = ""
    slotwise: bool = False
    proved: int = 0

    def texts(self, fillers: Mapping[str, NDArray[np.int64]]) -> list[str]:
        """The sentences themselves."""
        columns = [[self.fillers[slot][i] for i in index] for slot, index in fillers.items()]
        rows = (dict(zip(fillers, words, strict=True)) for words in zip(*columns, strict=True))
        return [self.pattern.text(row, self.tokenizer.mask_token) for row in rows]

    def lengths(self, fillers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int32]:
        """See `Composer`."""
        return np.array([len(ids) for ids in self.tokenizer.encode(self.texts(fillers))], dtype=np.int32)

    def compose(self, fillers: Mapping[str, NDArray[np.int64]]) -> Iterator[Slice]:
        """See `Composer`."""
        sentences = self.tokenizer.encode_masked(self.texts(fillers))
        lengths = np.array([len(ids) for ids in sentences])
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            ids = np.stack([sentences[row] for row in rows])
            yield Slice(rows, ids, (ids == self.tokenizer.mask_id).argmax(axis=1).astype(np.int32))


class _NotSlotwiseError(Exception):
    """The tokenizer does not treat the fillers one by one; the message shows where."""


def _learn(whole: WholeSentenceComposer) -> SlotwiseComposer:
    """Find the place of each hole: fill it with every filler, the other holes with their first."""
    tokenizer, pattern = whole.tokenizer, whole.pattern

    def spelled(hole: Hole) -> list[str]:
        if hole.slot == MASK:
            return [tokenizer.mask_token]
        return [hole.spell(filler) for filler in whole.fillers[hole.slot]]

    base = [spelled(hole)[0] for hole in pattern.holes]
    text = pattern.fill(base)
    [frame] = tokenizer.encode_masked([text])
    mask = frame.tolist().index(tokenizer.mask_id)
    places: list[Place] = []
    for i, hole in enumerate(pattern.holes):
        texts = [pattern.fill([*base[:i], word, *base[i + 1 :]]) for word in spelled(hole)]
        place = Place.where_different(hole.slot, tokenizer.encode_masked(texts))
        if not place.tokens.size:  # one filler only, or the mask
            continue
        if places and place.start < places[-1].stop:
            raise _NotSlotwiseError(f"{places[-1].slot} and {hole.slot} share tokens in {text!r}")
        if place.start <= mask < place.stop:
            raise _NotSlotwiseError(f"{hole.slot} changes tokens on both sides of the mask in {text!r}")
        places.append(place)
    return SlotwiseComposer(frame, mask, tuple(places))


def _prove(slotwise: SlotwiseComposer, whole: WholeSentenceComposer, seed: int) -> int:
    """Compare with the tokenizer on every filler of every slot and on random combinations; how many sentences."""
    rng = np.random.default_rng(string_keys([str(seed)], "proof"))
    sizes = {slot: len(words) for slot, words in whole.fillers.items()}
    covering = max(sizes.values())
    fillers = {
        slot: np.concatenate([np.resize(rng.permutation(size), covering), rng.integers(size, size=RANDOM_COMBINATIONS)])
        for slot, size in sizes.items()
    }
    texts = whole.texts(fillers)
    expected = whole.tokenizer.encode_masked(texts)
    for slice_ in slotwise.compose(fillers):
        for row, ids, mask in zip(slice_.rows, slice_.ids, slice_.mask_position, strict=True):
            if not np.array_equal(ids, expected[row]) or ids[mask] != whole.tokenizer.mask_id:
                raise _NotSlotwiseError(f"the fillers of {texts[row]!r} change each other's tokens")
    return len(texts)
