"""Cues as one label for each word, which a token classifier can learn, and labels as cues.

    O         not a cue
    SINGLE    a cue of one word: not, n't, never, without
    MULTI-B   the first word of a cue of several words: neither (… nor), by (no means)
    MULTI-I   a further word of the cue that began last; other words may stand between them
    PREFIX    a word whose prefix is the cue: un-happy; which letters it has follows from the list in cues.toml
    SUFFIX    a word whose suffix is the cue, or a suffix with another one behind it: care-less, care-less-ly

The first two kinds of cue and the affixes are told apart as in Hossain et al. (2020, appendix A). What labels cannot
express (two cues with a word in common, cues of several words that cross) is found by `labels_of`.
"""

from collections.abc import Iterable, Sequence

from .marked import MarkedCue
from .word_list import WORDS, Kind

OUTSIDE, SINGLE, FIRST, NEXT, PREFIX, SUFFIX = "O", "SINGLE", "MULTI-B", "MULTI-I", "PREFIX", "SUFFIX"
LABELS = (OUTSIDE, SINGLE, FIRST, NEXT, PREFIX, SUFFIX)
"""The labels of a cue detector, in the order of its logits."""

_PREFIXES = sorted(WORDS["prefixes"], key=len, reverse=True)  # the longest one that fits
_SUFFIXES = sorted(WORDS["suffixes"], key=len, reverse=True)


def labels_of(words: Sequence[str], cues: Iterable[MarkedCue]) -> tuple[list[str], list[MarkedCue]]:
    """The label of each word, and the cues that labels cannot express.

    Args:
        words: Of the sentence.
        cues: Its cues.
    """
    labels, lost = [OUTSIDE] * len(words), []
    for cue in sorted(cues, key=lambda cue: cue.words):
        wanted = list(labels)
        for number, place in enumerate(cue.words):
            if labels[place] != OUTSIDE:
                break
            wanted[place] = _label(words[place], cue, number)
        else:
            if cue in cues_of(words, wanted) and len(cues_of(words, wanted)) == len(cues_of(words, labels)) + 1:
                labels = wanted
                continue
        lost.append(cue)
    return labels, lost


def cues_of(words: Sequence[str], labels: Sequence[str]) -> list[MarkedCue]:
    """The cues that labels say, by their first words.

    Labels that a model gives need not fit together: a further word without a first one begins a cue, and a cue of
    several words that has only one is a cue of one word. Where no affix of the list is in a word, the whole word is the
    cue.

    Args:
        words: Of the sentence.
        labels: The label of each word.
    """
    found: list[tuple[list[int], list[str]]] = []
    begun: tuple[list[int], list[str]] | None = None
    for place, (word, label) in enumerate(zip(words, labels, strict=True)):
        if label == NEXT and begun is not None:
            begun[0].append(place)
            begun[1].append(word)
        elif label in {FIRST, NEXT}:
            begun = ([place], [word])
            found.append(begun)
        elif label != OUTSIDE:
            found.append(([place], [_part(word, label)]))
    return [MarkedCue.of(words, places, parts) for places, parts in found]


def _label(word: str, cue: MarkedCue, number: int) -> str:
    if cue.kind is Kind.PHRASE:
        return NEXT if number else FIRST
    if cue.kind is Kind.PARTICLE:
        return SINGLE
    return PREFIX if _part(word, PREFIX) == cue.parts[0] else SUFFIX


def _part(word: str, label: str) -> str:
    """The part of a word that is the cue, as the word writes it."""
    lower = word.lower()
    if len(lower) != len(word):  # a letter that has two in lower case
        return word
    if label == PREFIX:
        found = next((prefix for prefix in _PREFIXES if lower.startswith(prefix) and lower != prefix), "")
        return word[: len(found)] or word
    if label == SUFFIX:
        for suffix in _SUFFIXES:
            if (start := lower.rfind(suffix)) > 0:
                return word[start : start + len(suffix)]
    return word
