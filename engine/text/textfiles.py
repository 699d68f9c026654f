"""The one reader of text files: line by line, so that every error names its file and line.

Lexicons, word lists, tables and JSON lines are all read here. A file is UTF-8 text, with or without a byte order mark;
a file whose name ends in `.gz` is unpacked while it is read. A line and a text are bounded, so that no file takes all
memory.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InputError
from ..files.json_text import parse_json
from ..files.reading import open_regular, unreadable

LONGEST_LINE = 1_000_000
"""Bytes. A longer line shows that the file is not a text with line ends."""

MOST_LIST, MOST_TABLE = 2**22, 2**31
"""Bytes of a word list or a pattern file, and of a table or of JSON lines."""

LONGEST_ENTRY, LONGEST_FIELD = 200, 10_000
"""Characters of an entry of a word list, and of a text in a table: no model takes a longer one."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Control characters that no text holds. Other authors' texts do hold tabs, form feeds and the controls above U+007F.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_NUMBER = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_SHOWN = 60  # characters of a line in a message


@dataclass(frozen=True)
class Row:
    """One line of a file, split into its fields.

    Attributes:
        fields: name → value; strings in a table, JSON values in JSON lines.
        location: file and line.
    """

    fields: dict[str, Any]
    location: str

    def text(self, name: str) -> str:
        """A field that must be a text that is not empty, without outer white space.

        Raises:
            InputError: the field is missing, empty, not a text, or too long for any model.
        """
        value = self.fields.get(name)
        if not isinstance(value, str) or not value.strip():
            found = "is missing" if name not in self.fields else f"is {value!r}"
            raise InputError(f"{self.location}: {name} {found}; a text is needed")
        return checked_length(value.strip(), f"{self.location}: {name}")

    def number(self, name: str) -> float:
        """A field that must be a number.

        Raises:
            InputError: the field is not a number.
        """
        text = self.text(name)
        if not _NUMBER.fullmatch(text):
            raise InputError(f"{self.location}: {name} is {self.fields[name]!r}; a number is needed")
        return float(text)


@dataclass(frozen=True)
class Entry:
    """One entry of a word list, and its file and line."""

    text: str
    location: str


def checked_length(text: str, what: str) -> str:
    """The same text.

    Args:
        text: of a sentence or a word.
        what: its file, line and name, for the message.

    Raises:
        InputError: it is too long for any model.
    """
    if len(text) > LONGEST_FIELD:
        raise InputError(f"{what} has {len(text):,} characters; give a text with at most {LONGEST_FIELD:,}")
    return text


def stream_lines(path: Path, hint: str = "", most: int | None = None) -> Iterator[tuple[str, str]]:
    """All lines of a file, each with its file and line; only one line is held in memory.

    Args:
        path: the file.
        hint: what the user can do when the file cannot be read, for the message.
        most: the largest size, unpacked, in bytes; None for a file that is never held in memory.

    Raises:
        InputError: the file cannot be read, or is too large; a line is not UTF-8, holds a control character or is too
            long.
    """
    with _opened(path, hint) as stream:
        yield from _lines(stream, str(path), most)


def read_lines(path: Path) -> list[tuple[str, str]]:
    """The lines of a file that are not empty, each with its file and line.

    Raises:
        InputError: as `stream_lines`, or all lines are empty.
    """
    return _not_empty(stream_lines(path, most=MOST_TABLE), str(path))


def decoded(content: bytes, name: str) -> list[tuple[str, str]]:
    """The same for a file that is held in memory.

    Raises:
        InputError: as `read_lines`.
    """
    return _not_empty(_lines(io.BytesIO(content), name, None), name)


def read_text(path: Path, hint: str = "") -> str:
    """A file as one text with line feeds, without a byte order mark.

    Raises:
        InputError: as `stream_lines`.
    """
    return "".join(f"{text}\n" for text, _ in stream_lines(path, hint, MOST_LIST))


def read_entries(path: Path, hint: str = "") -> list[Entry]:
    """The entries of a word list: one a line; empty lines and lines that begin with "#" do not count.

    Raises:
        InputError: as `stream_lines`; an entry holds a character that is not printable, two spaces in a row, or a
            comment.
    """
    lines = stream_lines(path, hint, MOST_LIST)
    return [Entry(text, location) for line, location in lines if (text := _entry(line, location))]


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """The rows of a table with a header; tabs separate the fields, and quotes have no meaning.

    Args:
        path: the file.
        columns: the columns that it must have; others are kept too.

    Raises:
        InputError: as `read_lines`; a column is missing, a row has more or fewer fields than the header, or there is no
            row.
    """
    rows = table_rows(read_lines(path))
    if absent := [name for name in columns if name not in rows[0].fields]:
        raise InputError(f"{path}:1: no column {absent[0]!r}; the header has {', '.join(rows[0].fields)}")
    return rows


