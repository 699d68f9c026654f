"""Words that have another form before some words: French `de` is `d'` before a vowel, Italian `il` is `lo` or `l'`.

Letters decide, not sounds: a rule lists how the following word begins. The longest beginning that fits decides, so
`unless` can hold exceptions (`onz`, `hurl`) and `before` exceptions to these.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Beginnings:
    """A set of words, by how they begin.

    Attributes:
        before: Beginnings of the words that belong to it, in lower case.
        unless: Beginnings of words that do not, although one of `before` fits.
    """

    before: tuple[str, ...]
    unless: tuple[str, ...] = ()

    def __contains__(self, word: str) -> bool:
        return _longest(word.lower(), self.before) > _longest(word.lower(), self.unless)


@dataclass(frozen=True)
class Elision:
    """One word with several forms.

    Attributes:
        word: Its usual form, in lower case: `de`, `il`.
        forms: Another form, an apostrophe at its end included, and the words before which it stands: `l'`, `lo`. The
            first form that fits is taken.
    """

    word: str
    forms: tuple[tuple[str, Beginnings], ...]

    def spell(self, filler: str, *, capital: bool) -> str:
        """Word and filler together, such as `de fumer` and `d'aimer`.

        Args:
            filler: What follows.
            capital: Whether the word begins with a capital.
        """
        form = next((form for form, following in self.forms if filler in following), self.word)
        return before(form, capital=capital) + filler


def before(form: str, *, capital: bool) -> str:
    """A form as it stands before the next word: with a space, unless it ends in an apostrophe."""
    spaced = form if form.endswith(("'", "’")) else f"{form} "
    return spaced[:1].upper() + spaced[1:] if capital else spaced


def _longest(word: str, beginnings: Sequence[str]) -> int:
    """The number of letters of the longest beginning that fits; 0 if none does."""
    return max((len(beginning) for beginning in beginnings if word.startswith(beginning)), default=0)
