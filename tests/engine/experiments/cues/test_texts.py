"""Texts in parts; words that are cues by the list; cues as labels; CD-SCO's columns, counted as its program does."""

import gzip
import json
import re
from dataclasses import astuple
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_texts import TextFile, split_sentences, split_words
from negengine.engine.experiments.cues.cue_words import WORDS, Kind, MarkedCue, cues_of, find_cues, labels_of
from negengine.engine.experiments.cues.cues import cue_share
from negengine.export.training.cue_scores import CueCounts, read_columns, score
from synthetic_cues import counted

LINES = [f"Line {n} is {'long ' * (n % 7)}." for n in range(50)]
ENTRIES = [(word, kind) for kind in Kind for word in WORDS[kind]]
SENTENCE = "Neither unhappy men nor carelessly made , by no means impossible plans do n't matter".split()  # noqa: SIM905


def test_every_line_is_in_one_part_with_its_number(tmp_path):
    content = "\n".join(LINES).encode()
    plain, packed = tmp_path / "text.txt", tmp_path / "text.txt.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content, mtime=7))
    for path, size in product((plain, packed), (1, 100)):
        scanned = TextFile.scan(path, size)
        assert len(scanned.sizes) > 3
        parts = [scanned.read(number) for number in reversed(range(len(scanned.sizes)))][::-1]  # read in any order
        assert [own for part in parts for own in part] == list(zip(LINES, range(1, 51), strict=True))
        assert list(scanned.sizes) == list(map(len, parts))
        assert scanned.sha256 == TextFile.scan(plain).sha256  # that of the text and not of its packing


def test_a_text_without_a_sentence_is_refused_and_one_that_changes_later_is_read_as_it_was(tmp_path):
    """Its digest is in the record of the run, so the lines that are read must be those of the digest."""
    path = tmp_path / "text.txt"
    path.write_text("One.\nTwo.\nThree.\n")
    scanned = TextFile.scan(path)
    path.write_text("One.\nTwo!\n")
    assert scanned.read(0) == [("One.", 1), ("Two.", 2), ("Three.", 3)]
    assert TextFile.scan(path).sha256 != scanned.sha256
    path.write_text("Not text: \x00")
    with pytest.raises(InputError, match=r"text\.txt:1: .*U\+0000"):
        TextFile.scan(path)
    path.write_text("\n \n")
    for read in (TextFile.scan, cue_share):
        with pytest.raises(InputError, match=r"text\.txt:1: no sentence in this file; give a text with one"):
            read(path)


SENTENCES = {
    "One. Two! Three?": ["One.", "Two!", "Three?"],
    "Mr. Smith met Dr. No. He left.": ["Mr. Smith met Dr. No.", "He left."],
    "We live at no. 5 Baker Street. See No. 12.": ["We live at no. 5 Baker Street.", "See No. 12."],
    "The answer is no. Then he left, see pp. 3-5.": ["The answer is no.", "Then he left, see pp. 3-5."],
    'He said "No." Then he left.': ['He said "No."', "Then he left."],
    "It cost 3.5 dollars, e.g. Tuesday.": ["It cost 3.5 dollars, e.g. Tuesday."],
    "J. R. Ewing came. 12 men left.": ["J. R. Ewing came.", "12 men left."],
    "   \n": [],
}
DIVIDED = {
    "I don’t; can't you?": "I do n't ; ca n't you ?",
    "Mr. Holmes's pipe isn't lit": "Mr. Holmes 's pipe is n't lit",
    "We're well-known -- to 1,000 men...": "We 're well-known -- to 1,000 men ...",
    '"No," said he': '" No , " said he',
}


def test_where_sentences_and_words_end():
    assert {line: split_sentences(line) for line in SENTENCES} == SENTENCES
    assert {sentence: " ".join(split_words(sentence)) for sentence in DIVIDED} == DIVIDED


def test_every_entry_is_found_as_itself():
    texts = {word: "They don't." if word == "n't" else f"{word.capitalize()}, they said." for word, _ in ENTRIES}
    found = [(word, [(cue.word, cue.kind) for cue in find_cues(texts[word])]) for word, _ in ENTRIES]
    assert found == [(word, [(word, kind)]) for word, kind in ENTRIES]


def test_contracted_not_words_that_only_look_like_cues_and_overlapping_ones():
    for text in ("He isn't here.", "He isn’t here.", "He is n't here.", "HE ISN'T HERE", "dont go", "I can't."):
        assert [cue.word for cue in find_cues(text)] == ["n't"], text
    for text in ("a note on knots", "an uncle", "a no-fly zone", "See No. 4", "no 12", "isn'tabout", "Nottingham"):
        assert not find_cues(text), text
    assert [cue.word for cue in find_cues("No one was there, by  no\tmeans.")] == ["no one", "by no means"]
    assert [cue.word for cue in find_cues("No-one came, and no-longer young")] == ["no one", "no longer"]


