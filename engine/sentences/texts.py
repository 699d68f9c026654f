"""The texts of millions of sentences: a pattern as an expression over a table of words."""

import polars as pl

from .patterns import Hole, Pattern
from .slots import MASK, VERB, column


def text(pattern: Pattern, mask: str) -> pl.Expr:
    """The sentence of each row, exactly as `Pattern.text` makes it.

    Args:
        pattern: The pattern.
        mask: The model's mask token, which stands in place of {MASK}.

    Returns:
        An expression over the columns of the pattern's slots (see `slots.column`).
    """
    pieces = pattern.fill(["\0"] * len(pattern.holes)).split("\0")  # no pattern has a character like this
    parts = [pl.lit(pieces[0])]
    for hole, after in zip(pattern.holes, pieces[1:], strict=True):
        parts += [pl.lit(mask) if hole.slot == MASK else _spelled(hole, hole.slot), pl.lit(after)]
    return pl.concat_str(parts)


def expected(pattern: Pattern) -> pl.Expr:
    """The verb of each row as it would stand at the mask, with a capital where the mask starts a sentence."""
    [hole] = (hole for hole in pattern.holes if hole.slot == MASK)
    return _spelled(hole, VERB)


def _spelled(hole: Hole, slot: str) -> pl.Expr:
    """The words of a slot in the place of a hole: `Hole.spell` over a column."""
    words = pl.col(column(slot))
    return words.str.slice(0, 1).str.to_uppercase() + words.str.slice(1) if hole.starts_sentence else words
