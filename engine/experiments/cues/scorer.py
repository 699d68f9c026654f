"""Precision, recall and F1 of cues, counted as the program of the *SEM 2012 shared task counts them.

Source: `eval.cd-sco.pl`, version 2.2 (Roser Morante, 1 April 2012), which comes with the corpus, and section 4 of
Morante and Blanco (2012).

- A gold cue is found by the first cue of the system, in the order of their columns, that has a word in common with it
  and that no other gold cue has found. Each cue finds one at most.
- It is a true positive if both have exactly the same words and the same parts of words, with the same capitals.
  Otherwise it is a false negative, as is a gold cue that finds none.
- A cue of the system is a false positive only if no gold cue has found it. A cue that is partly right is thus counted
  as one error, a false negative, and not as two.
- The program's measure B divides by all cues of the system instead: precision B = TP / system.
- Since version 2.2 the program leaves out punctuation, but it does so in scopes only. A punctuation mark in a cue
  would count; no cue of CD-SCO has one.

The program rounds precision and recall to two digits (percent) before it computes F1; here nothing is rounded, so that
the last digit may differ by one. The program gives no counts by kind of cue: here a true positive and a false negative
have the kind of the gold cue, a false positive has the kind of the system's cue.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .marked import MarkedCue
from .word_list import Kind


@dataclass(frozen=True)
class CueCounts:
    """The line `Cues:` of the program's table, and `Cues B:`.

    Attributes:
        gold: Cues of the corpus.
        system: Cues of the system.
        true_positives: Gold cues that were found exactly.
        false_positives: Cues of the system where the corpus has none.
        false_negatives: Gold cues that were not found, or not exactly.
    """

    gold: int
    system: int
    true_positives: int
    false_positives: int
    false_negatives: int

    @property
    def precision(self) -> float:
        """TP / (TP + FP), a fraction; 0 where nothing is divided by, as in the program."""
        return _ratio(self.true_positives, self.true_positives + self.false_positives)

    @property
    def precision_b(self) -> float:
        """TP / system."""
        return _ratio(self.true_positives, self.system)

    @property
    def recall(self) -> float:
        """TP / (TP + FN)."""
        return _ratio(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _ratio(2 * self.precision * self.recall, self.precision + self.recall)

    @property
    def f1_b(self) -> float:
        """The harmonic mean of precision B and recall."""
        return _ratio(2 * self.precision_b * self.recall, self.precision_b + self.recall)


def score(
    gold: Sequence[Sequence[MarkedCue]], system: Sequence[Sequence[MarkedCue]]
) -> tuple[CueCounts, dict[Kind, CueCounts]]:
    """Count the cues of sentences; see the module.

    Args:
        gold: The corpus's cues of each sentence.
        system: The system's cues of the same sentences.

    Returns:
        The counts of all cues, and those of each kind.
    """
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
    in_gold, in_system = _kinds(gold), _kinds(system)
    by_kind = {kind: CueCounts(in_gold[kind], in_system[kind], true[kind], false[kind], missed[kind]) for kind in Kind}
    return CueCounts(in_gold.total(), in_system.total(), true.total(), false.total(), missed.total()), by_kind


def _kinds(sentences: Iterable[Iterable[MarkedCue]]) -> Counter[Kind]:
    return Counter(cue.kind for cues in sentences for cue in cues)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
