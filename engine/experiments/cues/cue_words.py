"""Negation cues: the list of words that negate (`cues.toml`), a cue as it is marked, and cues as labels of words.

The list has the three kinds of Hossain et al. (2020), appendix A. Not counted are words that deny by their meaning
(`fail`, `absence`), approximate negators (`hardly`) and affixed words that are not listed.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_CONTRACTED, _NO, _NEITHER, _NOR, _NEITHER_NOR = "n't", "no", "neither", "nor", "neither nor"
DATA = "cd-sco"
TRAIN_FILES = ("SEM-2012-SharedTask-CD-SCO-training-09032012.txt", "SEM-2012-SharedTask-CD-SCO-dev-09032012.txt")
TEST_FILES = ("SEM-2012-SharedTask-CD-SCO-test-cardboard-GOLD.txt", "SEM-2012-SharedTask-CD-SCO-test-circle-GOLD.txt")
OUTSIDE, SINGLE, FIRST, NEXT, PREFIX, SUFFIX = "O", "SINGLE", "MULTI-B", "MULTI-I", "PREFIX", "SUFFIX"
LABELS = (OUTSIDE, SINGLE, FIRST, NEXT, PREFIX, SUFFIX)  # the labels of a cue detector, in the order of its logits


class Kind(StrEnum):
    """How a cue negates; a key of cues.toml, which explains it."""

    PARTICLE = "particle"
    PHRASE = "phrase"
    AFFIX = "affix"


WORDS: dict[str, list[str]] = tomllib.loads((Path(__file__).parent / "cues.toml").read_text("utf-8"))
_KINDS = {cue: kind for kind in reversed(Kind) for cue in WORDS[kind]}


@dataclass(frozen=True)
class Cue:
    """One cue in a text: as the list writes it, and its kind."""

    word: str
    kind: Kind


_OTHERS = sorted((cue for cue in _KINDS if cue not in {_CONTRACTED, _NO}), key=len, reverse=True)
_WORD = "|".join(re.escape(cue).replace(r"\ ", r"(?:\s+|-)") for cue in _OTHERS)  # no one, no-one
# "no. 5" and "No 10 Downing Street" number a thing. "No 10-year-old", "no 1996 campaign" and "no 5 %" negate one: a
# word in lower case follows that is not a function word. A part of a number is not a number. Possessive quantifiers
# would say so, but they match wrongly in Python 3.11.0 to 3.11.4.
_IS_NUMBERED = (
    r"\.\s*\d|\s+\d+(?:[.,]\d+)*(?![.,]?\d|\w|[-%]|\s*%)"
    rf"(?!\s+(?!(?:{'|'.join(WORDS['behind_numbers'])})\b)(?-i:[a-z]))"
)
_PATTERN = re.compile(
    rf"(?<![\w-])(?P<word>{_WORD})(?![\w-])"
    rf"|(?P<contracted>{_CONTRACTED})(?!\w)|(?<!\w)(?P<bare>{'|'.join(WORDS['contracted'])})(?!\w)"
    rf"|(?<![\w-])(?P<no>{_NO})(?![\w-])(?!{_IS_NUMBERED})",
    re.IGNORECASE,
)


def find_cues(text: str) -> list[Cue]:
    """The negation cues of a text, from left to right; of cues that overlap, the longer one.

    `neither` and each `nor` behind it are one cue, as in CD-SCO.
    """
    found: list[Cue] = []
    is_neither = False
    for match in _PATTERN.finditer(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        word = " ".join(re.split(r"[\s-]+", (match["word"] or match["no"] or _CONTRACTED).lower()))
        if word == _NOR and is_neither:
            place = max(at for at, cue in enumerate(found) if cue.word in {_NEITHER, _NEITHER_NOR})
            found[place] = Cue(_NEITHER_NOR, _KINDS[_NEITHER_NOR])
            continue
        is_neither = is_neither or word == _NEITHER
        found.append(Cue(word, _KINDS[word]))
    return found


def has_cue(text: str) -> bool:
    """Whether a text holds a negation cue."""
    return _PATTERN.search(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) is not None


@dataclass(frozen=True)
class MarkedCue:
    """One cue of a sentence. Two cues are equal if both the words and their parts are, as the shared task demands."""

    words: tuple[int, ...]  # positions in the sentence, ascending; they need not follow each other
    parts: tuple[str, ...]  # of each of these words the part that is the cue: the whole word, or an affix of it
    kind: Kind

    @classmethod
    def of(cls, sentence: Sequence[str], words: Iterable[int], parts: Iterable[str] | None = None) -> "MarkedCue":
        """A cue of a sentence, from the positions of its words; `parts` are by default the whole words."""
        places = tuple(words)
        taken = tuple(parts) if parts is not None else tuple(sentence[place] for place in places)
        is_whole = taken == tuple(sentence[place] for place in places)
        kind = Kind.PHRASE if len(places) > 1 else Kind.PARTICLE if is_whole else Kind.AFFIX
        return cls(places, taken, kind)

    def name(self, sentence: Sequence[str]) -> str:
        """What tables call it, in lower case: `not`, `neither nor`, `un-`, `-less`."""
        text = " ".join(self.parts).lower()
        if self.kind is not Kind.AFFIX:
            return text
        return f"{text}-" if sentence[self.words[0]].lower().startswith(text) else f"-{text}"


_PREFIXES = sorted(WORDS["prefixes"], key=len, reverse=True)  # the longest one that fits
_SUFFIXES = sorted(WORDS["suffixes"], key=len, reverse=True)


def labels_of(words: Sequence[str], cues: Iterable[MarkedCue]) -> tuple[list[str], list[MarkedCue]]:
    """The label of each word, and the cues that labels cannot express."""
    labels, lost = [OUTSIDE] * len(words), []
    for cue in sorted(cues, key=lambda cue: cue.words):
        wanted = list(labels)
        for number, place in enumerate(cue.words):
            if labels[place] != OUTSIDE:
                break
            if cue.kind is Kind.AFFIX:
                wanted[place] = PREFIX if _part(words[place], PREFIX) == cue.parts[0] else SUFFIX
            else:
                wanted[place] = SINGLE if cue.kind is Kind.PARTICLE else NEXT if number else FIRST
        else:
            if cue in cues_of(words, wanted) and len(cues_of(words, wanted)) == len(cues_of(words, labels)) + 1:
                labels = wanted
                continue
        lost.append(cue)
    return labels, lost


def cues_of(words: Sequence[str], labels: Sequence[str]) -> list[MarkedCue]:
    """The cues that labels say, by their first words.

    Labels of a model need not fit together: a further word without a first one begins a cue, and one alone is a cue of
    one word. Where no affix of the list is in a word, the whole word is the cue.
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


def _part(word: str, label: str) -> str:
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