NUMBERED = (
    "We live at no. 5 Baker Street.",
    "Chaucer's line (No.5818) in The Prologe",
    "Number 9 is at No 10 Downing Street",
    "the no 1 in the world",
    "ranked no 2, behind her",
    "It is no 3.5.",
)
NEGATED = (
    "There is no 1996 campaign for United Way.",
    "No 10-year-old may enter.",
    "There are no 2 people alike",
    "no 5 % rise",
    "no 5% rise",
    "no 1,000 men",
    "no 3.5 litre bottle",
    "There is no 10th anniversary",
)


def test_no_before_a_number_negates_unless_it_names_a_thing():
    assert [text for text in NUMBERED if find_cues(text)] == []
    assert [text for text in NEGATED if [cue.word for cue in find_cues(text)] != ["no"]] == []


def test_neither_and_nor_are_one_cue_as_the_detector_marks_them():
    found = find_cues("Neither Ann nor Bob nor Eve came, and neither did I.")
    assert [(cue.word, cue.kind) for cue in found] == [("neither nor", Kind.PHRASE), ("neither", Kind.PARTICLE)]
    assert [cue.word for cue in find_cues("I do not know, nor do I care.")] == ["not", "nor"]


def test_the_real_sentences_of_mnli_have_the_cues_that_a_reader_finds(shared):
    """All sentences of these files in which "no" stands before a number or a hyphen."""
    found = set()
    for path in sorted((shared / "data" / "datasets" / "mnli").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            for side in ("premise", "hypothesis"):
                text = json.loads(line)[side]
                if re.search(r"(?i)(?<![\w-])no(?:-\w|\.?\s*\d)", text):
                    found.add((text, tuple(cue.word for cue in find_cues(text))))
    assert {cues for text, cues in found if text.startswith("There is no 1996 campaign")} == {("no",)}
    assert {cues for text, cues in found if "(No.5818)" in text} == {("nobody",)}
    assert len(found) == 2


def cue(*places, part=None):
    return MarkedCue.of(SENTENCE, places, None if part is None else [part])


ALL = [
    (cue(0, 3), "MULTI-B O O MULTI-I"),
    (cue(1, part="un"), "O PREFIX"),
    (cue(4, part="less"), "O O O O SUFFIX"),
    (cue(7, 8, 9), "O O O O O O O MULTI-B MULTI-I MULTI-I"),
    (cue(10, part="im"), "O O O O O O O O O O PREFIX"),
    (cue(13), "O O O O O O O O O O O O O SINGLE"),
]


def test_cues_of_each_kind_alone_and_together_have_labels_that_give_them_back():
    for one, labels in ALL:
        wanted = labels.split() + ["O"] * (len(SENTENCE) - len(labels.split()))
        assert labels_of(SENTENCE, [one]) == (wanted, [])
        assert cues_of(SENTENCE, wanted) == [one]
    cues = [one for one, _ in ALL]
    labels, lost = labels_of(SENTENCE, cues)
    assert (lost, cues_of(SENTENCE, labels)) == ([], cues)


ODD = [  # words, labels that do not fit together, the parts that are cues
    ("UNHAPPY", "PREFIX", [("UN",)]),  # as the word writes it
    ("not", "MULTI-B", [("not",)]),  # a cue of several words with one word
    ("no longer", "MULTI-I MULTI-I", [("no", "longer")]),  # without a first word
    ("table", "PREFIX", [("table",)]),  # no affix of the list
    ("nondescript", "PREFIX", [("non",)]),  # the longest prefix
    ("İn", "PREFIX", [("İn",)]),  # its lower case has another length
]


def test_labels_that_do_not_fit_together_and_cues_that_labels_cannot_express():
    for words, labels, parts in ODD:
        assert [one.parts for one in cues_of(words.split(), labels.split())] == parts
    whole, part = MarkedCue.of(["unhappy"], [0]), MarkedCue.of(["unhappy"], [0], ["un"])
    assert labels_of(["unhappy"], [whole, part]) == (["SINGLE"], [part])
    strange = MarkedCue.of(["unhappy"], [0], ["happy"])
    assert labels_of(["unhappy"], [strange]) == (["O"], [strange])


# Made here in the layout of the corpus; the sentences are not from it.
CORPUS = """\
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
SCORED = ["No", "one", "was", "by", "no", "means", "unhappy", "or", "uneasy", "."]


def read(folder, text):
    (folder / "tale.txt").write_text(text, "utf-8")
    return read_columns(folder / "tale.txt")


def test_words_and_cues_of_all_kinds_and_their_names(tmp_path):
    first, second, third = read(tmp_path, CORPUS)
    assert (first.words, first.cues) == (("It", "rained"), ())
    assert [[(cue.words, cue.parts, cue.kind, cue.name(own.words)) for cue in own.cues] for own in (second, third)] == [
        [((0, 2), ("Neither", "nor"), Kind.PHRASE, "neither nor"), ((5,), ("less",), Kind.AFFIX, "-less")],
        [((0,), ("Not",), Kind.PARTICLE, "not")],
    ]
    assert second.location == f"{tmp_path / 'tale.txt'}:4"
    (sentence,) = read(tmp_path, "t\t0\t0\tIt\tit\tPRP\t*\t_\tIt\t_\n")
    assert sentence.cues == ()  # the shared task's program counts the cues that the corpus has


WORD_OF = "t\t{}\t{}\tIt\tit\tX\t*\t***\n"  # numbers of sentence and word
BAD_LINES = {
    ":1: no sentence in this file": "",
    ":1: 3 columns; a word has 7 columns, and then": "A man sleeps.\tA man is awake.\tcontradiction\n",
    ":1: the word is empty": "t\t0\t0\t\tit\tPRP\t*\t***\n",
    ":2: 10 columns, but the sentence's": "t\t0\t0\tIt\tit\tPRP\t*\t***\nt\t0\t1\tis\tbe\tVBZ\t*\t_\t_\t_\n",
    ":3: sentence 0 becomes sentence 1; a blank line": "".join(
        WORD_OF.format(*own) for own in ((0, 0), (0, 1), (1, 0))
    ),
    ":2: the word's number 0 follows 0": WORD_OF.format(0, 0) * 2,
    ":3: the word 1 goes on with sentence 0": f"{WORD_OF.format(0, 0)}\n{WORD_OF.format(0, 1)}",
    ":1: the cue 'im' is not a part of the word 'unhappy'": "t\t0\t0\tunhappy\tx\tJJ\t*\tim\thappy\t_\n",
}


def test_a_bad_line_is_refused_with_its_number(tmp_path):
    for message, text in BAD_LINES.items():
        with pytest.raises(InputError, match=rf"tale\.txt{message}"):
            read(tmp_path, text)


def marked(*places, part=None):
    return MarkedCue.of(SCORED, places, None if part is None else [part])


# Of eval.cd-sco.pl 2.2, beside what a property says below. Punctuation is ignored in scopes only.
CASES = [  # gold, system → gold, system, TP, FP, FN
    (marked(0), MarkedCue((0,), ("no",), Kind.PARTICLE), (1, 1, 0, 0, 1)),
    (marked(0), marked(0, 9), (1, 1, 0, 0, 1)),
]


def test_measures_are_those_of_the_paper_and_nothing_divides_by_nothing():
    """243 of the test split's 264 cues, and 19 that are none, give the paper's 92.75, 92.05 and 92.40."""
    found = CueCounts(gold=264, system=262, true_positives=243, false_positives=19, false_negatives=21).figures()
    assert [round(100 * found[name], 2) for name in ("precision", "recall", "f1")] == [92.75, 92.05, 92.40]
    found = CueCounts(gold=11, system=11, true_positives=8, false_positives=1, false_negatives=3).figures()
    assert found["precision"] == pytest.approx(8 / 9)
    assert [found[name] for name in ("precision_b", "recall", "f1_b")] == pytest.approx([8 / 11] * 3)
    assert {*CueCounts(0, 0, 0, 0, 0).figures().values()} == {0}


def test_counts_of_a_sentence_of_several_and_by_kind():
    for gold, system, counts in CASES:
        assert score([[gold]], [[system]])[0] == CueCounts(*counts)
    assert score([[marked(0)], []], [[], [marked(0)]])[0] == CueCounts(1, 1, 0, 1, 1)
    gold = [[marked(0), marked(3, 4, 5), marked(6, part="un")]]
    system = [[marked(0), marked(4), marked(8, part="un")]]
    _, by_kind = score(gold, system)
    assert by_kind[Kind.PARTICLE] == CueCounts(1, 2, 1, 0, 0)
    assert by_kind[Kind.PHRASE] == CueCounts(1, 0, 0, 0, 1)
    assert by_kind[Kind.AFFIX] == CueCounts(1, 1, 0, 1, 1)


PLACED = st.dictionaries(st.integers(0, 4), st.booleans(), min_size=1, max_size=3)
MARKED = st.lists(st.tuples(*[st.lists(PLACED, max_size=3)] * 2), max_size=3)


@given(MARKED)
def test_counts_are_those_of_the_loops_of_the_shared_task(sentences):
    """Random words, of each the whole word or its first letters."""
    both = [
        [
            [{place: SCORED[place][: None if whole else 1] for place, whole in sorted(cue.items())} for cue in own]
            for own in side
        ]
        for side in zip(*sentences, strict=True)
    ] or [[], []]
    cues = [[[MarkedCue.of(SCORED, cue, cue.values()) for cue in own] for own in side] for side in both]
    assert astuple(score(*cues)[0]) == counted(*both)
