"""Texts in parts, sentences and words; which words are cues by the list; cues as labels of words, and back."""

import gzip
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_texts import TextFile, split_sentences, split_words
from negengine.engine.experiments.cues.cue_words import LABELS, WORDS, Kind, MarkedCue, cues_of, find_cues, labels_of
from negengine.engine.experiments.cues.cues import cue_share

LINES = [f"Line {n} is {'long ' * (n % 7)}." for n in range(50)]
ENTRIES = [(word, kind) for kind in Kind for word in WORDS[kind]]
SENTENCE = "Neither unhappy men nor carelessly made , by no means impossible plans do n't matter".split()  # noqa: SIM905


def test_every_line_is_in_one_part_with_its_number(tmp_path):
    content = "\n".join(LINES).encode()
    plain, packed = tmp_path / "text.txt", tmp_path / "text.txt.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content, mtime=7))
    for path, (size, least) in product((plain, packed), {1: 50, 100: 4, 10_000: 1}.items()):
        scanned = TextFile.scan(path, size)
        assert len(scanned.parts) >= least
        parts = [scanned.read(number) for number in reversed(range(len(scanned.parts)))][::-1]  # read in any order
        read = [(line.rstrip("\n"), n) for part in parts for line, n in part]
        assert read == list(zip(LINES, range(1, 51), strict=True))
        assert [part.lines for part in scanned.parts] == list(map(len, parts))
        assert scanned.sha256 == TextFile.scan(plain).sha256  # that of the text and not of its packing


def test_a_text_without_a_sentence_or_that_changes_after_it_was_scanned_is_refused(tmp_path):
    """Its digest is in the record of the run, so the lines that are read must be those of the digest."""
    path = tmp_path / "text.txt"
    path.write_text("One.\nTwo.\nThree.\n")
    scanned = TextFile.scan(path)
    assert len(scanned.read(0)) == 3
    for content in ("One.\n", "One.\nTwo!\nThree.\n", "One.\nTwo.\nThree", "Not text: \x00"):
        path.write_text(content)
        with pytest.raises(InputError, match=r"lines from 1 on have changed since the run|text\.txt:1: .*U\+0000"):
            scanned.read(0)
    path.write_text("\n \n")
    for read in (TextFile.scan, cue_share):
        with pytest.raises(InputError, match=r"text\.txt:1: no sentence in this file; give a text with one"):
            read(path)


SENTENCES = {
    "One. Two! Three?": ["One.", "Two!", "Three?"],
    "Mr. Smith met Dr. No. He left.": ["Mr. Smith met Dr. No. He left."],  # "No." is an abbreviation here
    'He said "No." Then he left.': ['He said "No."', "Then he left."],
    "It cost 3.5 dollars, e.g. Tuesday.": ["It cost 3.5 dollars, e.g. Tuesday."],
    "J. R. Ewing came. 12 men left.": ["J. R. Ewing came.", "12 men left."],
    "no full stop": ["no full stop"],
    "   \n": [],
}
DIVIDED = {
    "I don’t; can't you?": "I do n't ; ca n't you ?",
    "DON'T": "DO N'T",
    "He cannot, she can not.": "He can not , she can not .",
    "a canny cannoneer": "a canny cannoneer",
    "Mr. Holmes's pipe isn't lit": "Mr. Holmes 's pipe is n't lit",
    "We're well-known -- to 1,000 men...": "We 're well-known -- to 1,000 men ...",
    '"No," said he': '" No , " said he',
    "": "",
}


def test_where_sentences_and_words_end():
    assert {line: split_sentences(line) for line in SENTENCES} == SENTENCES
    assert {sentence: " ".join(split_words(sentence)) for sentence in DIVIDED} == DIVIDED


def test_every_entry_is_found_as_itself_and_stands_once():
    texts = {word: "They don't." if word == "n't" else f"{word.capitalize()}, they said." for word, _ in ENTRIES}
    found = [(word, [(cue.word, cue.kind) for cue in find_cues(texts[word])]) for word, _ in ENTRIES]
    assert found == [(word, [(word, kind)]) for word, kind in ENTRIES]
    assert len(texts) == len(ENTRIES)


def test_contracted_not_words_that_only_look_like_cues_and_overlapping_ones():
    for text in ("He isn't here.", "He isn’t here.", "He is n't here.", "HE ISN'T HERE", "dont go", "I can't."):
        assert [cue.word for cue in find_cues(text)] == ["n't"], text
    for text in ("a note on knots", "an uncle", "a no-fly zone", "See No. 4", "no 12", "isn'tabout", "Nottingham"):
        assert not find_cues(text), text
    assert [cue.word for cue in find_cues("No one was there, by  no\tmeans.")] == ["no one", "by no means"]


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
    ("un", "PREFIX", [("un",)]),  # nothing is left of the word
    ("less", "SUFFIX", [("less",)]),
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
    crossing = [MarkedCue.of(list("abcd"), [0, 2]), MarkedCue.of(list("abcd"), [1, 3])]
    assert labels_of(list("abcd"), crossing)[1] == crossing[1:]


@given(st.lists(st.tuples(st.sampled_from(["no", "unless", "in", "", "İ", "-"]), st.sampled_from(LABELS)), max_size=8))
def test_any_labels_give_cues_of_words_that_are_there(pairs):
    words, labels = [word for word, _ in pairs], [label for _, label in pairs]
    cues = cues_of(words, labels)
    assert sorted(place for one in cues for place in one.words) == [i for i, name in enumerate(labels) if name != "O"]
    for one in cues:
        assert all(part in words[place] for place, part in zip(one.words, one.parts, strict=True))
        assert one.kind in Kind