def table_rows(lines: Sequence[tuple[str, str]]) -> list[Row]:
    """The rows of a table from its lines, the header first; tabs separate the fields, and quotes have no meaning.

    Args:
        lines: each with its file and line; at least one.

    Raises:
        InputError: a row has more or fewer fields than the header, or there is no row.
    """
    return list(stream_rows(lines, ""))


def stream_rows(lines: Iterable[tuple[str, str]], name: str) -> Iterator[Row]:
    """The same one by one; empty lines do not count.

    Args:
        lines: each with its file and line, the header first.
        name: the file, for the message if there is no line.

    Raises:
        InputError: as `table_rows`, or there is no line that is not empty.
    """
    filled = ((line, location) for line, location in lines if line.strip())
    header, first = next(filled, ("", f"{name}:1"))
    if not header:
        raise InputError(f"{first}: the file is empty")
    names = [column.strip() for column in header.split("\t")]
    below = False
    for line, location in filled:
        below = True
        fields = line.split("\t")
        if len(fields) != len(names):
            raise InputError(f"{location}: {len(fields)} fields, but the header has {len(names)}")
        yield Row(dict(zip(names, fields, strict=True)), location)
    if not below:
        raise InputError(f"{first}: no row below the header")


def json_rows(lines: Sequence[tuple[str, str]]) -> list[Row]:
    """Lines that hold one JSON object each.

    Raises:
        InputError: a line does not.
    """
    rows = []
    for line, location in lines:
        fields = parse_json(line, location)
        if not isinstance(fields, dict):
            raise InputError(f"{location}: {line.strip()[:40]!r} is not a JSON object; write one object per line")
        rows.append(Row(fields, location))
    return rows


@contextmanager
def _opened(path: Path, hint: str) -> Iterator[BinaryIO]:
    with open_regular(path, hint) as file:
        try:
            with gzip.open(file) if path.suffix == ".gz" else file as stream:
                yield stream  # type: ignore[misc]  # a GzipFile reads like a BinaryIO
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, error, hint) from error


def _lines(stream: BinaryIO, name: str, most: int | None) -> Iterator[tuple[str, str]]:
    size = 0
    for number in count(1):
        line = stream.readline(LONGEST_LINE + 1)
        if not line:
            return
        size += len(line)
        location = f"{name}:{number}"
        if most is not None and size > most:
            raise InputError(f"{location}: the file has more than {most:,} bytes; give a smaller one")
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{location}: this line has more than {LONGEST_LINE:,} bytes; give a text file with shorter lines"
            )
        yield decoded_line(line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line, location), location


def decoded_line(line: bytes, location: str) -> str:
    """A line as text, without its end.

    Args:
        line: its bytes.
        location: its file and line, for the message.

    Raises:
        InputError: it is not UTF-8, or holds a control character.
    """
    try:
        # Only a line feed ends a line: JSON may hold the other characters that str.splitlines() splits at.
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{location}: byte 0x{line[error.start]:02x} is not UTF-8; save the file as UTF-8 text"
        ) from error
    if found := _CONTROL.search(text):
        raise InputError(f"{location}: {_not_printable(found[0], text)}")
    return text


def _not_empty(lines: Iterator[tuple[str, str]], name: str) -> list[tuple[str, str]]:
    if found := [(text, location) for text, location in lines if text.strip()]:
        return found
    raise InputError(f"{name}:1: the file is empty")


def _entry(line: str, location: str) -> str | None:
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    if fault := fault_of_entry(text):
        raise InputError(f"{location}: {fault}")
    return text


def fault_of_entry(text: str) -> str:
    """The error in a word or phrase that fills a slot; empty if there is none."""
    if odd := next((character for character in text if not character.isprintable()), None):
        return _not_printable(odd, text)
    if not text.strip():
        return "an empty word; give one"
    if len(text) > LONGEST_ENTRY:
        return f"{len(text):,} characters in {text!r}; a word has at most {LONGEST_ENTRY}"
    if "  " in text:
        return f"two spaces in a row in {text!r}; write one"
    if " #" in text:
        return f"a comment after the entry in {text!r}; give it a line of its own"
    return ""


def _not_printable(character: str, text: str) -> str:
    start = max(0, text.index(character) - _SHOWN // 2)
    excerpt = text[start : start + _SHOWN]
    return f"the character U+{ord(character):04X} in {excerpt!r} is not printable; remove it"
