"""Which tokens are ranked: all tokens, all words, or the tokens of a word list."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files.reading import is_file
from ..text.text_lines import checked_length, read_lines
from ..text.tokenizer import MaskTokenizer
from .targets import listed_ids, word_ids

LIST = "list"


class Vocabulary(StrEnum):
    """Which tokens are ranked, if there is no word list."""

    ALL = "all"
    WORDS = "words"


@dataclass(frozen=True)
class Ranked:
    """The tokens that are ranked, before any tokenizer is known.

    Attributes:
        name: all, words or list.
        words: The words of the list.
        file: Where the list comes from.
    """

    name: str = Vocabulary.ALL.value
    words: tuple[str, ...] = ()
    file: str = ""

    @classmethod
    def of(cls, text: str, option: str = "--vocabulary") -> "Ranked":
        """Read an option: all, words, or a file with one word per line.

        Args:
            text: What the user gave.
            option: Its option, for messages.

        Raises:
            InputError: The file cannot be read.
        """
        if text in set(Vocabulary):
            return cls(str(text))
        path = Path(text)
        if not is_file(path):
            raise InputError(f"{option} {text}: not all, not words, and not a file; give one of them")
        lines = read_lines(path)
        return cls(LIST, tuple(checked_length(line.strip(), location) for line, location in lines), text)

    @property
    def sha256(self) -> str | None:
        """Hexadecimal digest of the list's words; None without a list."""
        if self.name != LIST:
            return None
        return hashlib.sha256(json.dumps(sorted(set(self.words))).encode()).hexdigest()

    def ids(self, tokenizer: MaskTokenizer, vocab_size: int) -> NDArray[np.int32]:
        """The tokens, int32 [m], ascending.

        Args:
            tokenizer: The model's tokenizer.
            vocab_size: How many logits the model has.

        Raises:
            InputError: Fewer than two words of the list are one token of the model.
        """
        if self.name == Vocabulary.ALL:
            return np.arange(vocab_size, dtype=np.int32)
        if self.name == Vocabulary.WORDS:
            return word_ids(tokenizer, vocab_size)
        found = listed_ids(tokenizer, self.words)
        if len(found) < 2:
            raise InputError(
                f"{self.file}: {len(found)} of {len(self.words)} words are one token of the model; "
                "at least two are needed"
            )
        return found
