"""Sentences in the columns of CD-SCO: cues of all kinds, and what is refused with file and line."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_scores import read_columns
from negengine.engine.experiments.cues.cue_words import Kind

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


@pytest.fixture
def read(tmp_path):
    def reader(text):
        (tmp_path / "tale.txt").write_text(text, "utf-8")
        return read_columns(tmp_path / "tale.txt")

    return reader


def test_words_and_cues_of_all_kinds_and_their_names(read, tmp_path):
    first, second, third = read(TEXT)
    assert (first.words, first.cues) == (("It", "rained"), ())
    assert [(cue.words, cue.parts, cue.kind) for cue in second.cues] == [
        ((0, 2), ("Neither", "nor"), Kind.PHRASE),
        ((5,), ("less",), Kind.AFFIX),
    ]
    assert [(cue.words, cue.parts, cue.kind) for cue in third.cues] == [((0,), ("Not",), Kind.PARTICLE)]
    assert second.location == f"{tmp_path / 'tale.txt'}:4"
    assert [cue.name(second.words) for cue in second.cues] == ["neither nor", "-less"]
    assert third.cues[0].name(third.words) == "not"


def test_line_ends_of_windows_further_blank_lines_and_a_negation_without_a_cue(read):
    assert [s.words for s in read("\n\n" + TEXT.replace("\n", "\r\n") + "\n\n")] == [s.words for s in read(TEXT)]
    (sentence,) = read("t\t0\t0\tIt\tit\tPRP\t*\t_\tIt\t_\n")
    assert sentence.cues == ()  # the shared task's program counts the cues that the corpus has


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: no sentence in this file"),
        ("A man sleeps.\tA man is awake.\tcontradiction\n", ":1: 3 columns; a word has 7 columns, and then"),
        ("t\t0\t0\tIt\tit\tPRP\t*\t_\t_\n", ":1: 9 columns"),
        ("t\t0\tx\tIt\tit\tPRP\t*\t***\n", ":1: the word's number is 'x'"),
        ("t\t0\t0\t\tit\tPRP\t*\t***\n", ":1: the word is empty"),
        ("t\t0\t0\tIt is\tit\tPRP\t*\t***\n", ":1: the word 'It is' has a space in it"),
        (
            "t\t0\t0\tIt\tit\tPRP\t*\t***\nt\t0\t1\tis\tbe\tVBZ\t*\t_\t_\t_\n",
            r":2: 10 columns, but the sentence's first line \(.*:1\) has 8",
        ),
        ("t\t0\t0\tunhappy\tx\tJJ\t*\tim\thappy\t_\n", ":1: the cue 'im' is not a part of the word 'unhappy'"),
        ("t\t0\t0\tA\tx\tJJ\t*\t***\n\n\nt\t0\t0\tunhappy\tx\tJJ\t*\t***\t_\t_\n", r":4: the cue '\*\*\*' is not"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(text, message, read):
    with pytest.raises(InputError, match=r"tale\.txt" + message):
        read(text)
