"""Negation cues in running text: which words negate.

Hossain et al. (2020), section 4, found cues with a BiLSTM-CRF trained on CD-SCO (F1 92.4). Here a list takes its place
(`cues.toml`): it needs no model, everyone can read what counts, and it finds the same three kinds of cue that CD-SCO
annotates.

Not counted are verbs and nouns that deny by their meaning (`fail`, `refuse`, `lack`, `absence`), approximate negators
(`hardly`, `rarely`) and affixed words that are not listed. Shares are therefore likely to be somewhat lower than the
paper's. `No.` before a number is not a negation.
"""

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """How a cue negates; a key of cues.toml, which explains it."""

    PARTICLE = "particle"
    PHRASE = "phrase"
    AFFIX = "affix"


WORDS: dict[str, list[str]] = tomllib.loads((Path(__file__).parent / "cues.toml").read_text("utf-8"))
_KINDS = {cue: kind for kind in reversed(Kind) for cue in WORDS[kind]}
_CONTRACTED, _BEFORE_NUMBERS = "n't", "no"


@dataclass(frozen=True)
class Cue:
    """One cue in a text: as the list writes it, and its kind."""

    word: str
    kind: Kind


def _pattern() -> re.Pattern[str]:
    alternatives = sorted((cue for cue in _KINDS if cue not in {_CONTRACTED, _BEFORE_NUMBERS}), key=len, reverse=True)
    words = "|".join(re.escape(cue).replace(r"\ ", r"\s+") for cue in alternatives)
    bare = "|".join(WORDS["contracted"])
    return re.compile(
        rf"(?<![\w-])(?P<word>{words})(?![\w-])"
        rf"|(?P<contracted>{_CONTRACTED})(?!\w)|(?<!\w)(?P<bare>{bare})(?!\w)"
        rf"|(?<![\w-])(?P<no>{_BEFORE_NUMBERS})(?![\w-])(?!\.?\s*\d)"
    )


_PATTERN = _pattern()


def find_cues(text: str) -> list[Cue]:
    """The negation cues of a text, from left to right; of cues that overlap, the longer one."""
    found = []
    for match in _PATTERN.finditer(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        word = " ".join(match["word"].split()) if match["word"] else (match["no"] or _CONTRACTED)
        found.append(Cue(word, _KINDS[word]))
    return found


def has_cue(text: str) -> bool:
    """Whether a text holds a negation cue."""
    return _PATTERN.search(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) is not None
