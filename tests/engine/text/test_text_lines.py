"""Text files of other authors: what is read, and where an error is."""

import gzip

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.text.text_lines import LONGEST_LINE, json_rows, read_lines, read_table, stream_lines


@pytest.fixture
def file(tmp_path):
    def write(content, name="file.txt"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    ("content", "name", "lines"),
    [
        (b"one\r\n\r\n \ntwo", "a.txt", [("one", 1), ("two", 4)]),
        ("\ufeffone\n\ufefftwo\n".encode(), "a.txt", [("one", 1), ("\ufefftwo", 2)]),
        (gzip.compress("één".encode(), mtime=0), "a.txt.gz", [("één", 1)]),
        # Only line feeds end lines: JSON may hold the other characters that Python takes for line ends.
        ("a\u2028b\x85c\x0bd\x0ce".encode(), "a.txt", [("a\u2028b\x85c\x0bd\x0ce", 1)]),
        (b"x" * LONGEST_LINE, "a.txt", [("x" * LONGEST_LINE, 1)]),
    ],
)
def test_lines_are_those_that_hold_anything_with_their_places(file, content, name, lines):
    path = file(content, name)
    assert read_lines(path) == [(line, f"{path}:{number}") for line, number in lines]


def test_a_file_is_read_only_as_far_as_it_is_asked_for(file):
    lines = stream_lines(file(b"one\n\ntwo\n\xff\n"))
    assert [next(lines)[0] for _ in range(3)] == ["one", "", "two"]


BAD_FILES = [
    (b"", "a.txt", ":1: the file is empty"),
    (b"ok\nna\xefve\n", "a.txt", ":2: byte 0xef is not UTF-8; save the file as UTF-8 text"),
    (b"ok\n\x00\n", "a.txt", ":2: the character U+0000 in '\\x00' is not printable; remove it"),
    (b"x" * (LONGEST_LINE + 1), "a.txt", ":1: this line has more than 1,000,000 bytes; give a "),
    (b"not packed", "a.gz", ": cannot be read (Not a gzipped file "),
    (gzip.compress(b"cut off" * 50, mtime=0)[:-12], "a.gz", ": cannot be read (Compressed file ended "),
]


@pytest.mark.parametrize(("content", "name", "message"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_file_that_cannot_be_read_is_named(file, content, name, message):
    path = file(content, name)
    with pytest.raises(InputError) as caught:
        read_lines(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_table_keeps_quotes_and_columns_that_nobody_asked_for(file):
    path = file(b'item\tcontext \tmore\r\n1\t"The\t0.5\r\n')
    (row,) = read_table(path, ["item", "context"])
    assert (row.fields, row.location) == ({"item": "1", "context": '"The', "more": "0.5"}, f"{path}:2")
    assert (row.text("context"), row.number("more")) == ('"The', 0.5)


FIELDS = b"word\tnone\tlong\n tea \t \t" + b"x" * 10_001


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda file: read_table(file(b"item\n1\n"), ["context"]), ":1: no column 'context'; the header has item"),
        (lambda file: read_table(file(b"a\tb\n\n1\ta\tb\n"), []), ":3: 3 fields, but the header has 2"),
        (lambda file: read_table(file(b"item\tcontext\n\n"), []), ":1: no row below the header"),
        (lambda file: read_table(file(FIELDS), [])[0].text("none"), ":2: none is ' '; a text is needed"),
        (lambda file: read_table(file(FIELDS), [])[0].number("word"), ":2: word is ' tea '; a number is needed"),
        (lambda file: read_table(file(FIELDS), [])[0].text("long"), ":2: long has 10,001 characters; give a text with"),
        (lambda file: json_rows(read_lines(file(b"{}\n{"))), ":2: not JSON ("),
        (lambda file: json_rows(read_lines(file(b"[1, 2]"))), ":1: '[1, 2]' is not a JSON object; write one object"),
    ],
)
def test_a_bad_row_or_field_is_named(file, tmp_path, read, message):
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{tmp_path / 'file.txt'}{message}")
