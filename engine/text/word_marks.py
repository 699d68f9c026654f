"""How a vocabulary marks the words: which tokens begin a word, and which continue one (`docs/several-tokens.md`)."""

import re
import unicodedata
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray
from tokenizers import decoders
from tokenizers.models import BPE, WordPiece

from ..basics.errors import InputError
from .tokenizer import MaskTokenizer

_BYTE_LEVEL, _SENTENCEPIECE = "Ġ", "▁"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # of SentencePiece's byte fallback
_IN_WORDS = frozenset("LMN")  # Unicode's categories of letters, marks on letters, numbers


class WordClass(IntEnum):
    """What a token can be in a word."""

    SPECIAL = 0  # a special token or the unknown token: not a part of any word
    BEGINS = 1  # with marks at the ends of words: it does not end one
    CONTINUES = 2
    OTHER = 3  # without a mark, but it cannot continue a word: punctuation; with marks at the ends: it ends one
    UNUSED = 4  # an output of the model that does not stand for any token


class Mark(StrEnum):
    """Where a vocabulary has its mark."""

    CONTINUATION = "continuation"  # before tokens that continue a word: `##` of WordPiece
    BEGINNING = "beginning"  # before tokens that begin a word: a leading space, `Ġ` or `▁`
    END = "end"  # after the last token of a word: `</w>`


@dataclass(frozen=True, eq=False)
class WordMarks:
    """The class of each token of a model."""

    mark: Mark
    classes: NDArray[np.int8]  # int8 [V], a `WordClass` for each output of the model

    @classmethod
    def of(cls, tokenizer: MaskTokenizer, outputs: int) -> "WordMarks":
        """The marks of a vocabulary for a model of so many outputs (some have more than tokens)."""
        backend = tokenizer.backend
        known = min(outputs, tokenizer.vocab_size)
        tokens = [str(backend.id_to_token(token) or "") for token in range(known)]
        classes = np.full(outputs, WordClass.UNUSED, np.int8)
        suffix = getattr(backend.model, "end_of_word_suffix", None) if isinstance(backend.model, BPE) else None
        spaces = {mark: sum(token.startswith(mark) for token in tokens) for mark in (_BYTE_LEVEL, _SENTENCEPIECE)}
        leading = max(spaces, key=spaces.__getitem__)
        if isinstance(backend.model, WordPiece):
            mark, prefix = Mark.CONTINUATION, backend.model.continuing_subword_prefix
            found = [WordClass.CONTINUES if token.startswith(prefix) else WordClass.BEGINS for token in tokens]
        elif suffix:
            mark = Mark.END
            found = [WordClass.OTHER if token.endswith(suffix) else WordClass.BEGINS for token in tokens]
        elif spaces[leading]:
            mark = Mark.BEGINNING
            found = [_by_leading_space(token, leading) for token in tokens]
        else:
            raise InputError(
                "the vocabulary does not mark where words begin or end, which whole-word needs: "
                "use left-to-right or all-masks"
            )
        classes[:known] = found
        classes[[token for token in tokenizer.special_ids() if token < outputs]] = WordClass.SPECIAL
        return cls(mark, classes)

    @property
    def breaks(self) -> NDArray[np.bool_]:
        """The tokens after which the word before has ended: bool [V]; not where marks are at the ends of words."""
        return np.isin(self.classes, (WordClass.BEGINS, WordClass.OTHER, WordClass.SPECIAL))

    @property
    def unmarked(self) -> NDArray[np.bool_]:
        """The tokens that can begin a word where no space stands before it: bool [V]."""
        return np.isin(self.classes, (WordClass.CONTINUES, WordClass.OTHER, WordClass.SPECIAL))


def _by_leading_space(token: str, mark: str) -> WordClass:
    if token.startswith(mark):
        return WordClass.BEGINS
    if not token:
        return WordClass.UNUSED
    if mark == _BYTE_LEVEL:
        token = decoders.ByteLevel().decode([token])
        if token.startswith("\N{REPLACEMENT CHARACTER}"):  # a part of a character
            return WordClass.CONTINUES
    elif _BYTE.fullmatch(token):
        return WordClass.CONTINUES
    inside = unicodedata.category(token[:1] or " ")[0] in _IN_WORDS
    return WordClass.CONTINUES if inside else WordClass.OTHER
