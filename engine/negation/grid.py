"""The grid of candidates: every usable verb for every [NAME, PROF] pair, never held as a whole.

A pair's id is name * professions + profession; a candidate's index is (position of its pair) * verbs + verb. So a
share of a run is a range of pairs, and each candidate follows from its index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..sentences.keys import combine, string_keys
from ..sentences.lexicon import Lexicon

Indices = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Grid:
    """The candidates [NAME, PROF, verb] of a run.

    Attributes:
        names: Number of names.
        professions: Number of professions.
        verbs: Number of usable verbs.
        pairs: int64 [n], the ids of the pairs to test, ascending.
    """

    names: int
    professions: int
    verbs: int
    pairs: NDArray[np.int64]

    @property
    def size(self) -> int:
        """The number of candidates."""
        return len(self.pairs) * self.verbs

    def locate(self, index: NDArray[np.int64]) -> Indices:
        """Name, profession and verb (each int64 [n]) of candidates."""
        position, verb = np.divmod(index, self.verbs)
        name, profession = np.divmod(self.pairs[position], self.professions)
        return name, profession, verb

    def index(
        self, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The inverse of `locate`.

        Raises:
            KeyError: A pair is not in the grid.
        """
        pair = name * self.professions + profession
        position = np.searchsorted(self.pairs, pair)
        inside = position < len(self.pairs)
        if not np.all(inside) or np.any(self.pairs[position] != pair):
            raise KeyError("a [NAME, PROF] pair is not in the grid")
        return position * self.verbs + verb

    def parts(self, pairs_per_part: int) -> tuple[range, ...]:
        """The grid in shares of `pairs_per_part` pairs, the last one maybe smaller: ranges of positions in `pairs`."""
        n = len(self.pairs)
        return tuple(range(start, min(start + pairs_per_part, n)) for start in range(0, n, pairs_per_part))

    def part_indices(self, part: range) -> Indices:
        """Name, profession and verb (each int64 [len(part) * verbs]) of a part's candidates, by ascending index."""
        name, profession = np.divmod(self.pairs[part.start : part.stop], self.professions)
        verb = np.tile(np.arange(self.verbs), len(part))
        return np.repeat(name, self.verbs), np.repeat(profession, self.verbs), verb


def all_pairs(lexicon: Lexicon) -> NDArray[np.int64]:
    """The ids of all pairs, int64 [n_pairs], ascending."""
    return np.arange(lexicon.n_pairs)


def sample_pairs(lexicon: Lexicon, n: int, seed: int) -> NDArray[np.int64]:
    """A random sample of pairs: those of the n smallest keys. A smaller sample is part of every larger one.

    Returns:
        int64 [n], pair ids, ascending.

    Raises:
        InputError: n is less than 1 or exceeds the number of pairs.
    """
    if not 1 <= n <= lexicon.n_pairs:
        raise InputError(f"{n} pairs asked for: the lexicon has {lexicon.n_pairs}; ask for 1 to {lexicon.n_pairs}")
    keys = combine(_keys(lexicon.names, "pairs", seed)[:, None], _keys(lexicon.professions, "pairs", seed)).ravel()
    return np.sort(np.argsort(keys, kind="stable")[:n])


def verb_order(
    lexicon: Lexicon, seed: int, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """In which order the verbs of each pair are preferred: the smaller key first.

    Args:
        lexicon: The words that the indices mean.
        seed: Another seed gives another order.
        name: int64 [n_pairs], indices in lexicon.names.
        profession: int64 [n_pairs], indices in lexicon.professions.
        verb: int64 [n_verbs], indices in lexicon.verbs.

    Returns:
        uint64 [n_pairs, n_verbs], a function of the seed and the three words alone.
    """
    return combine(
        _keys(lexicon.names, "verbs", seed)[name][:, None],
        _keys(lexicon.professions, "verbs", seed)[profession][:, None],
        _keys(lexicon.verbs, "verbs", seed)[verb],
    )


class Coreference(StrEnum):
    """Who the target sentence is about (section 4 of the paper)."""

    PRONOUN = "pronoun"
    """"she" or "he": the base test."""
    SAME_NAME = "same-name"
    """The name of the context again: co-reference is forced."""
    SAME_GENDER = "same-gender"
    """Another name of the same gender: co-reference is ruled out."""
    OTHER_GENDER = "other-gender"
    """A name of the other gender: co-reference is ruled out."""


def subjects(lexicon: Lexicon, coreference: Coreference, seed: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """What fills {PRON} for each [NAME, PROF] pair.

    Another name is, among the names of the gender asked for and other than NAME, the one with the smallest key of
    (seed, NAME, PROF, that name).

    Returns:
        The fillers, and for each pair the index of its filler, int64 [n_names, n_professions].

    Raises:
        InputError: There is no other name of the same gender.
    """
    genders = np.array(lexicon.genders)
    shape = (len(lexicon.names), len(lexicon.professions))
    match coreference:
        case Coreference.PRONOUN:
            return ("she", "he"), np.broadcast_to((genders == "m").astype(np.int64)[:, None], shape)
        case Coreference.SAME_NAME:
            return lexicon.names, np.broadcast_to(np.arange(len(lexicon.names))[:, None], shape)
        case Coreference.SAME_GENDER:
            allowed = (genders[:, None] == genders) & ~np.eye(len(genders), dtype=bool)
        case Coreference.OTHER_GENDER:
            allowed = genders[:, None] != genders
    return lexicon.names, _other_names(lexicon, allowed, seed)


def _other_names(lexicon: Lexicon, allowed: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """The allowed name of the smallest key for each pair; allowed is bool [n_names, n_names]."""
    names = _keys(lexicon.names, "other names", seed)
    professions = _keys(lexicon.professions, "other names", seed)
    chosen = np.empty((len(names), len(professions)), dtype=np.int64)
    for name, others in enumerate(allowed):
        candidates = np.flatnonzero(others)
        if not len(candidates):
            raise InputError(f"no other name has the gender of {lexicon.names[name]!r}; the lexicon needs another")
        chosen[name] = candidates[combine(names[name], professions[:, None], names[candidates]).argmin(axis=1)]
    return chosen


def _keys(words: Sequence[str], purpose: str, seed: int) -> NDArray[np.uint64]:
    return string_keys(words, f"{purpose}, seed {seed}")
