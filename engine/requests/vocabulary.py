"""Tokens at the mask: which tokens a word is, and which tokens are ranked."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..basics.errors import InputError
from ..basics.printable import counted, some
from ..basics.reading import is_file
from ..inference.free_text import MASK
from ..text.spelling import is_word
from ..text.text_lines import checked_length, read_lines
from ..text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer

_SENTENCE = f"This is the {MASK} ."  # where words of a list are looked up
LIST = "list"
RANKED_WORDS = "ranked words"  # the key of the metadata with the words of a list that the model knows


def target_ids(tokenizer: MaskTokenizer, texts: Sequence[str], words: Sequence[str]) -> NDArray[np.int32]:
    """The token of each word at the [MASK] of its own text, [n]; `NOT_ONE_TOKEN` where there is none."""
    contexts = [(before, after) for before, _, after in (text.partition(MASK) for text in texts)]
    return tokenizer.word_tokens(contexts, words)


def word_ids(tokenizer: MaskTokenizer, vocab_size: int) -> NDArray[np.int32]:
    """The tokens that can be a word of letters by themselves, also a stop word, int32 [m], ascending."""
    known = range(min(vocab_size, tokenizer.vocab_size))
    texts = [tokenizer.token_text(i) for i in known]
    candidates = [i for i in known if is_word(texts[i])]
    found = target_ids(tokenizer, [_SENTENCE] * len(candidates), [texts[i] for i in candidates])
    candidate_ids = np.array(candidates, np.int32)
    words: NDArray[np.int32] = candidate_ids[found == candidate_ids]
    return words


class Vocabulary(StrEnum):
    """The tokens that are ranked where a user gives no list of words."""

    ALL = "all"
    WORDS = "words"


RANKED_SAID = {"all": "all tokens", "words": "the tokens that are words"}  # for sentences


@dataclass(frozen=True)
class Ranked:
    """The tokens that are ranked, before any tokenizer is known."""

    name: str = Vocabulary.ALL.value  # all, words or list
    words: tuple[str, ...] = ()  # of the list
    file: str = ""  # where the list comes from

    @classmethod
    def of(cls, text: str, option: str = "--vocabulary") -> "Ranked":
        """Read an option: all, words, or a file with one word per line; an `InputError` if it cannot be read."""
        if text in set(Vocabulary):
            return cls(str(text))
        path = Path(text)
        if not is_file(path):
            raise InputError(f"{option} {text}: not all, not words, and not a file; give one of them")
        lines = read_lines(path)
        return cls(LIST, tuple(checked_length(line.strip(), location) for line, location in lines), text)

    @classmethod
    def recorded(cls, identity: Mapping[str, Any], metadata: Mapping[str, Any]) -> "Ranked":
        """Of a finished run: the words of a list are those that its model knows."""
        return cls(str(identity["vocabulary"]), tuple(metadata.get(RANKED_WORDS, ())))

    @property
    def sha256(self) -> str | None:
        """Of the list's words; None without a list."""
        if self.name != LIST:
            return None
        return hashlib.sha256(json.dumps(sorted(set(self.words))).encode()).hexdigest()

    def known(self, tokenizer: MaskTokenizer) -> list[str]:
        """The words of the list that are one token."""
        found = target_ids(tokenizer, [_SENTENCE] * len(self.words), self.words).tolist()
        return [word for word, token in zip(self.words, found, strict=True) if token != NOT_ONE_TOKEN]

    def left_out(self, tokenizer: MaskTokenizer) -> list[str]:
        """A note on the words of the list that do not compete, if there are any."""
        known = set(self.known(tokenizer))
        others = [repr(word) for word in self.words if word not in known]
        of = f"{len(others):,} of {counted(len(self.words), 'word')} of {self.file}"
        return [f"{of} do not compete, as they are not one token of the model: {some(others)}"] if others else []

    def ids(self, tokenizer: MaskTokenizer, vocab_size: int) -> NDArray[np.int32]:
        """The tokens, int32 [m], ascending; an `InputError` if fewer than two words of the list are one token."""
        if self.name == Vocabulary.ALL:
            return np.arange(vocab_size, dtype=np.int32)
        if self.name == Vocabulary.WORDS:
            return word_ids(tokenizer, vocab_size)
        ids = np.unique(target_ids(tokenizer, [_SENTENCE] * len(self.words), self.words))
        found: NDArray[np.int32] = ids[ids != NOT_ONE_TOKEN]
        if len(found) < 2:
            raise InputError(
                f"{self.file}: {len(found)} of {len(self.words)} words are one token of the model; "
                "at least two are needed"
            )
        return found
