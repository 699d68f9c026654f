"""Words that have another form before some words: French `de` is `d'` before a vowel, English `a` is `an`.

Letters decide, not sounds: a rule lists how the following word begins. The longest beginning that fits decides, so
`unless` can hold exceptions (`onz`, `hurl`) and `before` exceptions to these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl


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

    def holds(self, words: pl.Expr) -> pl.Expr:
        """Whether each of many words belongs to it."""
        lower = words.str.to_lowercase()
        return _longest_of_each(lower, self.before) > _longest_of_each(lower, self.unless)


@dataclass(frozen=True)
class Elision:
    """One word with two forms.

    Attributes:
        word: Its usual form, in lower case: `de`.
        form: Its form before the words of `following`, an apostrophe or space at its end included: `d'`.
        following: The words before which it stands.
    """

    word: str
    form: str
    following: Beginnings

    def spell(self, filler: str, capital: bool) -> str:
        """Word and filler together, such as `de fumer` and `d'aimer`."""
        usual, elided = self.forms(capital)
        return (elided if filler in self.following else usual) + filler

    def spelled(self, fillers: pl.Expr, capital: bool) -> pl.Expr:
        """`spell` over a column."""
        usual, elided = self.forms(capital)
        return pl.when(self.following.holds(fillers)).then(pl.lit(elided)).otherwise(pl.lit(usual)) + fillers

    def forms(self, capital: bool) -> tuple[str, str]:
        """The usual form with the space after it, and the other form; both with a capital where that is asked for."""
        other = self.form if self.form.endswith(("'", "’")) else f"{self.form} "
        usual, elided = f"{self.word} ", other
        return (_capital(usual), _capital(elided)) if capital else (usual, elided)


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _longest(word: str, beginnings: Sequence[str]) -> int:
    """The number of letters of the longest beginning that fits; 0 if none does."""
    return max((len(beginning) for beginning in beginnings if word.startswith(beginning)), default=0)


def _longest_of_each(words: pl.Expr, beginnings: Sequence[str]) -> pl.Expr:
    fitting = [pl.when(words.str.starts_with(one)).then(len(one)).otherwise(0) for one in beginnings]
    return pl.max_horizontal(fitting) if fitting else pl.lit(0)
