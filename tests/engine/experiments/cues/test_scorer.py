"""Cues counted as the shared task's program counts them. Every case was worked out by hand from eval.cd-sco.pl 2.2."""

import pytest
from negengine.engine.experiments.cues.cue_scores import CueCounts, score
from negengine.engine.experiments.cues.cue_words import Kind, MarkedCue

WORDS = ["No", "one", "was", "by", "no", "means", "unhappy", "or", "uneasy", "."]


def cue(*places, part=None):
    return MarkedCue.of(WORDS, places, None if part is None else [part])


CASES = {  # gold, system → gold, system, TP, FP, FN
    "the same cue": ([cue(0)], [cue(0)], (1, 1, 1, 0, 0)),
    "nothing found": ([cue(0)], [], (1, 0, 0, 0, 1)),
    "nothing to find": ([], [cue(0)], (0, 1, 0, 1, 0)),
    "nothing at all": ([], [], (0, 0, 0, 0, 0)),
    "another word": ([cue(0)], [cue(2)], (1, 1, 0, 1, 1)),
    # The program's example 1: the word is right, the letters are wrong; one error, and not two.
    "another part of the word": ([cue(6, part="un")], [cue(6, part="unh")], (1, 1, 0, 0, 1)),
    "the whole word for its prefix": ([cue(6, part="un")], [cue(6)], (1, 1, 0, 0, 1)),
    "a part of a cue of several words": ([cue(3, 4, 5)], [cue(4)], (1, 1, 0, 0, 1)),
    "more words than the cue has": ([cue(0)], [cue(0, 1)], (1, 1, 0, 0, 1)),
    # Each gold cue finds one cue of the system; what is left over is a false positive.
    "several words as single ones": ([cue(3, 4, 5)], [cue(3), cue(4), cue(5)], (1, 3, 0, 2, 1)),
    "single words as several": ([cue(3), cue(4)], [cue(3, 4)], (2, 1, 0, 0, 2)),
    # The first one with a word in common is taken, although the second one is exact.
    "the first of two": ([cue(0, 1)], [cue(0), cue(0, 1)], (1, 2, 0, 1, 1)),
    "cues in another order": ([cue(0), cue(6, part="un")], [cue(6, part="un"), cue(0)], (2, 2, 2, 0, 0)),
    "other capitals": ([cue(0)], [MarkedCue((0,), ("no",), Kind.PARTICLE)], (1, 1, 0, 0, 1)),
    # Punctuation is ignored in scopes only.
    "a full stop in the cue": ([cue(0)], [cue(0, 9)], (1, 1, 0, 0, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence(case):
    gold, system, counts = CASES[case]
    assert score([gold], [system])[0] == CueCounts(*counts)


def test_measures_are_those_of_the_paper_and_nothing_divides_by_nothing():
    """243 of the test split's 264 cues, and 19 that are none, give the paper's 92.75, 92.05 and 92.40."""
    counts = CueCounts(gold=264, system=262, true_positives=243, false_positives=19, false_negatives=21)
    assert [round(100 * x, 2) for x in (counts.precision, counts.recall, counts.f1)] == [92.75, 92.05, 92.40]
    counts = CueCounts(gold=11, system=11, true_positives=8, false_positives=1, false_negatives=3)
    assert (counts.precision, counts.precision_b) == (pytest.approx(8 / 9), pytest.approx(8 / 11))
    assert (counts.recall, counts.f1_b) == (pytest.approx(8 / 11), pytest.approx(8 / 11))
    empty = CueCounts(0, 0, 0, 0, 0)
    assert (empty.precision, empty.precision_b, empty.recall, empty.f1, empty.f1_b) == (0, 0, 0, 0, 0)


def test_counts_by_kind_and_by_sentence():
    assert score([[cue(0)], []], [[], [cue(0)]])[0] == CueCounts(1, 1, 0, 1, 1)
    gold = [[cue(0), cue(3, 4, 5), cue(6, part="un")]]
    system = [[cue(0), cue(4), cue(8, part="un")]]
    whole, by_kind = score(gold, system)
    assert by_kind[Kind.PARTICLE] == CueCounts(1, 2, 1, 0, 0)
    assert by_kind[Kind.PHRASE] == CueCounts(1, 0, 0, 0, 1)
    assert by_kind[Kind.AFFIX] == CueCounts(1, 1, 0, 1, 1)
    for name in ("gold", "system", "true_positives", "false_positives", "false_negatives"):
        assert sum(getattr(counts, name) for counts in by_kind.values()) == getattr(whole, name)
