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
        (b"one\ntwo\n", "a.txt", ["one", "two"]),
        (b"one\r\n\r\n \ntwo", "a.txt", ["one", "two"]),
        ("\ufeffone\n\ufefftwo\n".encode(), "a.txt", ["one", "\ufefftwo"]),
        (gzip.compress("één".encode(), mtime=0), "a.txt.gz", ["één"]),
        # Only line feeds end lines: JSON may hold the other characters that Python takes for line ends.
        ("a\u2028b\x85c\x0bd\x0ce".encode(), "a.txt", ["a\u2028b\x85c\x0bd\x0ce"]),
        (b"x" * LONGEST_LINE, "a.txt", ["x" * LONGEST_LINE]),
    ],
)
def test_lines_are_those_that_hold_anything(file, content, name, lines):
    assert [line for line, _ in read_lines(file(content, name))] == lines


def test_places_count_empty_lines(file):
    path = file(b"one\n\n \nfour\n")
    assert read_lines(path) == [("one", f"{path}:1"), ("four", f"{path}:4")]


def test_a_file_is_read_only_as_far_as_it_is_asked_for(file):
    lines = stream_lines(file(b"one\n\ntwo\n\xff\n"))
    assert [next(lines)[0] for _ in range(3)] == ["one", "", "two"]


BAD_FILES = [
    (b"", "a.txt", ":1: the file is empty"),
    (b"ok\nna\xefve\n", "a.txt", ":2: byte 0xef is not UTF-8; save the file as UTF-8 text"),
    (b"ok\n\x00\n", "a.txt", ":2: the character U+0000 in '\\x00' is not printable; remove it"),
    (b"a\x1b[2J\n", "a.txt", ":1: the character U+001B in 'a\\x1b[2J' is not printable"),
    (b"x" * (LONGEST_LINE + 1), "a.txt", ":1: this line has more than 1,000,000 bytes; give a "),
    (b"not packed", "a.gz", ": cannot be read (Not a gzipped file "),
    (gzip.compress(b"cut off" * 50, mtime=0)[:-12], "a.gz", ": cannot be read (Compressed file ended "),
    (None, "a.txt", ": cannot be read (No such file or directory)"),
]


@pytest.mark.parametrize(("content", "name", "message"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_file_that_cannot_be_read_is_named(file, tmp_path, content, name, message):
    path = tmp_path / name if content is None else file(content, name)
    with pytest.raises(InputError) as caught:
        read_lines(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_table_keeps_quotes_and_columns_that_nobody_asked_for(file):
    (row,) = read_table(file(b'item\tcontext \tmore\r\n1\t"The\tx\r\n'), ["item", "context"])
    assert row.fields == {"item": "1", "context": '"The', "more": "x"}
    assert row.location.endswith("file.txt:2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"item\n1\n", r"file\.txt:1: no column 'context'; the header has item$"),
        (b"item\tcontext\n\n1\ta\tb\n", r"file\.txt:3: 3 fields, but the header has 2$"),
        (b"item\tcontext\n\n", r"file\.txt:1: no row below the header$"),
    ],
)
def test_a_bad_table_is_named(content, message, file):
    with pytest.raises(InputError, match=message):
        read_table(file(content), ["item", "context"])


def test_fields_are_texts_or_numbers(file):
    (row,) = read_table(file(b"word\trate\tnone\n tea \t0.5\t \n"), [])
    assert (row.text("word"), row.number("rate")) == ("tea", 0.5)
    for call, message in [
        (lambda: row.text("none"), r":2: none is ' '; a text is needed$"),
        (lambda: row.text("absent"), r":2: absent is missing; a text is needed$"),
        (lambda: row.number("word"), r":2: word is ' tea '; a number is needed$"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", r"^f:7: not JSON \("), ("[1, 2]", r"^f:7: '\[1, 2\]' is not a JSON object; write one object per line$")],
)
def test_json_lines_that_are_none(line, message):
    with pytest.raises(InputError, match=message):
        json_rows([('{"a": 1}', "f:6"), (line, "f:7")])
