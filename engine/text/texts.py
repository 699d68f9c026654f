"""The texts of millions of sentences: a pattern as an expression over a table of words."""

from collections.abc import Sequence

import polars as pl

from .elision import Beginnings, Elision, before
from .pattern import Hole, Pattern
from .slots import MASK, VERB, column


def text(pattern: Pattern, mask: str | pl.Expr) -> pl.Expr:
    """The sentence of each row, exactly as `Pattern.text` makes it.

    Args:
        pattern: The pattern.
        mask: The model's mask token, or an expression: what stands in place of {MASK}.

    Returns:
        An expression over the columns of the pattern's slots (see `slots.column`).
    """
    pieces = pattern.pieces
    masked = pl.lit(mask) if isinstance(mask, str) else mask
    parts = [pl.lit(pieces[0])]
    for hole, after in zip(pattern.holes, pieces[1:], strict=True):
        parts += [masked if hole.slot == MASK else _spelled(hole, column(hole.slot)), pl.lit(after)]
    return pl.concat_str(parts)


def expected(pattern: Pattern, verb: str = column(VERB)) -> pl.Expr:
    """The verb of each row as it would stand at the mask, with a capital where the mask starts a sentence.

    Args:
        pattern: The pattern.
        verb: The column with the form of the verb.
    """
    return _spelled(pattern.mask, verb)


def _spelled(hole: Hole, name: str) -> pl.Expr:
    """The words of a column in the place of a hole: `Hole.spell` over a column."""
    words = pl.col(name)
    if hole.elision is not None:
        return _elided(hole.elision, words, capital=hole.capital)
    return words.str.slice(0, 1).str.to_uppercase() + words.str.slice(1) if hole.starts_sentence else words


def _elided(rule: Elision, words: pl.Expr, *, capital: bool) -> pl.Expr:
    """`Elision.spell` over a column."""
    form = pl.lit(before(rule.word, capital=capital))
    for other, following in reversed(rule.forms):
        form = pl.when(_hold(following, words)).then(pl.lit(before(other, capital=capital))).otherwise(form)
    return form + words


def _hold(following: Beginnings, words: pl.Expr) -> pl.Expr:
    """Whether each of many words is one of some beginnings."""
    lower = words.str.to_lowercase()
    return _longest(lower, following.before) > _longest(lower, following.unless)


def _longest(words: pl.Expr, beginnings: Sequence[str]) -> pl.Expr:
    """The number of letters of the longest beginning that fits each word; 0 where none does."""
    fitting = [pl.when(words.str.starts_with(one)).then(len(one)).otherwise(0) for one in beginnings]
    return pl.max_horizontal(fitting) if fitting else pl.lit(0)
