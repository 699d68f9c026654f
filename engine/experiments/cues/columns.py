"""Sentences with marked cues in the columns of CD-SCO, the corpus of the *SEM 2012 shared task.

One word a line, a blank line after each sentence; tabs between the columns (Morante and Blanco 2012, section 2.1):

    chapter  sentence  word's number  word  lemma  part of speech  parse  ***               without negation
    chapter  sentence  word's number  word  lemma  part of speech  parse  cue scope event … three for each negation

A cue, scope or event column holds the word, or the part of the word that belongs to it, else `_`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...text.text_lines import MOST_TABLE, checked_length, stream_lines
from .marked import MarkedCue

_WORD, _NUMBER, _FIRST = 3, 2, 7  # columns: the word, its number, the first one about negation
_NO_NEGATION, _EMPTY = "***", "_"
_EACH = 3  # columns of a negation: cue, scope, event
_MOST_WORDS = 10_000
_HINT = "give a file in the columns of CD-SCO (see the documentation of `cues train`)"


@dataclass(frozen=True)
class MarkedSentence:
    """One sentence.

    Attributes:
        words: Its words and punctuation marks.
        cues: Its cues, in the order of their columns.
        location: File and line of its first word.
    """

    words: tuple[str, ...]
    cues: tuple[MarkedCue, ...]
    location: str


def read_columns(path: Path) -> list[MarkedSentence]:
    """Read all sentences of a file.

    Raises:
        InputError: The file cannot be read or has no sentence; a line has another number of columns, a word is missing,
            or what a cue column holds is not a part of the word.
    """
    sentences = [_sentence(rows) for rows in _groups(path)]
    if not sentences:
        raise InputError(f"{path}:1: no sentence in this file; {_HINT}")
    return sentences


def _groups(path: Path) -> Iterator[list[tuple[list[str], str]]]:
    """The lines of each sentence, divided into columns, with their locations."""
    rows: list[tuple[list[str], str]] = []
    for line, location in stream_lines(path, _HINT, MOST_TABLE):
        if line.strip():
            rows.append((_fields(line, location), location))
            if len(rows) > _MOST_WORDS:
                raise InputError(f"{location}: more than {_MOST_WORDS:,} words without a blank line; {_HINT}")
        elif rows:
            yield rows
            rows = []
    if rows:
        yield rows


def _fields(line: str, location: str) -> list[str]:
    fields = [field.strip() for field in line.rstrip().split("\t")]
    about = fields[_FIRST:]
    if not about or (about != [_NO_NEGATION] and len(about) % _EACH):
        raise InputError(
            f"{location}: {len(fields)} columns; a word has {_FIRST} columns, and then {_NO_NEGATION} or {_EACH} for "
            f"each negation; {_HINT}"
        )
    if not fields[_NUMBER].isdecimal():
        raise InputError(f"{location}: the word's number is {fields[_NUMBER][:40]!r}; {_HINT}")
    word = checked_length(fields[_WORD], f"{location}: the word")
    if not word:
        raise InputError(f"{location}: the word is empty; {_HINT}")
    if " " in word:
        raise InputError(f"{location}: the word {word[:40]!r} has a space in it; give each word a line of its own")
    return fields


def _sentence(rows: Sequence[tuple[list[str], str]]) -> MarkedSentence:
    words = tuple(fields[_WORD] for fields, _ in rows)
    first, start = rows[0]
    for fields, location in rows:
        if len(fields) != len(first):
            raise InputError(
                f"{location}: {len(fields)} columns, but the sentence's first line ({start}) has {len(first)}; all "
                "words of a sentence have the same number of columns"
            )
    cues = []
    for column in range(_FIRST, len(first), _EACH) if first[_FIRST:] != [_NO_NEGATION] else ():
        marked = [(place, fields[column]) for place, (fields, _) in enumerate(rows) if fields[column] != _EMPTY]
        for place, part in marked:
            if not part or part not in words[place]:
                raise InputError(
                    f"{rows[place][1]}: the cue {part[:40]!r} is not a part of the word {words[place][:40]!r}"
                )
        if marked:  # the shared task counts negations with a cue only
            cues.append(MarkedCue.of(words, (place for place, _ in marked), (part for _, part in marked)))
    return MarkedSentence(words, tuple(cues), start)
