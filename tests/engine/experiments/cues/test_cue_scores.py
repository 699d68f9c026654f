"""Sentences in the columns of CD-SCO, and their cues counted as the shared task's program counts them."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_scores import CueCounts, read_columns, score
from negengine.engine.experiments.cues.cue_words import Kind, MarkedCue

# Made here in the layout of the corpus; the sentences are not from it.
TEXT = """\
tale01\t0\t0\tIt\tit\tPRP\t(S*\t***
tale01\t0\t1\trained\train\tVBD\t*)\t***

tale01\t1\t0\tNeither\tneither\tDT\t*\tNeither\t_\t_\t_\t_\t_
tale01\t1\t1\tshe\tshe\tPRP\t*\t_\tshe\t_\t_\t_\t_
tale01\t1\t2\tnor\tnor\tCC\t*\tnor\t_\t_\t_\t_\t_
tale01\t1\t3\tI\tI\tPRP\t*\t_\tI\t_\t_\t_\t_
tale01\t1\t4\tslept\tsleep\tVBD\t*\t_\tslept\tslept\t_\t_\t_
tale01\t1\t5\tcarelessly\tcarelessly\tRB\t*\t_\t_\t_\tless\tcare\t_
tale01\t1\t6\t.\t.\t.\t*\t_\t_\t_\t_\t_\t_

tale01\t2\t0\tNot\tnot\tRB\t*\tNot\t_\t_
"""
WORDS = ["No", "one", "was", "by", "no", "means", "unhappy", "or", "uneasy", "."]


def read(folder, text):
    (folder / "tale.txt").write_text(text, "utf-8")
    return read_columns(folder / "tale.txt")


def test_words_and_cues_of_all_kinds_and_their_names(tmp_path):
    first, second, third = sentences = read(tmp_path, TEXT)
    assert (first.words, first.cues) == (("It", "rained"), ())
    assert [[(cue.words, cue.parts, cue.kind, cue.name(own.words)) for cue in own.cues] for own in (second, third)] == [
        [((0, 2), ("Neither", "nor"), Kind.PHRASE, "neither nor"), ((5,), ("less",), Kind.AFFIX, "-less")],
        [((0,), ("Not",), Kind.PARTICLE, "not")],
    ]
    assert second.location == f"{tmp_path / 'tale.txt'}:4"
    windows = read(tmp_path, "\n\n" + TEXT.replace("\n", "\r\n") + "\n\n")  # its line ends, and further blank lines
    assert [(own.words, own.cues) for own in windows] == [(own.words, own.cues) for own in sentences]
    (sentence,) = read(tmp_path, "t\t0\t0\tIt\tit\tPRP\t*\t_\tIt\t_\n")
    assert sentence.cues == ()  # the shared task's program counts the cues that the corpus has


BAD = {
    ":1: no sentence in this file": "",
    ":1: 3 columns; a word has 7 columns, and then": "A man sleeps.\tA man is awake.\tcontradiction\n",
    ":1: 9 columns": "t\t0\t0\tIt\tit\tPRP\t*\t_\t_\n",
    ":1: the word's number is 'x'": "t\t0\tx\tIt\tit\tPRP\t*\t***\n",
    ":1: the word is empty": "t\t0\t0\t\tit\tPRP\t*\t***\n",
    ":1: the word 'It is' has a space in it": "t\t0\t0\tIt is\tit\tPRP\t*\t***\n",
    ":2: 10 columns, but the sentence's": "t\t0\t0\tIt\tit\tPRP\t*\t***\nt\t0\t1\tis\tbe\tVBZ\t*\t_\t_\t_\n",
    ":1: the cue 'im' is not a part of the word 'unhappy'": "t\t0\t0\tunhappy\tx\tJJ\t*\tim\thappy\t_\n",
    r":4: the cue '\*\*\*' is not": "t\t0\t0\tA\tx\tJJ\t*\t***\n\n\nt\t0\t0\tunhappy\tx\tJJ\t*\t***\t_\t_\n",
}


def test_a_bad_line_is_refused_with_its_number(tmp_path):
    for message, text in BAD.items():
        with pytest.raises(InputError, match=rf"tale\.txt{message}"):
            read(tmp_path, text)


def cue(*places, part=None):
    return MarkedCue.of(WORDS, places, None if part is None else [part])


# Worked out by hand from eval.cd-sco.pl 2.2.
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


def test_measures_are_those_of_the_paper_and_nothing_divides_by_nothing():
    """243 of the test split's 264 cues, and 19 that are none, give the paper's 92.75, 92.05 and 92.40."""
    counts = CueCounts(gold=264, system=262, true_positives=243, false_positives=19, false_negatives=21)
    assert [round(100 * x, 2) for x in (counts.precision, counts.recall, counts.f1)] == [92.75, 92.05, 92.40]
    counts = CueCounts(gold=11, system=11, true_positives=8, false_positives=1, false_negatives=3)
    assert (counts.precision, counts.precision_b) == (pytest.approx(8 / 9), pytest.approx(8 / 11))
    assert (counts.recall, counts.f1_b) == (pytest.approx(8 / 11), pytest.approx(8 / 11))
    empty = CueCounts(0, 0, 0, 0, 0)
    assert (empty.precision, empty.precision_b, empty.recall, empty.f1, empty.f1_b) == (0, 0, 0, 0, 0)


def test_counts_of_a_sentence_of_several_and_by_kind():
    for case, (gold, system, counts) in CASES.items():
        assert score([gold], [system])[0] == CueCounts(*counts), case
    assert score([[cue(0)], []], [[], [cue(0)]])[0] == CueCounts(1, 1, 0, 1, 1)
    gold = [[cue(0), cue(3, 4, 5), cue(6, part="un")]]
    system = [[cue(0), cue(4), cue(8, part="un")]]
    whole, by_kind = score(gold, system)
    assert by_kind[Kind.PARTICLE] == CueCounts(1, 2, 1, 0, 0)
    assert by_kind[Kind.PHRASE] == CueCounts(1, 0, 0, 0, 1)
    assert by_kind[Kind.AFFIX] == CueCounts(1, 1, 0, 1, 1)
    for name in ("gold", "system", "true_positives", "false_positives", "false_negatives"):
        assert sum(getattr(counts, name) for counts in by_kind.values()) == getattr(whole, name)
