"""Texts in parts: every line once, whatever the size of a part; sentences, words, and shares with a cue of the list."""

import gzip
import json

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_texts import TextFile, split_sentences, split_words
from negengine.engine.experiments.cues.cue_views import CueShares, cue_share
from negengine.engine.views.cells import cells

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


def test_a_file_that_became_shorter_is_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("One.\nTwo.\nThree.\n")
    scanned = TextFile.scan(path)
    path.write_text("One.\n")
    with pytest.raises(InputError, match="has become shorter"):
        scanned.read(0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.txt", b"\n \n", ":1: no sentence in this file"),
        ("text.txt", b"fine\nna\xefve\n", ":2: byte 0xef is not UTF-8"),
        ("text.txt", b"fine\n\x1b[31m\n", r":2: the character U\+001B"),
        ("text.txt.gz", gzip.compress(b"No.\n" * 1000, mtime=0)[:-12], ": cannot be read"),
    ],
)
def test_a_file_that_is_not_a_text_is_refused_with_line(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    for read in (TextFile.scan, cue_share):
        with pytest.raises(InputError, match=name + message):
            read(tmp_path / name)


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


def test_shares_of_a_file(tmp_path):
    """Five sentences: two have particles (one of them twice), one an affix, two nothing: 3 of 5."""
    path = tmp_path / "text.txt"
    path.write_text("I do not know, no. It is raining.\n\nNobody came.\nHe is unable to swim\nWe swim\n", "utf-8")
    shares = CueShares([cue_share(path)])
    assert cells(shares.tables()[0]) == [[str(path), "5", "3", "60.00", "40.00", "0.00", "20.00"]]
    [share] = json.loads(json.dumps(shares.document()))
    assert list(share.pop("cues").items()) == [("no", 1), ("nobody", 1), ("not", 1), ("unable", 1)]
    kinds = {"particle": 2, "phrase": 0, "affix": 1}
    assert share == {"file": str(path), "share": 0.6, "sentences": 5, "negated": 3, "by_kind": kinds}
