"""Texts in parts: every line once, whatever the size of a part, packed and plain."""

import gzip

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_texts import TextFile

LINES = [f"Line {n} is {'long ' * (n % 7)}." for n in range(50)]


@pytest.fixture(params=["text.txt", "text.txt.gz"])
def text(request, tmp_path):
    content = "\n".join(LINES).encode()
    path = tmp_path / request.param
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_every_line_is_in_one_part_with_its_number(size, text):
    scanned = TextFile.scan(text, size)
    read = [line for number in range(len(scanned.parts)) for line in scanned.read(number)]
    assert [(line.rstrip("\n"), n) for line, n in read] == list(zip(LINES, range(1, 51), strict=True))
    assert [part.lines for part in scanned.parts] == [len(scanned.read(number)) for number in range(len(scanned.parts))]


def test_parts_are_read_in_any_order(text):
    scanned = TextFile.scan(text, 100)
    assert len(scanned.parts) > 3
    for number in (3, 0, 2, 3):
        assert scanned.read(number)[0][1] == scanned.parts[number].place.line + 1


def test_the_digest_is_that_of_the_text_and_not_of_its_packing(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"No.\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"No.\n", mtime=7))
    assert TextFile.scan(tmp_path / "a.txt").sha256 == TextFile.scan(tmp_path / "b.txt.gz").sha256


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: no sentence in this file"),
        (b"\n \n", ":1: no sentence in this file"),
        (b"fine\nna\xefve\n", ":2: byte 0xef is not UTF-8"),
        (b"fine\n\x1b[31m\n", r":2: the character U\+001B"),
    ],
)
def test_a_file_that_is_not_a_text_is_refused_with_line(content, message, tmp_path):
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(InputError, match=r"text\.txt" + message):
        TextFile.scan(tmp_path / "text.txt")


def test_a_packed_file_that_is_cut_off_is_refused(tmp_path):
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(b"No.\n" * 1000)[:-12])
    with pytest.raises(InputError, match=r"text\.txt\.gz: cannot be read"):
        TextFile.scan(tmp_path / "text.txt.gz")


def test_a_file_that_became_shorter_is_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("One.\nTwo.\nThree.\n")
    scanned = TextFile.scan(path)
    path.write_text("One.\n")
    with pytest.raises(InputError, match="has become shorter"):
        scanned.read(0)
