"""Pairs with negation in two parts: those to learn from, and those held out.

Three pairs are made from one original pair: T negated, H negated, both. They share their sentences, so all three go to
the same part. Some original pairs occur twice in the benchmark; the triples of equal pairs go to the same part, too.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....engine.errors import InputError
from ....engine.experiments.nli.pairs import KINDS, Pair


@dataclass(frozen=True)
class Split:
    """Pairs in two parts.

    Attributes:
        train: To learn from.
        held_out: To test on.
        shared_texts: How many held-out pairs have a text that a pair to learn from has too, from another original pair:
            in SNLI one caption has many hypotheses.
    """

    train: tuple[Pair, ...]
    held_out: tuple[Pair, ...]
    shared_texts: int


def split(pairs: Sequence[Pair], fraction: float, seed: int) -> Split:
    """Divide pairs by their original pairs, at random.

    Args:
        pairs: Of the benchmark; the number of a pair says which triple it belongs to.
        fraction: The part of the triples to learn from; the paper's is 0.7 (section 6.2).
        seed: Another seed draws other triples.

    Raises:
        InputError: The fraction is not between 0 and 1, or one of the parts would be empty.
    """
    check_fraction(fraction)
    groups = _groups(pairs)
    wanted = round(fraction * sum(map(len, groups)))
    learned: set[int] = set()
    for number in np.random.default_rng(seed).permutation(len(groups)):
        if len(learned) + len(groups[number]) <= wanted:
            learned |= groups[number]
    parts = [tuple(pair for pair in pairs if (_triple(pair) in learned) == is_learned) for is_learned in (True, False)]
    if not all(parts):
        raise InputError(
            f"--negation {fraction:g}: of {len(pairs):,} pairs, none is left to learn or to test; give another part"
        )
    texts = {pair.text for pair in parts[0]}
    return Split(parts[0], parts[1], sum(pair.text in texts for pair in parts[1]))


def check_fraction(fraction: float) -> None:
    """Refuse what is not a part of the pairs.

    Raises:
        InputError: The fraction is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise InputError(f"--negation {fraction:g}: give a fraction between 0 and 1, such as the paper's 0.7")


def _triple(pair: Pair) -> int:
    return pair.item // len(KINDS)


def _groups(pairs: Sequence[Pair]) -> list[set[int]]:
    """The triples that stay together, in the order of their first pair; most groups are one triple."""
    of_triple: dict[int, set[int]] = {}
    by_content: dict[tuple[str, str], list[int]] = defaultdict(list)
    for pair in pairs:
        triple = _triple(pair)
        group = of_triple.setdefault(triple, {triple})
        for other in by_content[pair.text, pair.hypothesis]:
            group |= of_triple[other]
        for member in group:
            of_triple[member] = group
        by_content[pair.text, pair.hypothesis].append(triple)
    return list({id(group): group for group in of_triple.values()}.values())
