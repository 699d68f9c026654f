"""Texts in parts: every line once, whatever the size of a part; sentences and words."""

import gzip

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_texts import TextFile, split_sentences, split_words
from negengine.engine.experiments.cues.cue_views import cue_share

LINES = [f"Line {n} is {'long ' * (n % 7)}." for n in range(50)]


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_every_line_is_in_one_part_with_its_number(name, tmp_path):
    content, path = "\n".join(LINES).encode(), tmp_path / name
    path.write_bytes(gzip.compress(content, mtime=7) if path.suffix == ".gz" else content)
    (tmp_path / "plain").write_bytes(content)
    for size, least in {1: 50, 100: 4, 10_000: 1}.items():
        scanned = TextFile.scan(path, size)
        assert len(scanned.parts) >= least
        numbers = list(range(len(scanned.parts)))
        parts = {number: scanned.read(number) for number in reversed(numbers)}  # they are read in any order
        read = [line for number in numbers for line in parts[number]]
        assert [(line.rstrip("\n"), n) for line, n in read] == list(zip(LINES, range(1, 51), strict=True))
        assert [part.lines for part in scanned.parts] == [len(parts[number]) for number in numbers]
        assert scanned.sha256 == TextFile.scan(tmp_path / "plain").sha256  # that of the text and not of its packing


@pytest.mark.parametrize("content", ["One.\n", "One.\nTwo!\nThree.\n", "One.\nTwo.\nThree", "Not text: \x00"])
def test_a_text_that_changes_after_it_was_scanned_is_refused(content, tmp_path):
    """Its digest is in the record of the run, so the lines that are read must be those of the digest."""
    path = tmp_path / "text.txt"
    path.write_text("One.\nTwo.\nThree.\n")
    scanned = TextFile.scan(path)
    assert len(scanned.read(0)) == 3
    path.write_text(content)
    with pytest.raises(InputError, match=r"lines from 1 on have changed since the run began|text\.txt:1: .*U\+0000"):
        scanned.read(0)


@pytest.mark.parametrize("read", [TextFile.scan, cue_share])
def test_a_file_without_a_sentence_is_refused(read, tmp_path):
    (tmp_path / "text.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"text\.txt:1: no sentence in this file; give a text with one sentence or"):
        read(tmp_path / "text.txt")


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Mr. Smith met Dr. No. He left.", ["Mr. Smith met Dr. No. He left."]),  # "No." is an abbreviation here
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("It cost 3.5 dollars, e.g. Tuesday.", ["It cost 3.5 dollars, e.g. Tuesday."]),
        ("J. R. Ewing came. 12 men left.", ["J. R. Ewing came.", "12 men left."]),
        ("no full stop", ["no full stop"]),
        ("   \n", []),
    ],
)
def test_where_sentences_end(line, sentences):
    assert split_sentences(line) == sentences


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("I don’t; can't you?", "I do n't ; ca n't you ?"),
        ("DON'T", "DO N'T"),
        ("He cannot, she can not.", "He can not , she can not ."),
        ("a canny cannoneer", "a canny cannoneer"),
        ("Mr. Holmes's pipe isn't lit", "Mr. Holmes 's pipe is n't lit"),
        ("We're well-known -- to 1,000 men...", "We 're well-known -- to 1,000 men ..."),
        ('"No," said he', '" No , " said he'),
        ("", ""),
    ],
)
def test_where_words_end(sentence, words):
    assert split_words(sentence) == words.split()
