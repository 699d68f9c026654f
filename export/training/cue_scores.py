"""Sentences with marked cues in the columns of CD-SCO, and precision, recall and F1 as its program counts them.

A word a line, a blank line after each sentence; tabs between the columns (Morante and Blanco 2012, section 2.1):

    chapter  sentence  word's number  word  lemma  part of speech  parse  ***               without negation
    chapter  sentence  word's number  word  lemma  part of speech  parse  cue scope event … three for each negation

A cue, scope or event column holds the word, or the part of the word that belongs to it, else `_`.
Source of the counts: `eval.cd-sco.pl`, version 2.2 (Roser Morante, 1 April 2012), and section 4 of the paper. A gold
cue is found by the first cue of the system, by column, that shares a word with it and that no other gold cue has found.
It is a true positive if words and parts are the same, capitals too, else a false negative. A false positive is a cue of
the system that no gold cue has found; the measure B divides by all its cues. Here precision and recall are not rounded
before F1 is computed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...engine.basics.errors import InputError
from ...engine.experiments.cues.cue_words import Kind, MarkedCue
from ...engine.text.text_lines import MOST_TABLE, checked_length, stream_lines

_SENTENCE, _NUMBER, _WORD, _FIRST = 1, 2, 3, 7  # columns: numbers of sentence and word, word, first about negation
_NO_NEGATION, _EMPTY = "***", "_"
_EACH = 3  # columns of a negation: cue, scope, event
_MOST_WORDS = 10_000
_HINT = "give a file in the columns of CD-SCO (see the documentation of `cues train`)"


@dataclass(frozen=True)
class MarkedSentence:
    """One sentence with its cues, in the order of their columns."""

    words: tuple[str, ...]  # and punctuation marks
    cues: tuple[MarkedCue, ...]
    location: str  # file and line of its first word


def read_columns(path: Path) -> list[MarkedSentence]:
    """All sentences of a file; an `InputError` if it cannot be read, has none, or a line is bad."""
    sentences = [_sentence(rows) for rows in _groups(path)]
    if not sentences:
        raise InputError(f"{path}:1: no sentence in this file; {_HINT}")
    return sentences


def _groups(path: Path) -> Iterator[list[tuple[list[str], str]]]:
    rows: list[tuple[list[str], str]] = []
    last: list[str] = []
    for line, location in stream_lines(path, _HINT, MOST_TABLE):
        if line.strip():
            fields = _fields(line, location)
            if last and (said := _contradiction(last, fields, begins=not rows)):
                raise InputError(f"{location}: {said}; a blank line stands between two sentences, and only there")
            rows.append((fields, location))
            last = fields
            if len(rows) > _MOST_WORDS:
                raise InputError(f"{location}: more than {_MOST_WORDS:,} words without a blank line; {_HINT}")
        elif rows:
            yield rows
            rows = []
    if rows:
        yield rows


def _contradiction(last: Sequence[str], fields: Sequence[str], *, begins: bool) -> str:
    """How the numbers of a word contradict the blank lines; empty if they do not. `begins`: a blank line is before."""
    is_next = int(fields[_NUMBER]) > int(last[_NUMBER])
    if begins:
        same = last[:_NUMBER] == fields[:_NUMBER] and is_next
        return f"the word {fields[_NUMBER]} goes on with sentence {fields[_SENTENCE]}" if same else ""
    if last[:_NUMBER] != fields[:_NUMBER]:
        return f"sentence {last[_SENTENCE]} becomes sentence {fields[_SENTENCE]}"
    return "" if is_next else f"the word's number {fields[_NUMBER]} follows {last[_NUMBER]}"


def _fields(line: str, location: str) -> list[str]:
    fields = [field.strip() for field in line.rstrip().split("\t")]
    about = fields[_FIRST:]
    if not about or (about != [_NO_NEGATION] and len(about) % _EACH):
        raise InputError(
            f"{location}: {len(fields)} columns; a word has {_FIRST} columns, and then {_NO_NEGATION} or {_EACH} for "
            f"each negation; {_HINT}"
        )
    if not re.fullmatch("[0-9]{1,9}", fields[_NUMBER]):
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


@dataclass(frozen=True)
class CueCounts:
    """The line `Cues:` of the program's table, and `Cues B:`."""

    gold: int  # cues of the corpus
    system: int
    true_positives: int  # gold cues that were found exactly
    false_positives: int  # cues of the system where the corpus has none
    false_negatives: int  # gold cues that were not found, or not exactly

    def figures(self) -> dict[str, float]:
        """The counts, and the measures as fractions; 0 where nothing is divided by, as in the program."""
        right, recall = self.true_positives, _ratio(self.true_positives, self.true_positives + self.false_negatives)
        found = asdict(self) | {"recall": recall}
        for measure, divisor in (("", right + self.false_positives), ("_b", self.system)):
            precision = _ratio(right, divisor)
            found |= {f"precision{measure}": precision}
            found |= {f"f1{measure}": _ratio(2 * precision * recall, precision + recall)}
        return found


def score(
    gold: Sequence[Sequence[MarkedCue]], system: Sequence[Sequence[MarkedCue]]
) -> tuple[CueCounts, dict[Kind, CueCounts]]:
    """Count the cues of the same sentences, of all kinds and of each kind; the module says how."""
    true, false, missed = Counter[Kind](), Counter[Kind](), Counter[Kind]()
    for wanted, found in zip(gold, system, strict=True):
        free = list(range(len(found)))
        for cue in wanted:
            match = next((number for number in free if not set(cue.words).isdisjoint(found[number].words)), None)
            if match is not None:
                free.remove(match)
            exact = match is not None and (found[match].words, found[match].parts) == (cue.words, cue.parts)
            (true if exact else missed)[cue.kind] += 1
        false.update(found[number].kind for number in free)
    in_gold, in_system = (Counter(cue.kind for cues in own for cue in cues) for own in (gold, system))
    by_kind = {kind: CueCounts(in_gold[kind], in_system[kind], true[kind], false[kind], missed[kind]) for kind in Kind}
    return CueCounts(in_gold.total(), in_system.total(), true.total(), false.total(), missed.total()), by_kind


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
