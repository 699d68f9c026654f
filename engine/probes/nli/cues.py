"""Negation cues in running text: which words negate, and what share of sentences has one (Table 1 of the NLI paper).

Hossain et al. (2020), section 4, found cues with a BiLSTM-CRF trained on CD-SCO (F1 92.4). This is a list instead: it
needs no model, everyone can read what counts, and it finds the same three kinds of cue that CD-SCO annotates:

    particle   single words that do nothing but negate, and the contracted n't
    phrase     several words that negate together
    affix      words negated by a prefix or suffix, from a list of common ones: no rule tells `unable` from `uncle`

Not counted are verbs and nouns that deny by their meaning (`fail`, `refuse`, `lack`, `absence`), approximate negators
(`hardly`, `rarely`) and affixed words that are not listed. Shares are therefore likely to be somewhat lower than the
paper's. `No.` before a number is not a negation.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.table import Table

from ...errors import InputError
from ...sentences.textfiles import stream_lines


class Kind(StrEnum):
    """How a cue negates."""

    PARTICLE = "particle"
    PHRASE = "phrase"
    AFFIX = "affix"


# fmt: off
PARTICLES = (
    "not", "n't", "cannot", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "nope",
)
PHRASES = (
    "no one", "no longer", "no more", "by no means", "in no way", "on no account", "at no time", "not at all",
    "rather than", "on the contrary",
)
AFFIXED = (
    # un-
    "unable", "unacceptable", "unaware", "unbelievable", "uncertain", "unclear", "uncomfortable", "unconscious",
    "undecided", "uneasy", "unemployed", "unemployment", "unequal", "uneven", "unexpected", "unexpectedly", "unfair",
    "unfamiliar", "unfinished", "unfortunate", "unfortunately", "unfriendly", "unhappy", "unhealthy", "unimportant",
    "uninteresting", "unknown", "unlike", "unlikely", "unlimited", "unlucky", "unnecessary", "unofficial", "unpleasant",
    "unpopular", "unprecedented", "unpredictable", "unprepared", "unrelated", "unreliable", "unsafe", "unsatisfied",
    "unseen", "unstable", "unsuccessful", "unsure", "untouched", "untrue", "unusual", "unusually", "unwanted",
    "unwilling", "unwise",
    # in-, im-, il-, ir-
    "impatient", "imperfect", "impolite", "impossible", "impractical", "improbable", "improper", "inability",
    "inaccurate", "inactive", "inadequate", "inappropriate", "incapable", "incomplete", "inconsistent", "incorrect",
    "incorrectly", "indirect", "ineffective", "inefficient", "inexpensive", "inexperienced", "informal", "injustice",
    "insecure", "insufficient", "invalid", "invisible", "involuntary", "illegal", "illegally", "illegitimate",
    "illogical", "immoral", "irrational", "irregular", "irrelevant", "irresponsible",
    # dis-, non-
    "disadvantage", "disagree", "disagreed", "disagreement", "disagrees", "disbelief",
    "disconnected", "discontent", "dishonest", "dislike", "disliked", "dislikes", "disloyal", "disobey", "disorder",
    "displeased", "disproved", "dissatisfied", "distrust", "nonexistent", "nonsense", "nonstop",
    # -less
    "careless", "colorless", "countless", "defenseless", "endless", "fearless", "harmless", "helpless", "homeless",
    "hopeless", "jobless", "lifeless", "meaningless", "motionless", "nameless", "needless", "painless", "pointless",
    "powerless", "restless", "shirtless", "sleeveless", "sleepless", "speechless", "topless",
    "useless", "worthless",
)
# fmt: on

_KINDS = {
    **dict.fromkeys(AFFIXED, Kind.AFFIX),
    **dict.fromkeys(PHRASES, Kind.PHRASE),
    **dict.fromkeys(PARTICLES, Kind.PARTICLE),
}


@dataclass(frozen=True)
class Cue:
    """One cue in a text: as the list writes it, and its kind."""

    word: str
    kind: Kind


def _pattern() -> re.Pattern[str]:
    alternatives = sorted((cue for cue in _KINDS if cue not in {"n't", "no"}), key=len, reverse=True)
    words = "|".join(re.escape(cue).replace(r"\ ", r"\s+") for cue in alternatives)
    # `cant`, `dont` and their like are common in subtitles and conversations.
    bare = "aint|arent|cant|couldnt|didnt|doesnt|dont|hadnt|hasnt|havent|isnt|shouldnt|wasnt|werent|wont|wouldnt"
    return re.compile(
        rf"(?<![\w-])(?P<word>{words})(?![\w-])"
        rf"|(?P<contracted>n't)(?!\w)|(?<!\w)(?P<bare>{bare})(?!\w)"
        r"|(?<![\w-])(?P<no>no)(?![\w-])(?!\.?\s*\d)"
    )


_PATTERN = _pattern()


def find_cues(text: str) -> list[Cue]:
    """The negation cues of a text, from left to right; of cues that overlap, the longer one."""
    found = []
    for match in _PATTERN.finditer(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        word = " ".join(match["word"].split()) if match["word"] else ("no" if match["no"] else "n't")
        found.append(Cue(word, _KINDS[word]))
    return found


def has_cue(text: str) -> bool:
    """Whether a text holds a negation cue."""
    return bool(find_cues(text))


@dataclass(frozen=True)
class CueShare:
    """How common negation is in a text file.

    Attributes:
        path: the file.
        sentences: how many sentences it has.
        negated: how many of them hold at least one cue.
        by_kind: kind → how many hold at least one cue of that kind.
        cues: cue → how often it occurs, the most frequent first.
    """

    path: Path
    sentences: int
    negated: int
    by_kind: dict[Kind, int]
    cues: dict[str, int]

    @property
    def share(self) -> float:
        """The fraction of sentences with a cue: Table 1."""
        return self.negated / self.sentences


def cue_share(path: Path) -> CueShare:
    """Count the sentences of a UTF-8 text file (also `.gz`) that hold a negation cue.

    A line break ends a sentence; within a line, sentences are split by `split_sentences`.

    Raises:
        InputError: the file cannot be read, is not a UTF-8 text, or has no sentence.
    """
    sentences = negated = 0
    kinds: Counter[Kind] = Counter()
    words: Counter[str] = Counter()
    for line, _ in stream_lines(path, "give a text file"):
        for sentence in split_sentences(line):
            cues = find_cues(sentence)
            sentences += 1
            negated += bool(cues)
            kinds.update({cue.kind for cue in cues})
            words.update(cue.word for cue in cues)
    if not sentences:
        raise InputError(f"{path}:1: no sentence in this file; give a text with a sentence or a paragraph a line")
    by_kind = {kind: kinds[kind] for kind in Kind}
    return CueShare(
        path, sentences, negated, by_kind, dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))
    )


def cues_table(shares: Sequence[CueShare]) -> Table:
    """Texts in the layout of Table 1: sentences, the share with a cue, and how that is made up."""
    table = Table(title="Sentences with a negation cue", title_justify="left")
    table.add_column("text")
    for heading in ("sentences", "with a cue", "share, %", *(f"{kind}, %" for kind in Kind)):
        table.add_column(heading, justify="right")
    for share in shares:
        kinds = (f"{100 * share.by_kind[kind] / share.sentences:.2f}" for kind in Kind)
        table.add_row(str(share.path), f"{share.sentences:,}", f"{share.negated:,}", f"{100 * share.share:.2f}", *kinds)
    return table


_END = re.compile(r"""([.!?…]["'”’)\]]*)\s+(?=["'“‘(\[]*[A-Z0-9])""")
_ABBREVIATED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|Sen|Rep|Gov|Lt|Sgt|Capt|Rev|No|vs|etc|e\.g|i\.e|Inc|Ltd|Co|Corp|[A-Z])\.$"
)


def split_sentences(line: str) -> list[str]:
    """Sentences of a paragraph: they end with . ! ? before a capital or a digit, but not after an abbreviation."""
    sentences = []
    start = 0
    for match in _END.finditer(line):
        if not _ABBREVIATED.search(line, start, match.end(1)):
            sentences.append(line[start : match.end(1)].strip())
            start = match.end()
    return [sentence for sentence in (*sentences, line[start:].strip()) if sentence]
